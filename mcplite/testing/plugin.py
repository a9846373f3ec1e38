"""A plugin for pytest: clients of a server in any revision, recorded servers, and snapshots of what a server offers.

pytest finds it where mcplite is installed; ``-p no:mcplite`` leaves it out. The project says once which server it tests: by
``mcp_server = shop.py:mcp`` in pytest's configuration, or by a fixture ``mcp_server`` of its own. Besides this module and the
packages around it, nothing of mcplite is loaded before a test uses one of the fixtures. The traceback of a failing call ends at
the call; ``--full-trace`` shows the rest.
"""

import difflib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

if TYPE_CHECKING:
    from types import TracebackType

    from ..client import Client
    from .cassette import Cassette

__all__ = ["mcp_cassette", "mcp_client", "mcp_client_options", "mcp_connect", "mcp_each_revision", "mcp_server", "mcp_snapshot"]

#: The folder of this package.
_PACKAGE = str(Path(__file__).parent.parent) + os.sep
#: Lines of a difference that are shown.
_MOST_LINES = 60
#: What the fixtures report at the end of the run.
_REPORTS: "pytest.StashKey[List[str]]" = pytest.StashKey()
#: Whether a test has passed.
_PASSED: "pytest.StashKey[bool]" = pytest.StashKey()
#: Options of a client that are about its transport. They are left out if a cassette replaces the server.
_OF_TRANSPORT = ("auth", "cwd", "env", "headers", "session", "stderr")


# --- pytest's hooks ----------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("mcplite")
    group.addoption("--mcp-record", choices=["once", "none", "all"], default="once",
                    help="mcp_cassette: record what has no cassette yet (once), never (none), or everything again (all)")
    group.addoption("--mcp-update", action="store_true", help="mcp_snapshot: write the snapshots again")
    parser.addini("mcp_server", "the server under test: FILE.py, FILE.py:NAME or module:NAME, a URL, or a command")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the report."""
    config.stash[_REPORTS] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each revision, unless it chooses some itself."""
    name = "mcp_each_revision"
    chosen = any(name in str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize") if mark.args)
    if name in metafunc.fixturenames and not chosen:
        from ..revisions import REVISIONS

        metafunc.parametrize(name, [revision.name for revision in REVISIONS], indirect=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    """Note whether the test has passed, since only then its recordings are kept; shorten the traceback of one that fails."""
    if call.excinfo is not None and not (item.config.getoption("fulltrace", False) or item.config.getoption("usepdb", False)):
        _shorten(call.excinfo.value, str(item.config.rootpath))
    outcome: Any = yield
    if call.when == "call":
        item.stash[_PASSED] = outcome.get_result().passed


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what was recorded and written, and what has changed since the last recording."""
    reports = config.stash.get(_REPORTS, [])
    if reports:
        terminalreporter.section("mcplite")
        for text in reports:
            terminalreporter.line(text)


# --- tracebacks --------------------------------------------------------------------------------------


def _shorten(error: Optional[BaseException], root: str) -> None:
    """Remove the frames of this package, and of code that it calls, from the tracebacks of an error and of its causes.

    :param root: the project's folder; its frames stay, since this package calls functions of the project, too.
    """
    def is_ours(trace: "TracebackType") -> bool:
        return trace.tb_frame.f_code.co_filename.startswith(_PACKAGE)

    def is_of_project(trace: "TracebackType") -> bool:
        path = trace.tb_frame.f_code.co_filename
        return path.startswith(root) and "site-packages" not in path

    seen: List[BaseException] = []
    while error is not None and error not in seen:
        kept: List[TracebackType] = []
        first: Optional[TracebackType] = None
        inside, trace = False, error.__traceback__
        while trace is not None:
            inside = is_ours(trace) or inside and not is_of_project(trace)
            if not inside:
                kept.append(trace)
            elif first is None:
                first = trace
            trace = trace.tb_next
        if not seen and first is not None and not any(map(is_of_project, kept)):
            kept.append(first)  # a fixture of this plugin failed, and no frame of the project is in the traceback
        for at, frame in enumerate(kept, 1):
            frame.tb_next = kept[at] if at < len(kept) else None
        error.__traceback__ = kept[0] if kept else None
        seen.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


# --- clients -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def mcp_server(request: pytest.FixtureRequest) -> Any:
    """The server under test; a project overrides this fixture, or sets ``mcp_server`` in pytest's configuration.

    It is any target of ``connect()``: a Server object, the path of a file, a URL, a command. The server of a module is loaded
    into the process of the tests, once.
    """
    target = str(request.config.getini("mcp_server") or "")
    if not target:
        pytest.fail("say which server is tested: write mcp_server = shop.py:mcp into pytest's configuration, or a fixture"
                    " mcp_server that returns it", pytrace=False)
    place = target.rpartition(":")[0] or target
    path = Path(request.config.rootpath, place)
    is_file = place.endswith(".py") and (" " not in place or path.is_file())  # a command, too, may end with a file
    if "://" in target or not (is_file or all(part.isidentifier() for part in place.split("."))):
        return target
    from ..server.program import load

    return load(f"{path}{target[len(place):]}" if is_file else target)


@pytest.fixture
def mcp_client_options() -> Dict[str, Any]:
    """Keyword arguments of ``connect()`` for all clients of the plugin; a project overrides this fixture."""
    return {}


@pytest.fixture
def mcp_connect(mcp_client_options: Dict[str, Any]) -> "Iterator[Callable[..., Client]]":
    """A function that takes what ``connect()`` does, and returns an open client, which is closed when the test ends."""
    import contextlib

    with contextlib.ExitStack() as stack:
        def connect(target: Any, **options: Any) -> "Client":
            from ..client import connect

            return stack.enter_context(connect(target, **{**mcp_client_options, **options}))

        yield connect


@pytest.fixture
def mcp_client(mcp_connect: "Callable[..., Client]", mcp_server: Any) -> "Client":
    """A client of ``mcp_server``, in the newest revision that both know."""
    return mcp_connect(mcp_server)


@pytest.fixture
def mcp_each_revision(request: pytest.FixtureRequest, mcp_connect: "Callable[..., Client]", mcp_server: Any) -> "Client":
    """A client of ``mcp_server`` in each revision: the test runs once for each.

    ``@pytest.mark.parametrize("mcp_each_revision", [...], indirect=True)`` chooses some.
    """
    return mcp_connect(mcp_server, revision=request.param)


# --- cassettes ---------------------------------------------------------------------------------------


@pytest.fixture
def mcp_cassette(request: pytest.FixtureRequest, mcp_connect: "Callable[..., Client]") -> "Iterator[Callable[..., Client]]":
    """A function like ``mcp_connect`` that records the server once, and then answers from the recording, without the server.

    ``client = mcp_cassette("https://example.com/mcp")``; a second call in a test needs ``name="other"``. The recordings are
    beside the test, as ``cassettes/MODULE/TEST.jsonl``, or ``CLASS.TEST.jsonl`` for a test in a class; one of a test that fails
    is not kept. A request that was not recorded fails with an error that names the nearest recorded one. ``--mcp-record=none``
    never records, as for a CI; ``all`` records again, and the end of the run shows what has changed.
    """
    recordings: List[_NewCassette] = []

    def connect(target: Any, *, name: Optional[str] = None, **options: Any) -> "Client":
        path = _beside(request, "cassettes", name, "jsonl")
        mode = request.config.getoption("--mcp-record")
        if mode == "none" and not path.exists():
            pytest.fail(f"there is no cassette {_shown(path, request)}: record it with --mcp-record=once", pytrace=False)
        if any(one.path == path for one in recordings):
            pytest.fail(f"the cassette {_shown(path, request)} is being recorded: give mcp_cassette(..., name=) for another"
                        " connection", pytrace=False)
        if mode != "all" and path.exists():
            from .cassette import Cassette

            return mcp_connect(Cassette(path), **_for_cassette(Cassette(path), options))
        new = _NewCassette(path, target, request)
        recordings.append(new)
        return mcp_connect(target, **{**options, "options": new.options_for(options.get("options"))})

    yield connect
    for recording in recordings:
        recording.finish(request.node.stash.get(_PASSED, False))


class _NewCassette:
    """A cassette that is recorded as ``PATH.new``, and replaces the one at the path if the test passes.

    :param path: of the cassette.
    :param target: the server that is recorded.
    """

    def __init__(self, path: Path, target: Any, request: pytest.FixtureRequest) -> None:
        from .recording import CassetteWriter

        self.path, self._request = path, request
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = CassetteWriter(f"{path}.new", target if isinstance(target, str) else type(target).__name__)

    def options_for(self, given: Any) -> Any:
        """Return the options of a client that is recorded."""
        from ..client import ClientOptions
        from ..types.lazy_dataclass import changed

        given = given or ClientOptions()
        if given.on_message is not None:
            pytest.fail("mcp_cassette sets ClientOptions(on_message=) itself: leave it out", pytrace=False)
        return changed(given, on_message=self._writer)

    def finish(self, passed: bool) -> None:
        """Keep the recording if the test has *passed*, and report what has changed."""
        from .cassette import Cassette

        self._writer.close()
        if not passed:
            return os.unlink(self._writer.path)
        before = Cassette(self.path) if self.path.exists() else None
        os.replace(self._writer.path, self.path)
        reports, shown = self._request.config.stash[_REPORTS], _shown(self.path, self._request)
        reports.append(f"recorded {shown}")
        if self._writer.masked:
            reports.append(f"  {self._writer.masked} messages have values that look like secrets; they are written as ***")
        if before is not None:
            reports += _difference(_lines(before), _lines(Cassette(self.path)), "before", "now") or ["  nothing has changed"]


def _lines(cassette: "Cassette") -> List[str]:
    return [line for message in cassette.messages for line in _pretty(message)]


def _for_cassette(cassette: "Cassette", options: Dict[str, Any]) -> Dict[str, Any]:
    """Return the options of a client without those for a transport."""
    from ..client.client_options import LINE_LIMIT
    from ..client.connect import applicable
    from ..types.lazy_dataclass import changed

    found = {name: value for name, value in options.items() if name not in _OF_TRANSPORT}
    found.setdefault("revision", cassette.revision)
    if found.get("options") is not None:
        found["options"] = changed(applicable(applicable(found["options"], "http"), None), line_limit=LINE_LIMIT)
    return found


# --- snapshots ---------------------------------------------------------------------------------------


@pytest.fixture
def mcp_snapshot(request: pytest.FixtureRequest) -> "Callable[..., None]":
    """A function that compares what a server offers with a file beside the test, and fails with the difference.

    ``mcp_snapshot(client)`` looks at the server's name, instructions and capabilities, and at its tools, prompts, resources and
    templates, as the client's revision has them; the version of the server may change. ``snapshots/MODULE/TEST.json``, or
    ``CLASS.TEST.json`` for a test in a class, is written when it is missing, and again with ``--mcp-update``. If it is missing,
    and ``--mcp-record=none`` is given without ``--mcp-update``, the test fails. A second snapshot in a test needs
    ``name="other"``.
    """
    def compare(client: "Client", *, name: Optional[str] = None) -> None:
        path = _beside(request, "snapshots", name, "json")
        now = _pretty(_description(client))
        config = request.config
        update = config.getoption("--mcp-update")
        if not update and not path.exists() and config.getoption("--mcp-record") == "none":
            pytest.fail(f"there is no snapshot {_shown(path, request)}: write it with --mcp-update", pytrace=False)
        if update or not path.exists():
            text = "\n".join(now) + "\n"
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                config.stash[_REPORTS].append(f"wrote {_shown(path, request)}")
            return
        changes = _difference(path.read_text(encoding="utf-8").splitlines(), now, _shown(path, request), "the server")
        if changes:
            pytest.fail("\n".join(["the server offers something else than before; --mcp-update accepts that:", *changes]),
                        pytrace=False)

    return compare


def _description(client: "Client") -> Dict[str, Any]:
    from ..types import codec

    capabilities = client.server_capabilities
    lists: Tuple[Tuple[str, Any, Callable[[], List[Any]]], ...] = (
        ("prompts", capabilities.prompts, client.list_prompts), ("resources", capabilities.resources, client.list_resources),
        ("resourceTemplates", capabilities.resources, client.list_resource_templates),
        ("tools", capabilities.tools, client.list_tools))
    found = {kind: [codec.encode(entry, client.revision) for entry in read()] for kind, offered, read in lists
             if offered is not None}
    info = codec.encode(client.server_info, client.revision)
    info.pop("version", None)
    return {"server": info, "instructions": client.instructions, "capabilities": codec.encode(capabilities, client.revision),
            **{kind: sorted(entries, key=_key) for kind, entries in found.items()}}


def _key(entry: Dict[str, Any]) -> str:
    return str(entry.get("uri") or entry.get("uriTemplate") or entry.get("name"))


# --- files -------------------------------------------------------------------------------------------


def _beside(request: pytest.FixtureRequest, folder: str, name: Optional[str], ending: str) -> Path:
    """Return the path of a file of a test, named after the test and its class, and after *name* if the test has several."""
    test = ".".join([*(one.name for one in request.node.listchain() if isinstance(one, pytest.Class)), request.node.name])
    own = "".join(letter if letter.isalnum() or letter in "-_.[]" else "-" for letter in test)
    stem = f"{own}-{name}" if name else own
    return Path(request.path.parent, folder, request.path.stem, f"{stem}.{ending}")


def _shown(path: Path, request: pytest.FixtureRequest) -> str:
    try:
        return path.relative_to(request.config.rootpath).as_posix()
    except ValueError:
        return str(path)


def _pretty(value: Any) -> List[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).splitlines()


def _difference(before: List[str], after: List[str], old: str, new: str) -> List[str]:
    lines = list(difflib.unified_diff(before, after, old, new, lineterm=""))
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"... and {more} more lines"]
