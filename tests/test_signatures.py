"""Public functions have explicit signatures: editors complete their keywords, and mypy and Python find a typo in one.

The functions are found by themselves: all public methods of the objects in ``OBJECTS``, and all functions of ``MODULES``.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite import llm, openapi
from mcplite.client.group import Group
from mcplite.llm.toolset import Kit
from mcplite.server.transports.httpd import HTTPServer
from mcplite.server.transports.wsgi import WSGIApp

ROOT = Path(mcplite.__file__).resolve().parent.parent
#: By the expression that stands for it in a program: a class whose public methods are checked.
OBJECTS = {"server": mcplite.Server, "context": mcplite.Context, "client": mcplite.Client, "group": Group, "kit": Kit}
#: Classes that users create, and functions, by the expression that calls them.
CALLABLES = {
    "mcplite.connect": mcplite.connect, "mcplite.connect_all": mcplite.connect_all,
    "mcplite.Server": mcplite.Server, "mcplite.serve": mcplite.serve, "mcplite.mount_wsgi": mcplite.mount_wsgi,
    "mcplite.Limits": mcplite.Limits, "mcplite.Elicit": mcplite.Elicit, "mcplite.Sample": mcplite.Sample,
    "mcplite.Image": mcplite.Image, "mcplite.Audio": mcplite.Audio, "mcplite.BearerAuth": mcplite.BearerAuth,
    "mcplite.StaticTokens": mcplite.StaticTokens, "mcplite.CacheHint": mcplite.CacheHint,
    "HTTPServer": HTTPServer, "WSGIApp": WSGIApp,
    **{f"mcplite.llm.{name}": getattr(llm, name) for name in llm.__all__},
    **{f"mcplite.openapi.{name}": getattr(openapi, name) for name in openapi.__all__ if name != "APIOperation"},
}
#: What a program needs in order to say these expressions.
PREAMBLE = """\
import mcplite
import mcplite.llm
import mcplite.openapi
from mcplite.client.group import Group
from mcplite.llm.toolset import Kit
from mcplite.server.transports.httpd import HTTPServer
from mcplite.server.transports.wsgi import WSGIApp

client: mcplite.Client
group: Group
kit: Kit
server: mcplite.Server
context: mcplite.Context
"""
#: Fewer would mean that the functions are not found any more.
AT_LEAST = 400


def public_methods(expression, owner):
    """Return the public methods of a class by the expressions that call them."""
    return {f"{expression}.{name}": value for name, value in inspect.getmembers(owner, inspect.isfunction)
            if not name.startswith("_")}


FUNCTIONS = {**CALLABLES, **{name: value for expression, owner in OBJECTS.items()
                             for name, value in public_methods(expression, owner).items()}}


def keywords(function):
    """Return the parameters that can be given by name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind in named and name != "self"]


TYPOS = [(expression, name + "_x") for expression, function in sorted(FUNCTIONS.items()) for name in keywords(function)]


def test_a_public_function_names_all_of_its_keywords():
    for name, function in FUNCTIONS.items():
        parameters = inspect.signature(function).parameters.values()
        assert [str(item) for item in parameters if item.kind in (item.VAR_KEYWORD, item.VAR_POSITIONAL)] == [], name


@pytest.mark.parametrize("expression", sorted(FUNCTIONS))
def test_the_error_for_a_wrong_keyword_names_the_public_function(expression):
    function = FUNCTIONS[expression]
    name = expression.rpartition(".")[2]
    called = f"({name}|__init__)" if inspect.isclass(function) else name
    with pytest.raises(TypeError) as raised:
        # Other arguments are missing, too; Python reports the unknown keyword first.
        function(**{"no_such_keyword": 1}) if inspect.isclass(function) or "mcplite." in expression else function(
            object(), **{"no_such_keyword": 1})
    assert re.search(rf"\b{called}\(\) got an unexpected keyword argument 'no_such_keyword'", str(raised.value))
    assert "Features" not in str(raised.value)


@pytest.mark.slow
def test_mypy_reports_a_typo_in_each_keyword_of_each_public_function(tmp_path):
    pytest.importorskip("mypy")
    assert len(TYPOS) >= AT_LEAST
    first = PREAMBLE.count("\n") + 1
    program = tmp_path / "typos.py"
    program.write_text(PREAMBLE + "".join(f"{call}({typo}=None)\n" for call, typo in TYPOS)
                       + "".join(f"{call}()\n" for call in ("server.tool", "server.prompt")), "utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "", "--cache-dir", str(tmp_path / "cache"), "--no-error-summary",
         "--follow-imports", "silent", "--show-error-codes", program.name],
        cwd=str(tmp_path), env={"MYPYPATH": str(ROOT), "PATH": ""}, stdout=subprocess.PIPE, timeout=600)
    reported = {}
    for line, text in re.findall(r"^typos\.py:(\d+): error: (.*)", ran.stdout.decode("utf-8"), re.MULTILINE):
        reported.setdefault(int(line), []).append(text)
    missed = [f"{call}({typo}=...)" for number, (call, typo) in enumerate(TYPOS, first)
              if not any(f'Unexpected keyword argument "{typo}"' in text or "No overload variant" in text
                         for text in reported.get(number, ()))]
    assert missed == [], ran.stdout.decode("utf-8")[:2000]
    # Calls without a typo are not reported, so the overloads refuse the typo and nothing else.
    assert [reported.get(first + len(TYPOS) + at) for at in range(2)] == [None, None]
