"""Parameters that travel in headers as well."""

from typing import Annotated, List

import pytest

import mcplite


def test_the_mark_is_in_the_tools_schema():
    mcp = mcplite.Server("marks")

    @mcp.tool()
    def nearest(region: Annotated[str, mcplite.Header("Region")], count: int = 1) -> str:
        return region

    with mcplite.connect(mcp) as client:
        properties = client.list_tools()[0].input_schema["properties"]
    assert properties["region"]["x-mcp-header"] == "Region" and "x-mcp-header" not in properties["count"]


@pytest.mark.parametrize("name", ["", "my region", "a:b", "naïve", "a\r\nb"])
def test_an_invalid_header_name_is_refused(name):
    with pytest.raises(ValueError, match="not the name of a header field"):
        mcplite.Header(name)


def test_a_parameter_of_another_type_is_refused_at_registration():
    mcp = mcplite.Server("marks")
    with pytest.raises(mcplite.errors.RegistrationError, match="string, integer or boolean"):
        @mcp.tool()
        def nearest(regions: Annotated[List[str], mcplite.Header("Region")]) -> str:
            return "nowhere"


def test_two_parameters_with_one_name_are_refused():
    mcp = mcplite.Server("marks")
    with pytest.raises(mcplite.errors.RegistrationError, match="comes twice"):
        @mcp.tool()
        def route(start: Annotated[str, mcplite.Header("Place")], end: Annotated[str, mcplite.Header("place")]) -> str:
            return start + end
