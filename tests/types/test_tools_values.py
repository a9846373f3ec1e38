import json

import pytest

import mcplite
from mcplite.types import NULL, CallToolResult, ImageContent, TextContent


def result(structured, *texts, **more):
    return CallToolResult([TextContent(text) for text in texts], structured_content=structured, **more)


@pytest.mark.parametrize("value", [3, 2.5, True, None, "text", "3", '"quoted"', [], [1, [2, 3]], ["a", "b"], {"a": 1}],
                         ids=repr)
def test_a_value_is_the_same_however_it_travelled(value):
    text = value if isinstance(value, str) else json.dumps(value, indent=2)
    assert result({"result": value}, text).data == value
    if value is not None:
        assert result(value, text).data == value
    assert result(NULL, "null").data is None


def test_the_official_servers_write_one_text_for_each_item():
    assert result({"result": ["a", "b"]}, "a", "b").data == ["a", "b"]
    assert result({"result": [[1, 2], [3]]}, "1", "2", "3").data == [[1, 2], [3]]
    assert result({"result": []}).data == [] and result({"result": None}).data is None


def test_fastmcp_marks_what_it_has_wrapped():
    marked = {"fastmcp": {"wrap_result": True}}
    assert result({"result": 3}, "about three", meta=marked).data == 3
    assert result({"n": 3}, "3", meta=marked).data == {"n": 3}
    assert result({"result": 3}, "about three", meta={"fastmcp": "odd"}).data == {"result": 3}


def test_an_object_of_the_tools_own_is_left_whole():
    for own in ({"result": 3}, {"result": "ok"}, {"result": [1]}, {"result": {"result": 1}}):
        assert result(own, json.dumps(own)).data == own
    assert result({"result": 3}, "The sum is 3").data == {"result": 3}
    assert result({"result": 3, "unit": "m"}, "3").data == {"result": 3, "unit": "m"}
    assert result({"a": 1}, "a is one").data == {"a": 1}


def test_without_structured_content_it_is_the_text():
    assert result(None, "3").data == "3" and result(None, '{"a": 1}').data == '{"a": 1}'
    assert result(None, "a", "b").data == ["a", "b"] and result(None).data is None
    image = ImageContent("aGk=", "image/png")
    assert CallToolResult([image]).data is image
    assert CallToolResult([TextContent("see"), image]).data == ["see", image]


def test_in_revisions_without_structured_content_a_text_is_json_if_it_can_be():
    for text, value in (("3", 3), ("null", None), ('{"a": [1]}', {"a": [1]}), ("hello", "hello"), ("NaN", "NaN"),
                        ("[" * 100_000, "[" * 100_000)):
        old = result(None, text)
        old.take_texts_as_json()
        assert old.data == value


def test_a_failed_tool_has_no_value():
    with pytest.raises(mcplite.ToolError, match="no such city"):
        result(None, "no such city", is_error=True).data  # noqa: B018
