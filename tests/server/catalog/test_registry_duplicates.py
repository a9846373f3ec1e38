"""Names that are registered again: refused, replaced, and in notebooks replaced by their own new definition."""

import sys

import pytest

import mcplite
from mcplite.errors import RegistrationError

CELL = """
@mcp.tool
def add(a: int, b: int) -> int:
    return a {sign} b

@mcp.resource("data://sign")
def sign() -> str:
    return "{sign}"

@mcp.prompt
def ask(what: str) -> str:
    return "{sign}"

@mcp.completion(prompt="ask", argument="what")
def complete(value):
    return ["{sign}"]
"""


def run_cell(mcp, sign, module="__main__"):
    """Define the functions of a cell, as a notebook does."""
    code = compile(CELL.format(sign=sign), "<cell>", "exec")
    exec(code, {"mcp": mcp, "__name__": module})


def said(mcp):
    with mcplite.connect(mcp) as client:
        return [client.call_tool("add", {"a": 5, "b": 3}).text, client.read_resource("data://sign").text,
                client.get_prompt("ask", {"what": "x"}).messages[0].content.text,
                client.complete(prompt="ask", argument="what", value="").values[0]]


@pytest.mark.parametrize("policy, warnings", [("replace", 0), ("warn", 4)])
def test_an_entry_takes_the_place_of_the_old_one(caplog, policy, warnings):
    mcp = mcplite.Server("twice", on_duplicate=policy)
    run_cell(mcp, "+", "one")
    mcp.add_tool(lambda: 1, name="last")
    run_cell(mcp, "-", "two")
    assert said(mcp) == ["2", "-", "-", "-"]
    assert list(mcp.registry.all("tools")) == ["add", "last"]
    assert sum("is registered again" in record.getMessage() for record in caplog.records) == warnings


def test_connected_clients_get_the_new_entry():
    mcp = mcplite.Server("twice", on_duplicate="replace")
    run_cell(mcp, "+")
    with mcplite.connect(mcp) as client:
        assert client.call_tool("add", {"a": 5, "b": 3}).text == "8"
        run_cell(mcp, "-")
        assert client.call_tool("add", {"a": 5, "b": 3}).text == "2"


def test_a_name_is_not_registered_twice_by_default():
    mcp = mcplite.Server("once")
    run_cell(mcp, "+")
    with pytest.raises(RegistrationError, match="^tool 'add' is registered already; .*on_duplicate='replace'"):
        run_cell(mcp, "-")
    assert said(mcp) == ["8", "+", "+", "+"]


def test_a_cell_of_a_notebook_can_be_run_again(monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    mcp = mcplite.Server("notebook")
    run_cell(mcp, "+")
    run_cell(mcp, "-")
    assert said(mcp) == ["2", "-", "-", "-"]


@pytest.mark.parametrize("first, second", [("__main__", "tools"), ("tools", "tools")])
def test_only_functions_of_the_session_itself_replace_themselves(monkeypatch, first, second):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    mcp = mcplite.Server("notebook")
    run_cell(mcp, "+", first)
    with pytest.raises(RegistrationError, match="already"):
        run_cell(mcp, "-", second)


def test_another_function_of_the_session_does_not_take_the_name(monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    mcp = mcplite.Server("notebook")
    run_cell(mcp, "+")
    other = type(run_cell)(run_cell.__code__, {"__name__": "__main__"}, "other")
    other.__qualname__ = "other"
    with pytest.raises(RegistrationError, match="already"):
        mcp.tool("add")(other)
