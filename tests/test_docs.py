"""The documentation: its code runs, its tables are the code's, its links and names exist.

``python -m tests.test_docs`` writes the table of revisions into its page.
"""

import ast
import contextlib
import dataclasses
import gc
import io
import json
import logging
import os
import re
import runpy
import subprocess
import sys
import threading
import warnings
import xml.etree.ElementTree
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import pytest

import mcplite
from mcplite import errors, revisions
from mcplite.__main__ import main as client_main
from mcplite.auth.issuer.users import change_user
from mcplite.cli.host_applications import HOSTS
from mcplite.server.__main__ import main as server_main
from tests.support.authserver import AuthServer
from tests.support.models import anthropic_reply, canned_api, model_of_any_api
from tests.support.sources import FILES, nodes

pytestmark = [pytest.mark.one_python, pytest.mark.usefixtures("collects_new_objects_only")]  # each page collects garbage

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = sorted(DOCS.glob("*.rst"))
#: Libraries of the extra ``stack`` that a page uses; it is skipped where they are not installed.
NEEDS = {"flask": ["flask_login"], "openapi": ["flask"], "telemetry": ["opentelemetry.sdk"],
         "types": ["annotated_types", "attrs", "msgspec", "numpy", "pandas", "pydantic"]}
#: The page whose blocks are the cells of a notebook.
NOTEBOOK = "notebooks"
#: Pages with results of types that an extension adds, which the official schemas do not have.
EXTENDING = {"extending"}
#: Pages whose files ``tests/frameworks/test_pages.py`` and ``tests/interop/test_deploying.py`` run, in the programs that they
#: are for.
PROGRAMS = {"deploying", "django", "workers"}
BLOCK = re.compile(r"^( *)\.\. code-block:: python\n((?:\1   :.*\n)*)\n((?:\1   .*\n|\n)+)", re.MULTILINE)


def blocks(text):
    """Yield ``(line, code, runs)`` for each block of Python; a "sketch", or one of a file (its caption), is only compiled."""
    for found in BLOCK.finditer(text + "\n"):
        yield text.count("\n", 0, found.start(3)) + 1, code_of(found), not re.search(r"sketch|:caption:", found.group(2))


def code_of(block):
    indent = len(block.group(1)) + 3
    return "".join(line[indent:] if line.strip() else "\n" for line in block.group(3).splitlines(keepends=True))


def files(text):
    """Return the files whose blocks a page shows one after another, by their captions."""
    found = {}
    for block in BLOCK.finditer(text + "\n"):
        caption = re.search(r":caption: (\S+)", block.group(2))
        if caption:
            found[caption.group(1)] = found.get(caption.group(1), "") + code_of(block)
    return found


@pytest.fixture
def logging_as_before():
    """Restore the loggers of the process after a page."""
    loggers = [logging.getLogger(name) for name in (None, "mcplite", "mcplite.access", "mcplite.wire")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        for handler in logger.handlers[:]:
            if handler not in handlers:
                logger.removeHandler(handler)
                handler.close()


def exchanged(fields, answer):
    """Exchange a user's ID token for a grant to another server; other requests are not handled here."""
    if fields["grant_type"] != "urn:ietf:params:oauth:grant-type:token-exchange":
        return NotImplemented
    return answer.json({"access_token": "grant", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
                        "token_type": "N_A"})


@contextlib.contextmanager
def models(replies, requests, sdks=("anthropic.lib.tools", "openai", "google.genai", "langchain_core")):
    """Put a scripted model behind the SDKs' environment variables.

    :param replies: as of ``canned_api``.
    :param requests: how many it gets.
    """
    for sdk in sdks:
        pytest.importorskip(sdk)
    with canned_api(replies) as api, pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
            patch.setenv(f"{name}_API_KEY", "key")
        for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            patch.setenv(name, api.url)
        patch.setenv("NO_PROXY", "127.0.0.1")
        # SDKs warn of models that will not be served for ever.
        warnings.filterwarnings("ignore", "The model '.*' is deprecated", DeprecationWarning)
        yield
        assert len(api.requests) == requests


@contextlib.contextmanager
def weather_api():
    """Serve an API that knows the sky of every city, and the rain of Rome."""
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            rome = "city=Rome" in self.path or "forecast" in self.path
            body = json.dumps({"sky": "sunny", "millimetres": 0.5} if rome else {}).encode()
            self.send_response(200 if rome else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def around(page):
    """Give the names that a page uses without defining them: the servers of others, and their credentials."""
    if page.stem == "models":
        with models(model_of_any_api, requests=11):  # five loops of two requests, and one of a server
            yield {}
        return
    if page.stem == "agent":
        replies = [anthropic_reply(("t1", "rain", {"city": "Rome"})), anthropic_reply(text="Hardly: half a millimetre.")]
        with weather_api() as url, models(replies, 2, ["anthropic"]):
            yield {"API": url}
        return
    if page.stem == "index":
        for name, code in files(page.read_text("utf-8")).items():
            Path(name).write_text(code, "utf-8")
    if page.stem == "issuer":
        change_user("users.txt", "ann", "correct horse", new=True)
    if page.stem != "authorization":
        yield {}
        return
    with AuthServer() as provider:
        provider.subject = "ann"
        provider.on_token = exchanged
        provider.know("nightly-report", "a-secret-of-the-job")
        provider.know("nightly-report-by-key", method="private_key_jwt")
        provider.know("notes-desktop")
        provider.tokens["an-opaque-token"] = {"resource": "api://notes", "scopes": ["notes:read"], "family": None}
        Path("token").write_text("header.claims.signature", "utf-8")

        def check(token):
            known = provider.tokens.get(token)
            return known and mcplite.Principal("ann", audience=known["resource"], scopes=known["scopes"])

        theirs = mcplite.Server("theirs", auth=mcplite.BearerAuth(check, issuer=provider.issuer, scopes=["notes:read"]))
        theirs.tool()(whoami)
        theirs.tool(scopes=["notes:write"])(add_note)
        with mcplite.serve(theirs) as server:
            yield {"URL": server.url, "ISSUER": provider.issuer, "IDP": provider.issuer, "SECRET": "a-secret-of-the-job",
                   "TOKEN": "an-opaque-token", "TOKEN_FILE": "token", "ID_TOKEN": "header.claims.signature"}


def whoami(ctx: mcplite.Context) -> str:
    return ctx.principal.subject


def add_note(text: str) -> str:
    return f"added {text!r}"


@pytest.mark.usefixtures("logging_as_before")
@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.bad_wire if page.stem in EXTENDING else (), id=page.stem)
                                  for page in PAGES if page.stem != NOTEBOOK])
@pytest.mark.slow
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    for library in NEEDS.get(page.stem, ()):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    with around(page) as names:
        run(page, names, monkeypatch)


def run(page, names, monkeypatch):
    gc.freeze()  # the libraries that pages before this one have imported are not looked at again
    namespace = {"__name__": f"docs_{page.stem}"}
    monkeypatch.setitem(sys.modules, namespace["__name__"], type(sys)(namespace["__name__"]))
    namespace = vars(sys.modules[namespace["__name__"]])
    namespace.update(names)
    for line, code, runs in blocks(page.read_text("utf-8")):
        compiled = compile("\n" * (line - 1) + code, str(page), "exec")
        if runs:
            exec(compiled, namespace)
    del sys.modules[namespace["__name__"]], namespace
    gc.collect()  # what a page forgets to close is reported in this test


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in PROGRAMS
                                  and any("def test_" in code for code in files(page.read_text("utf-8")).values())],
                         ids=lambda page: page.stem)
@pytest.mark.slow
def test_the_files_of_a_page_pass_their_tests(page, tmp_path):
    for name, code in files(page.read_text("utf-8")).items():
        (tmp_path / name).write_text(code, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
    ran = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)],
                         cwd=str(tmp_path), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
    output = ran.stdout.decode("utf-8", "replace")
    tests = sum(code.count("def test_") for code in files(page.read_text("utf-8")).values())
    assert ran.returncode == 0 and int(re.search(r"(\d+) passed", output).group(1)) >= tests, output


@pytest.mark.slow
def test_the_cells_of_the_page_about_notebooks_run_in_a_kernel():
    pytest.importorskip("ipykernel", reason="ipykernel is in the extra stack")
    cells = [code for _, code, _ in blocks((DOCS / f"{NOTEBOOK}.rst").read_text("utf-8"))]
    given = {"cells": cells, "answers": ["yes"], "complete": ["client.tools.mea", "client.tools.measure(pro"]}
    ran = subprocess.run([sys.executable, "-m", "tests.support.notebook"], cwd=str(DOCS.parent), timeout=110,
                         input=json.dumps(given).encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env={**os.environ, "PYTHONPATH": str(DOCS.parent)})
    assert ran.returncode == 0, ran.stderr.decode("utf-8", "replace")
    found = json.loads(ran.stdout)
    shown = found["cells"]
    assert [cell["error"] for cell in shown] == [None] * len(cells)
    assert "in this process" in shown[0]["value"] and "open" in shown[0]["value"]
    assert [cell["value"] for cell in shown[1:3]] == ["[20.5, 21.5, 22.5]", "[293.65]"]
    assert "image/png" in shown[4]["media"]
    assert shown[5]["printed"] == "1 of 3\n2 of 3\n3 of 3\n" and shown[5]["value"] == "'calibrated'"
    assert shown[6]["asked"] == ["yes or no? "] and shown[6]["value"] == "'accept'"
    assert "lab asks: Erase all values?" in shown[6]["printed"]
    assert shown[7]["value"] == "[[293.65], [293.65]]" and "'measure'" in shown[8]["printed"]
    assert any("measure" in match for match in found["completions"]["client.tools.mea"])
    assert any("probe" in match for match in found["completions"]["client.tools.measure(pro"])


def test_every_block_of_python_is_found():
    for page in PAGES:
        text = page.read_text("utf-8")
        assert len(list(blocks(text))) == text.count(".. code-block:: python"), page.name


def test_names_on_pages_exist():
    for page in PAGES:
        for name in re.findall(r"\bmcplite\.([A-Za-z_]+)", page.read_text("utf-8")):
            if name not in ("wire", "access", "requests"):  # loggers
                package = Path(mcplite.__file__).parent
                assert name in mcplite.__all__ or (package / name).exists() or (package / f"{name}.py").exists(), name


def test_every_page_is_in_the_index():
    index = "".join((DOCS / f"{name}.rst").read_text("utf-8") for name in ("index", "project"))
    pages = [page.stem for page in PAGES + sorted(DOCS.glob("*.md")) if page.stem != "index"]
    # The map is generated and long; the page about the design links to it.
    assert [name for name in pages if f"   {name}\n" not in index] == ["map"]
    assert ":doc:`map`" in (DOCS / "design.rst").read_text("utf-8")


def test_the_list_for_language_models_is_made_from_the_index():
    module = runpy.run_path(str(DOCS / "llms.py"))
    page = (DOCS / "llms.txt").read_text("utf-8")
    assert page == module["page"](), "run make map"
    links = re.findall(r"^- \[.+\]\(([^)]+)\): .+\.$", page, re.MULTILINE)
    assert len(links) == sum(len(names) for _, names in module["groups"]()) > 20
    assert [link for link in links if not (DOCS / link).is_file()] == []


@pytest.mark.parametrize("drawing", sorted((DOCS / "_static").glob("*.svg")), ids=lambda path: path.stem)
def test_a_drawing_has_a_text_alternative_with_the_same_words(drawing):
    root = xml.etree.ElementTree.parse(str(drawing)).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text and root.find(f"{space}desc").text
    labels = [text.text for text in root.iter(f"{space}text") if "l" in text.get("class", "").split()]
    page = next(text for text in (page.read_text("utf-8") for page in PAGES)
                if f".. image:: _static/{drawing.name}\n      :alt: " in text)
    assert len(labels) > 1 and [label for label in labels if label.lower() not in page.lower()] == []


def test_the_figures_of_the_first_page_are_measured():
    rows = dict(re.findall(r"^(\S.*?)  +\S+ +(?=\d)(.*)$", (DOCS / "performance.rst").read_text("utf-8"), re.MULTILINE))

    def ours_and_theirs(row):
        return [float(figure.replace(",", "")) for figure in re.findall(r"([\d.,]+)(?: \([\d.]+x\))?(?:  |$)", rows[row])][-2:]

    calls = [f"{figure / 1000:.2g} ms" for figure in ours_and_theirs("stdio, ``add``: CPU time of both")]
    starts = [f"{figure:.0f} ms" for figure in ours_and_theirs("cold start of a server, to its first list")]
    memory = [f"{figure:.1f} MiB" for figure in ours_and_theirs("its resident memory")]
    page = (DOCS / "index.rst").read_text("utf-8").split("Three figures")[1].split("Use it in")[0]
    assert re.findall(r"\d[\d.]* (?:ms|MiB)", page) == [calls[0].replace("0.093", "0.09"), calls[1], *starts, *memory]


def test_the_table_of_applications_is_that_of_install():
    page = (DOCS / "applications.rst").read_text("utf-8")
    rows = {}
    for title, name, path, project in re.findall(r"^(\S.*?)  +([a-z-]+) +``(\S+)``(?: +``(\S+)``)?$", page, re.MULTILINE):
        rows[name] = (title, path.replace("~/.config", "{config}"), project)
    assert rows == {name: (host.title, host.path.replace("{home}/.config", "{config}").replace("{home}", "~"), host.project)
                    for name, host in HOSTS.items()}


def strings_of_the_package():
    """Return all texts in the source, a line each; what an f-string fills in is an ellipsis."""
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_the_page_about_troubles_has_messages_that_exist_and_every_class():
    page = (DOCS / "troubleshooting.rst").read_text("utf-8")
    said = "\n".join(strings_of_the_package())
    quoted = re.findall(r'"([^"\n]+)"', "\n".join(line for line in page.splitlines() if line.startswith('"')))
    # A code of the status, or the kind of what is unknown, is filled in.
    assert len(quoted) > 20 and [words for words in quoted if words not in said
                                 and re.sub(r"(?<=status )1|(?<=Unknown )tool", "...", words) not in said] == []
    classes = [name for name in errors.__all__ if isinstance(getattr(errors, name), type) and name != "MCPError"]
    assert [name for name in classes if f"``{name}``" not in page] == []


def test_lines_are_short():
    assert [f"{page.name}:{number}" for page in PAGES
            for number, line in enumerate(page.read_text("utf-8").splitlines(), 1) if len(line) > 120] == []


# --- tables ----------------------------------------------------------------------------------------

NONE = "–"
FACTS = [
    ("Session begins with", lambda r: NONE if r.modern else "handshake"),
    ("Arrays of messages", lambda r: "yes" if r.batches else NONE),
    ("HTTP transport", lambda r: "sse" if r is revisions.NOVEMBER_2024 else "streamable"),
    ("Audio", lambda r: "yes" if "audio" in r.content_kinds else NONE),
    ("Resource links", lambda r: "yes" if "resource_link" in r.content_kinds else NONE),
    ("Structured output", lambda r: NONE if not r.structured_output else "object" if r.object_output_only else "any"),
    ("Bad arguments are an", lambda r: r.bad_arguments),
    ("Missing resource", lambda r: str(r.not_found)),
    ("Progress has a text", lambda r: "yes" if r.progress_message else NONE),
    ("Completions declared", lambda r: "yes" if r.completions_capability else NONE),
    ("Elicitation", lambda r: "yes" if "elicitation/create" in r.server_requests | r.input_requests else NONE),
    ("... by URL", lambda r: "yes" if r.elicitation_modes else NONE),
    ("... choices", lambda r: NONE if r.elicitation_enums == "none" else r.elicitation_enums),
    ("Tools in sampling", lambda r: "yes" if r.sampling_tools else NONE),
    ("Log level", lambda r: "session" if "logging/setLevel" in r.client_requests else "request"),
]
MARKS = ".. table of revisions\n\n", "\n.. end of table\n"


def table():
    """Return the table of revisions as reStructuredText."""
    head = ["", *(revision.name for revision in revisions.REVISIONS)]
    rows = [head] + [[fact, *(column(revision) for revision in revisions.REVISIONS)] for fact, column in FACTS]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    rule = " ".join("=" * width for width in widths)
    # A first cell must not be empty: the row would continue the one above.
    rows[0][0] = "Fact"
    lines = [" ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


def page_with(text):
    """Return the page of revisions with *text* as its table."""
    page = (DOCS / "revisions.rst").read_text("utf-8")
    before, rest = page.split(MARKS[0])
    return before + MARKS[0] + text + MARKS[1] + rest.split(MARKS[1])[1]


def test_the_table_of_revisions_is_the_packages():
    assert (DOCS / "revisions.rst").read_text("utf-8") == page_with(table()), "run python -m tests.test_docs"


def test_the_map_is_made_from_the_docstrings():
    page = runpy.run_path(str(DOCS / "map.py"))["page"]()
    assert (DOCS / "map.rst").read_text("utf-8") == page, "run make map"
    assert page.count("\n    - ``") > 150


def test_the_tables_of_limits_are_the_packages():
    page = (DOCS / "security.rst").read_text("utf-8")
    fields, shares, constants = re.split(r"\.\. (?:limits|shares|constants|end of limits)\n", page)[1:4]
    rows = dict(re.findall(r"^``([a-z_]+)`` +([\d.]+) ", fields, re.MULTILINE))
    assert rows == {field.name: str(field.default) for field in dataclasses.fields(mcplite.Limits)}
    for name, *sizes in re.findall(r"^``([a-z_]+)`` +([\d.]+) +([\d.]+) +([\d.]+) ", shares, re.MULTILINE):
        assert [float(size) * (1 << 20) for size in sizes] == [
            getattr(mcplite.Limits(memory_bytes=mebibytes << 20), name) for mebibytes in (64, 256, 2048)], name
    rest = {name: value for name, value in re.findall(r"^``([a-z_]+)`` +([\d.]+) ", constants, re.MULTILINE)}
    assert rest == {name: str(value) for name, value in vars(mcplite.Limits).items()
                    if isinstance(value, (int, float)) and name not in rows and not name.startswith("_")}


def test_the_table_of_costs_is_computed_from_the_limits():
    module = runpy.run_path(str(DOCS / "costs.py"))
    assert (DOCS / "security.rst").read_text("utf-8") == module["page"](), "run make costs"
    assert sum(cost.bytes for cost in module["costs"](mcplite.Limits())) <= 256 << 20


@pytest.mark.slow
def test_the_table_of_round_trips_is_counted(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS.parent))
    round_trips = import_module("benchmarks.round_trips")
    page = (DOCS / "deploying.rst").read_text("utf-8")
    assert page == round_trips.page(round_trips.count_round_trips()), "run python -m benchmarks.round_trips --write"


def test_the_tree_of_errors_is_complete():
    page = (DOCS / "errors.rst").read_text("utf-8")
    classes = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    assert [name for name in classes if not re.search(rf"── {name}\b|^    {name}$", page, re.MULTILINE)] == []
    for name, code in re.findall(r"``([A-Z_]+)``\s\((-\d+)\)", page):
        assert getattr(errors, name) == int(code)


def test_the_command_line_has_the_options_that_its_page_names():
    page = (DOCS / "command-line.rst").read_text("utf-8")
    using, serving = page.split("Serving\n-------")
    rows = set(re.findall(r"^``(--[a-z][a-z-]*)[` ]", using, re.MULTILINE))
    words = set(re.findall(r"(--[a-z][a-z-]*)", options_of(client_main, "call"))) - {"--help"}
    assert rows == words
    others = ("bridge", "chat", "inspect", "install", "pack", "replay")
    known = "".join([options_of(server_main), *(options_of(client_main, name) for name in others)])
    assert set(re.findall(r"(--[a-z][a-z-]*)", serving)) <= set(re.findall(r"(--[a-z][a-z-]*)", known))
    status = " ".join(page.split("Exit status: ")[1].split(".")[0].split())
    assert status in " ".join(options_of(client_main, "call").split())


def options_of(main, *command):
    """Return the help of a command line."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit):
        main([*command, "--help"])
    return printed.getvalue()


if __name__ == "__main__":
    (DOCS / "revisions.rst").write_text(page_with(table()), "utf-8")
