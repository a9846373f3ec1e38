import inspect
import rlcompleter

import pytest

import mcplite
from mcplite import revisions
from tests.support.fakes import LIMIT, Fake


@pytest.fixture
def mcp():
    mcp = mcplite.Server("calculator")

    @mcp.tool()
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @mcp.tool(name="weather.forecast")
    def forecast(city: str, days: int = 3) -> str:
        if city == "Atlantis":
            raise mcplite.ToolError("no such city")
        return f"{city}: sun for {days} days"

    @mcp.tool(name="import")
    def keyword() -> None:
        """A tool whose name is a keyword."""

    return mcp


@pytest.fixture(params=[revision.name for revision in revisions.REVISIONS])
def client(mcp, request):
    with mcplite.connect(mcp, revision=request.param, timeout=LIMIT) as client:
        yield client


def test_a_tool_is_called_like_a_function(client):
    result = client.tools.add(a=1, b=5)
    assert isinstance(result, mcplite.types.CallToolResult) and result.data == 6
    assert client.tools.add(a=1).data == 3
    assert client.tools["weather.forecast"](city="Rome").data == "Rome: sun for 3 days"


def test_the_error_of_a_tool_is_raised(client):
    with pytest.raises(mcplite.ToolError, match="no such city"):
        client.tools["weather.forecast"](city="Atlantis")


def test_arguments_have_names(client):
    with pytest.raises(TypeError, match=r"the arguments of a tool have names: add\(a: int, b: int = 2\)"):
        client.tools.add(1, 2)


def test_names_are_completed(client):
    names = dir(client.tools)
    assert "add" in names and "weather.forecast" not in names and "import" not in names
    assert client.tools._ipython_key_completions_() == ["add", "weather.forecast", "import"]
    assert list(client.tools) == ["add", "weather.forecast", "import"]
    assert "weather.forecast" in client.tools and "rain" not in client.tools and len(client.tools) == 3


def test_the_prompt_of_python_completes_names(mcp):
    with mcplite.connect(mcp, timeout=LIMIT) as client:
        found = rlcompleter.Completer({"client": client}).attr_matches("client.tools.ad")
        assert [name.rstrip("()") for name in found] == ["client.tools.add"]


@pytest.mark.slow
def test_notebooks_complete_names_and_arguments(mcp):
    jedi = pytest.importorskip("jedi", reason="IPython, which completes with it, is not installed")
    with mcplite.connect(mcp, timeout=LIMIT) as client:
        names = [{"client": client}]
        assert [one.name for one in jedi.Interpreter("client.tools.ad", names).complete()] == ["add"]
        assert {"a=", "b="} <= {one.name for one in jedi.Interpreter("client.tools.add(", names).complete()}


def test_a_function_says_what_it_takes(mcp):
    with mcplite.connect(mcp, timeout=LIMIT) as client:
        add = client.tools.add
        assert str(inspect.signature(add)) == "(*, a: int, b: int = 2) -> int"
        assert (inspect.getdoc(add), add.__name__) == ("Add two numbers.", "add")
        assert repr(add) == "<tool add(a: int, b: int = 2) -> int>"
        assert repr(client.tools).splitlines()[0] == "add(a: int, b: int = 2) -> int"


def test_an_unknown_name_has_a_hint(client):
    with pytest.raises(AttributeError, match="no tool 'ad'; did you mean 'add'"):
        client.tools.ad  # noqa: B018
    with pytest.raises(KeyError, match="no tool 'weather'; did you mean 'weather.forecast'"):
        client.tools["weather"]


def test_names_of_other_protocols_are_not_asked_for():
    # Notebooks try many of them on each object.
    with Fake() as fake, fake.connect() as client:
        tools = client.tools
        for name in ("_repr_html_", "_ipython_canary_method_should_not_exist_", "__wrapped__"):
            assert not hasattr(tools, name)
        assert "tools/list" not in fake.methods()


def test_a_changed_list_is_read_again(client, mcp):
    assert "late" not in client.tools

    @mcp.tool()
    def late() -> str:
        return "here"

    assert client.tools.late().data == "here"


def test_odd_names_of_arguments_are_left_to_keywords():
    with Fake({"tools/list": lambda params: {"tools": [
            {"name": "odd", "inputSchema": {"properties": {"class": {}, "a-b": {}, "fine": {}}}}]}}) as fake:
        with fake.connect() as client:
            assert str(inspect.signature(client.tools.odd)) == "(*, fine: any = ..., **others)"


def test_completion_survives_a_lost_server():
    with Fake() as fake, fake.connect() as client:
        client.close()
        assert "add" not in dir(client.tools)
        with pytest.raises(AttributeError):
            client.tools.add  # noqa: B018
