"""Which era a server is of: the requests in order, for servers of every kind, on pipes and over HTTP."""

import json
import logging
import re
import sys
import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.errors import (
    AuthError,
    ConnectionClosed,
    HeaderMismatch,
    HTTPStatusError,
    MCPError,
    MissingCapability,
    RequestTimeout,
    TransportError,
    UnsupportedVersion,
)
from tests.support import children, connecting
from tests.support.fakes import Fake, Refusal
from tests.support.oldserver import OldServer
from tests.support.webscript import WebScript

LIMIT = 30
MODERN = revisions.NEWEST.name
LEGACY = [revision.name for revision in revisions.LEGACY]
NEWEST_LEGACY = LEGACY[-1]
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
HANDSHAKE = ["initialize", "notifications/initialized"]
#: JSON-RPC codes by which old servers answer a method that they do not know, or that comes too early.
REFUSALS = [-32601, -32602, -32600, -32603, -32000, 0, 7]
#: Results that are no answer to the probe.
NO_DISCOVERY = [{}, {"tools": []}, {"supportedVersions": [MODERN]}, {"supportedVersions": "all", "capabilities": {}},
                {"capabilities": {}, "protocolVersion": NEWEST_LEGACY}, [], "hello", None,
                {"resultType": "banana", "supportedVersions": [MODERN], "capabilities": {}}]


def discovered(*versions, **more):
    return {"resultType": "complete", "supportedVersions": list(versions or [MODERN]), "capabilities": {"tools": {}},
            "instructions": "Be kind.", "ttlMs": 0, "cacheScope": "private",
            "_meta": {SERVER_INFO: {"name": "new", "version": "3"}}, **more}


# --- servers on a pipe ----------------------------------------------------------------------------------

CHILD = """
notes = open(sys.argv[1], "a")
given = json.loads(sys.argv[2])

def note(text):
    notes.write(text + "\\n")
    notes.flush()

def result(message, value):
    say({"jsonrpc": "2.0", "id": message["id"], "result": value})

def refuse(message, code, data=None):
    error = {"code": code, "message": "no"}
    say({"jsonrpc": "2.0", "id": message["id"], "error": error if data is None else {**error, "data": data}})

def work(message):
    result(message, {"resultType": "complete", "content": [{"type": "text", "text": "done"}]})

def legacy(message):
    if message["method"] == "initialize":
        wanted = message["params"]["protocolVersion"]
        result(message, {"protocolVersion": given.get("version", wanted), "capabilities": {"tools": {}},
                         "serverInfo": {"name": "old", "version": "1"}})
    elif message["method"] == "tools/call":
        work(message)
    elif "id" in message:
        refuse(message, -32601)

def modern(message):
    if message["method"] == "server/discover":
        result(message, given["discovered"])
    elif message["method"] == "tools/call":
        work(message)
    elif "id" in message:
        refuse(message, -32601)

def run(react):
    note("start")
    while True:
        message = read()
        if message is None:
            break
        note(message["method"])
        react(message)
"""


class Children:
    """Starts a scripted server for each process that a client starts, and has the requests of all of them."""

    def __init__(self, notes):
        self.notes = notes

    def connect(self, body, given=None, **options):
        command = children.script(CHILD + body, str(self.notes), json.dumps(given or {}))
        return connecting.connect(command, **{"timeout": LIMIT, "grace": LIMIT, **options})

    @property
    def saw(self):
        return self.notes.read_text().split()


@pytest.fixture
def child(tmp_path):
    return Children(tmp_path / "notes")


def works(client):
    """Whether the first call succeeds, after any negotiation."""
    return client.call_tool("t").text == "done"


def test_a_modern_server_on_a_pipe(child):
    with child.connect("run(modern)", {"discovered": discovered()}) as client:
        assert works(client) and client.era == "modern" and client.protocol_version == MODERN
        assert client.server_info.name == "new" and client.instructions == "Be kind."
    assert child.saw == ["start", "server/discover", "tools/call"]  # ERA-01, ERA-02


@pytest.mark.parametrize("version", LEGACY)
def test_an_old_server_on_a_pipe(child, version):
    with child.connect("run(legacy)", {"version": version}) as client:
        assert works(client) and client.era == "legacy" and client.protocol_version == version
        assert client.server_info.name == "old"
    assert child.saw == ["start", "server/discover", *HANDSHAKE, "tools/call"]


@pytest.mark.parametrize("how, what", [("refuse", code) for code in REFUSALS] + [("result", value) for value in NO_DISCOVERY])
def test_any_error_code_and_any_unrelated_answer_mean_a_handshake(child, how, what):
    # ERA-04, ERA-05, ERA-15
    body = f"""
def react(message):
    {how}(message, given["what"]) if message["method"] == "server/discover" else legacy(message)
run(react)"""
    with child.connect(body, {"what": what}) as client:
        assert works(client) and client.era == "legacy"
    assert child.saw == ["start", "server/discover", *HANDSHAKE, "tools/call"]


def test_silence_means_a_handshake(child):
    body = """
def react(message):
    if message["method"] != "server/discover":
        legacy(message)
run(react)"""
    with child.connect(body, probe_timeout=0.2) as client:
        assert works(client) and client.era == "legacy"
    # ERA-04; the probe is not cancelled, since an old server accepts no notification before the handshake.
    assert child.saw == ["start", "server/discover", *HANDSHAKE, "tools/call"]


def test_a_late_answer_to_the_probe_is_dropped(child, caplog):
    body = """
held = []
def react(message):
    if message["method"] == "server/discover":
        held.append(message)
        return
    legacy(message)
    if message["method"] == "initialize":
        result(held[0], given["discovered"])
run(react)"""
    with child.connect(body, {"discovered": discovered()}, probe_timeout=0.2) as client:
        assert works(client) and client.era == "legacy"  # ERA-06
    assert child.saw == ["start", "server/discover", *HANDSHAKE, "tools/call"]
    assert caplog.text == ""  # it is the answer to a request of our own


@pytest.mark.parametrize("ignores", [False, True])
def test_a_slow_modern_server_which_may_ignore_the_handshake(child, caplog, ignores):
    body = """
held = []
def react(message):
    if message["method"] == "server/discover" and not held:
        held.append(message)
        return
    if message["method"] == "initialize":
        modern(held[0])
        if given["ignores"]:
            return
    modern(message)
run(react)"""
    with child.connect(body, {"discovered": discovered(), "ignores": ignores}, probe_timeout=0.2) as client:
        assert works(client) and client.era == "modern"  # ERA-06: the late answer counts
        assert client.counters.refused == 0
    assert child.saw == ["start", "server/discover", "initialize", "tools/call"]
    assert caplog.text == ""  # the refusal of the handshake is the answer to a request of our own


@pytest.mark.parametrize("pause, probe_timeout", [(0, 0.2), (0.5, 0.2), (0, 1)])
@pytest.mark.slow
def test_the_answer_to_the_handshake_decides_for_a_slow_server_of_both_eras(child, pause, probe_timeout):
    # As one of the official TypeScript SDK, for which the connection is of the handshake era once it has accepted that.
    body = """
import time
held, begun = [], []
def react(message):
    if message["method"] == "server/discover" and not begun:
        held.append(message)
    elif message["method"] == "initialize":
        modern(held[0])
        time.sleep(given["pause"])
        begun.append(message)
        legacy(message)
    elif begun and message["method"] != "server/discover":
        legacy(message)
    else:
        refuse(message, -32601)
run(react)"""
    with child.connect(body, {"discovered": discovered(), "pause": pause}, probe_timeout=probe_timeout) as client:
        assert works(client) and client.era == "legacy"  # ERA-06
    assert child.saw == ["start", "server/discover", *HANDSHAKE, "tools/call"]


def test_the_refusal_of_the_handshake_is_raised_unchanged(child):
    with pytest.raises(mcplite.errors.MethodNotFound):
        child.connect("run(lambda message: refuse(message, -32601))").open()
    assert child.saw == ["start", "server/discover", "initialize", "start", "initialize"]


@pytest.mark.parametrize("probe", ["refused", "answered with something else", "not answered"])
def test_a_handshake_that_is_refused_after_the_probe_is_repeated_with_a_new_process(child, probe):
    # So does a bridge that begins a session of its own for the first request, whatever that is.
    body = """
begun = []
def react(message):
    if message["method"] == "initialize" and begun:
        refuse(message, -32600)
        if given["probe"] == "not answered":
            refuse(begun[0], -32600)
        return
    begun.append(message)
    if message["method"] != "server/discover":
        legacy(message)
    elif given["probe"] != "not answered":
        refuse(message, -32601) if given["probe"] == "refused" else result(message, {})
run(react)"""
    with child.connect(body, {"probe": probe}, probe_timeout=0.2 if probe == "not answered" else 5) as client:
        assert works(client) and client.era == "legacy"  # ERA-07
    assert child.saw == ["start", "server/discover", "initialize", "start", *HANDSHAKE, "tools/call"]


@pytest.mark.parametrize("code, data", [(-32022, {"supported": ["2027-01-01"]}), (-32602, {"supported": ["2027-01-01"]})])
def test_a_handshake_that_is_refused_for_its_revision_is_not_repeated(child, code, data):
    body = """
def react(message):
    refuse(message, -32601) if message["method"] == "server/discover" else refuse(message, given["code"], given["data"])
run(react)"""
    with pytest.raises(UnsupportedVersion):
        child.connect(body, {"code": code, "data": data}).open()
    assert child.saw == ["start", "server/discover", "initialize"]


def seconds_for_the_handshake(client):
    """Open a client whose server does not answer the handshake; return how long it had for that, as the error says."""
    with pytest.raises(RequestTimeout, match="did not answer 'initialize'") as caught:
        client.open()
    return float(re.search("within ([0-9.e-]+) s", str(caught.value)).group(1))


def test_probe_and_handshake_share_the_time_for_opening(child):
    client = child.connect("run(lambda message: None)", probe_timeout=0.7, open_timeout=1.0)
    assert seconds_for_the_handshake(client) <= 0.5  # the probe had half of it
    assert child.saw == ["start", "server/discover", "initialize"]


@pytest.mark.slow
def test_a_probe_that_may_take_longer_than_opening_leaves_time_for_the_handshake(child):
    body = """
def react(message):
    if message["method"] != "server/discover":
        legacy(message)
run(react)"""
    with child.connect(body, probe_timeout=LIMIT, open_timeout=3) as client:
        assert works(client) and client.era == "legacy"
    assert child.saw == ["start", "server/discover", *HANDSHAKE, "tools/call"]


@pytest.mark.slow
def test_a_process_that_is_started_again_has_the_rest_of_the_time(child):
    body = """
begun = []
def react(message):
    if message["method"] == "initialize" and begun:
        refuse(message, -32600)
    begun.append(message)
run(react)"""
    client = child.connect(body, probe_timeout=0.4, open_timeout=2.0)
    assert seconds_for_the_handshake(client) <= 0.8  # half of what the probe has left is for its late answer
    assert child.saw == ["start", "server/discover", "initialize", "start", "initialize"]


@pytest.mark.slow
def test_a_process_without_an_answer_to_probe_is_started_again_within_the_time(child):
    # It neither answers the probe nor refuses it, and accepts a handshake only as its first message.
    body = """
begun = []
def react(message):
    if message["method"] == "initialize" and begun:
        refuse(message, -32600)
    elif message["method"] != "server/discover":
        legacy(message)
    begun.append(message)
run(react)"""
    with child.connect(body, probe_timeout=0.2, open_timeout=4) as client:
        assert works(client) and client.era == "legacy"
    assert child.saw == ["start", "server/discover", "initialize", "start", *HANDSHAKE, "tools/call"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_that_starts_after_the_probe_has_ended(child, era):
    # It starts when the handshake has been sent, and finds both requests.
    body = f"""
while not os.path.exists(given["enough"]):
    time.sleep(0.01)
def react(message):
    if {era!r} == "modern" or message["method"] != "server/discover":
        {era}(message)
run(react)"""
    enough = child.notes.with_name("enough")
    client = child.connect(body, {"enough": str(enough), "discovered": discovered()}, probe_timeout=0.05)
    thread = threading.Thread(target=client.open)
    thread.start()
    assert children.wait_until(lambda: client.counters.messages_sent == 2)
    enough.touch()
    thread.join(LIMIT)
    with client:
        assert works(client) and client.era == era


def test_a_server_that_dies_of_the_probe_is_restarted_once(child):
    body = """
def react(message):
    if message["method"] == "server/discover":
        sys.exit("what is that?")
    legacy(message)
run(react)"""
    with child.connect(body) as client:
        assert works(client) and client.era == "legacy"  # ERA-07
    assert child.saw == ["start", "server/discover", "start", *HANDSHAKE, "tools/call"]


def test_a_server_that_always_dies_is_restarted_once_only(child):
    with pytest.raises(ConnectionClosed, match="not today") as caught:
        child.connect("run(lambda message: sys.exit('not today'))").open()
    assert child.saw == ["start", "server/discover", "start", "initialize"]
    assert "was started twice" in str(caught.value) and caught.value.returncode == 1


@pytest.mark.parametrize("end", ["sys.exit('not today')", "sys.exit(0)", "import no_such_module", "os.kill(os.getpid(), 9)",
                                 "print('Usage: ...', flush=True); sys.exit(2)", "print('Usage: ...\\nmore'); sys.exit(0)"])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what was left unread in a pipe")
def test_a_program_that_ends_at_its_start_is_started_once(child, end, caplog):
    with pytest.raises(ConnectionClosed) as caught:
        child.connect(f"note('start')\nif 1: {end}").open()
    assert child.saw == ["start"] and "twice" not in str(caught.value)
    assert ("without serving; does it call mcp.run()?" in str(caught.value)) is ("exit(0)" in end)
    assert ("it printed to stdout: 'Usage: ...'" in str(caught.value)) is ("more" in end)
    assert caplog.text.count("printed to stdout, which belongs to the protocol: 'Usage: ...'") == ("Usage" in end)
    assert "more" not in caplog.text
    if "not today" in end or "import" in end:
        assert ("not today" if "not today" in end else "No module named 'no_such_module'") in str(caught.value)


@pytest.mark.parametrize("end, starts", [
    ("raise ImportError('not today')", 1), ("raise KeyError(message['method'])", 2), ("sys.exit('not today')", 2),
    ("print('Loading', flush=True); raise ImportError('not today')", 2), ("os.kill(os.getpid(), 9)", 2),
    ("sys.stderr.write('Traceback (most recent call last)'); sys.exit(0)", 2),
], ids=["an import that fails", "a traceback with the request", "no traceback", "noise before", "a signal", "status 0"])
def test_without_sight_of_the_pipe_a_traceback_tells_of_a_failed_start(child, monkeypatch, end, starts):
    # Old SDKs die of the probe with a traceback too, in which the request stands.
    monkeypatch.setattr("mcplite.client.stdio.stdio_channel.ChildChannel._count_unread", lambda self: None)
    with pytest.raises(ConnectionClosed):
        child.connect(f"""
def react(message):
    {end}
run(react)""").open()
    assert child.saw.count("start") == starts


@pytest.mark.parametrize("options, first", [
    ({"era": "modern"}, "server/discover"), ({"revision": MODERN}, "server/discover"),
    ({"era": "legacy"}, "initialize"),
])
def test_a_dead_server_is_not_restarted_for_a_single_era(child, options, first):
    with pytest.raises(ConnectionClosed, match="not today"):
        child.connect("run(lambda message: sys.exit('not today'))", **options).open()
    assert child.saw == ["start", first]


# --- answers of modern servers ---------------------------------------------------------------------------


def refusing(code, data=None):
    return Fake({"server/discover": Refusal(code, data=data)})


def connect(fake, **options):
    return connecting.connect(fake.channel, **{"timeout": LIMIT, **options})


@pytest.mark.parametrize("code, error", [(-32020, HeaderMismatch), (-32021, MissingCapability)])
def test_modern_errors_do_not_lead_to_a_handshake(code, error):
    with refusing(code, {"requiredCapabilities": {"sampling": {}}}) as fake:
        with pytest.raises(error):
            connect(fake).open()
        assert fake.all_methods() == ["server/discover"]  # ERA-03


@pytest.mark.parametrize("data", [
    None, {}, {"supported": []}, {"supported": "2025-11-25"}, {"supported": ["2027-01-01", 3]},
])
def test_a_modern_server_without_a_common_revision(data):
    with refusing(-32022, data) as fake:
        with pytest.raises(UnsupportedVersion):
            connect(fake).open()
        assert fake.all_methods() == ["server/discover"]  # ERA-03, STAT-17


@pytest.mark.parametrize("answer", [
    Refusal(-32022, data={"supported": ["2027-01-01", NEWEST_LEGACY]}), discovered(NEWEST_LEGACY, "2027-01-01"),
], ids=["refused", "discovered"])
def test_a_modern_server_that_also_accepts_handshakes(answer):
    # DISC-06: the list of the server counts, also if it has revisions of the handshake era.
    with Fake({"server/discover": answer}) as fake:
        with connect(fake) as client:
            assert client.era == "legacy"
        assert fake.all_methods() == ["server/discover", *HANDSHAKE]


def test_a_refused_revision_that_is_offered_is_tried_once_more():
    with refusing(-32022, {"supported": [MODERN], "requested": MODERN}) as fake:
        with pytest.raises(UnsupportedVersion):
            connect(fake).open()
        assert fake.all_methods() == ["server/discover"] * 2  # STAT-17


def test_a_discovery_without_a_common_revision_is_an_error():
    with Fake({"server/discover": discovered("2027-01-01")}) as fake:
        with pytest.raises(UnsupportedVersion, match="2027-01-01") as caught:
            connect(fake).open()
        assert fake.all_methods() == ["server/discover"] and caught.value.supported == ["2027-01-01"]


@pytest.mark.parametrize("info", [None, "new", {}, {"name": 3, "version": "1"}])
def test_a_server_may_omit_its_info(info):
    meta = {} if info is None else {SERVER_INFO: info}
    with Fake({"server/discover": discovered(_meta=meta)}) as fake, connect(fake) as client:
        assert client.era == "modern" and client.server_info.name == ""  # STAT-05


# --- servers behind a URL --------------------------------------------------------------------------------


class Site(WebScript):
    """A server of the handshake era whose answer to the probe is that of a test; its tool works in both eras."""

    def __init__(self, probe=None):
        super().__init__()
        if probe is not None:
            self.on_server_discover = probe
        self.on_tools_call = lambda request, answer: answer.json(self.text(request, "done"))

    def connect(self, **options):
        return connecting.connect(self.url, **{"timeout": LIMIT, "listen": False, **options})

    @property
    def saw(self):
        return [request.does for request in self.requests]


def says(value):
    """Answer the probe with this result."""
    return lambda request, answer: answer.json(WebScript.result(request, value))


def fails(status, code=None, data=None, id=...):
    """Answer the probe with a status, and with a JSON-RPC error if there is a code."""
    def play(request, answer):
        if code is None:
            return answer.status(status)
        error = {"code": code, "message": "not like this", **({} if data is None else {"data": data})}
        body = {"jsonrpc": "2.0", "id": request.message["id"] if id is ... else id, "error": error}
        return answer.status(status, json.dumps(body), Content_Type="application/json")
    return play


def test_a_modern_server_behind_a_url():
    with Site(says(discovered())) as site, site.connect() as client:
        assert works(client) and client.era == "modern" and client.server_info.name == "new"
        assert site.saw == ["server/discover", "tools/call"]  # ERA-09
        assert all(request.headers["mcp-protocol-version"] == MODERN for request in site.requests)
        assert all("mcp-session-id" not in request.headers for request in site.requests)


@pytest.mark.parametrize("version", LEGACY)
def test_an_old_server_behind_a_url(version):
    with Site(fails(400)) as site:
        site.version = version
        with site.connect() as client:
            assert works(client) and client.era == "legacy" and client.protocol_version == version
            assert site.saw == ["server/discover", *HANDSHAKE, "tools/call"]
            # Headers of modern requests are on none of the others.
            assert all("mcp-method" not in request.headers for request in site.requests[1:])
            assert "mcp-protocol-version" not in site.requests[1].headers


def body(text, kind):
    return lambda request, answer: answer.status(400, text, Content_Type=kind)


LEGACY_ANSWERS = {
    **{f"{status}": fails(status) for status in (400, 404, 405, 406, 415, 422)},
    **{f"400 and {code}": fails(400, code) for code in (-32600, -32000, -32602, -32601)},
    **{f"{status}, for no request": fails(status, -32600, id=None) for status in (400, 404)},
    # A server that fails at the request, as opposed to a gateway that does not reach it.
    **{f"{status} and {code}": fails(status, code) for status in (500, 501) for code in (-32603, -32601)},
    "500, for no request": fails(500, -32603, id=None),
    # A bridge, which translates the error of an old server into a status.
    "404 and -32601": fails(404, -32601),
    "400, for another request": fails(400, -32000, id="server-error"),
    "400 and a page": body("<html>Bad Request</html>", "text/html"),
    "400 and other JSON": body('{"error": "Mcp-Session-Id header is required"}', "application/json"),
    "400 and half of a message": body('{"jsonrpc": "2.0", "id"', "application/json"),
    "400 and a list": body("[]", "application/json"),
    "202": lambda request, answer: answer.status(202),
    "a page": lambda request, answer: answer.status(200, "<html>Hello</html>", Content_Type="text/html"),
    **{f"error {code}": fails(200, code) for code in REFUSALS},
    **{f"result {value!r}": says(value) for value in NO_DISCOVERY},
}


@pytest.mark.parametrize("probe", LEGACY_ANSWERS.values(), ids=LEGACY_ANSWERS)
def test_answers_that_mean_a_handshake(probe):
    with Site(probe) as site, site.connect() as client:
        assert works(client) and client.era == "legacy"
        assert site.saw == ["server/discover", *HANDSHAKE, "tools/call"]  # ERA-11, ERA-13, ERA-15


@pytest.mark.parametrize("refusal", [
    fails(404, -32601), fails(400, -32022, {"supported": [MODERN]}), fails(400, -32022, {"supported": [MODERN]}, id=None),
    fails(200, -32601), fails(400), fails(405),
], ids=["404 and -32601", "-32022", "-32022 for no request", "-32601", "400", "405"])
def test_a_modern_server_without_discovery(refusal):
    with Site(fails(404, -32601)) as site:
        site.on_initialize = refusal
        with site.connect() as client:
            assert works(client) and client.era == "modern"
            assert site.saw == ["server/discover", "initialize", "tools/call"]  # ERA-12
            assert client.server_capabilities.tools == {}  # everything may be tried
            assert site.requests[-1].headers["mcp-protocol-version"] == MODERN


@pytest.mark.parametrize("failure, error", [
    (fails(401), AuthError), (fails(403), HTTPStatusError), (fails(500), HTTPStatusError), (fails(500, -32603), MCPError),
    (fails(503), HTTPStatusError), (fails(400, -32602, {"supported": ["2027-01-01"]}), UnsupportedVersion),
    (lambda request, answer: answer.cut(), TransportError),
], ids=["401", "403", "500", "500 and -32603", "503", "another revision", "a broken connection"])
def test_a_failed_handshake_is_no_verdict_on_a_server_without_discovery(failure, error):
    with Site(fails(404, -32601)) as site:
        site.on_initialize = failure
        client = site.connect()
        with pytest.raises(error) as caught:
            client.open()
        assert client.last_error is caught.value and site.saw[:2] == ["server/discover", "initialize"]


def test_a_modern_server_that_fails_at_the_probe():
    with Site(fails(500, -32603)) as site:
        site.on_initialize = fails(400, -32022, {"supported": [MODERN]})
        with pytest.raises(mcplite.errors.InternalError, match="not like this"):  # and not that it refuses a handshake
            site.connect().open()
        assert site.saw == ["server/discover", "initialize"]


@pytest.mark.parametrize("id", [..., None], ids=["its id", "no id"])
@pytest.mark.parametrize("code, data", [
    (-32020, None), (-32021, {"requiredCapabilities": {}}), (-32022, {"supported": ["2027-01-01"]}), (-32022, None),
])
def test_modern_errors_over_http_do_not_lead_to_a_handshake(code, data, id):
    with Site(fails(400, code, data, id)) as site:
        with pytest.raises(MCPError, match="not like this"):
            site.connect().open()
        assert site.saw == ["server/discover"]  # ERA-10


@pytest.mark.parametrize("supported", [[NEWEST_LEGACY], ["2027-01-01", "2024-11-05"]])
def test_a_server_that_lists_older_revisions_gets_a_handshake(supported):
    with Site(fails(400, -32022, {"supported": supported})) as site, site.connect() as client:
        assert works(client) and site.saw == ["server/discover", *HANDSHAKE, "tools/call"]


@pytest.mark.parametrize("status, error, more", [
    (401, AuthError, {}), *[(status, HTTPStatusError, {}) for status in (403, 429, 500, 502, 503)],
    *[(status, MCPError, {"code": -32601, "id": id}) for status in (403, 429, 502, 503, 504) for id in (..., None)],
])
def test_a_failure_and_an_error_of_a_proxy_do_not_decide_the_era(status, error, more):
    with Site(fails(status, **more)) as site:
        client = site.connect()
        with pytest.raises(error) as caught:
            client.open()
        assert site.saw == ["server/discover"] and client.last_error is caught.value  # ERA-14
        assert ('era="legacy"' in str(caught.value)) == (status >= 500)


@pytest.mark.parametrize("status", [500, 503])
def test_a_failure_for_a_modern_choice_is_raised_unchanged(status):
    with Site(fails(status, -32603)) as site:
        with pytest.raises(mcplite.errors.InternalError, match="not like this"):
            site.connect(era="modern").open()
        assert site.saw == ["server/discover"]


def test_a_slow_probe_over_http_is_waited_for():
    waited = threading.Event()

    def probe(request, answer):
        waited.wait(0.3)  # longer than a pipe would be given
        says(discovered())(request, answer)

    with Site(probe) as site, site.connect(probe_timeout=0.05) as client:
        assert client.era == "modern" and site.saw == ["server/discover"]


@pytest.mark.parametrize("probe", [
    lambda request, answer: answer.cut(), lambda request, answer: (answer.events(), answer.end()),
    lambda request, answer: (answer.events(), answer.cut()), lambda request, answer: answer.hold(),
], ids=["no answer", "an empty stream", "a broken stream", "silence"])
def test_a_broken_connection_and_silence_do_not_decide_the_era(probe, request):
    silent = request.node.callspec.id == "silence"
    with Site(probe) as site:
        with pytest.raises(RequestTimeout if silent else TransportError):
            site.connect(**({"open_timeout": 0.3, "probe_timeout": 0.1} if silent else {})).open()
        assert set(site.saw) == {"server/discover"}  # ERA-14


@pytest.mark.parametrize("options", [{"era": "modern"}, {"revision": MODERN}])
def test_a_modern_client_does_not_fall_back_to_2024(options):
    with OldServer() as site:
        with pytest.raises(HTTPStatusError) as caught:
            connecting.connect(site.url, timeout=LIMIT, **options).open()
        assert caught.value.status == 405
        assert [request.does for request in site.requests] == ["server/discover"]  # ERA-24


# --- one era only ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, version", [
    ({"era": "legacy"}, NEWEST_LEGACY), ({"revision": "2025-06-18"}, "2025-06-18"),
    ({"era": "legacy", "revision": "2024-11-05"}, "2024-11-05"),
])
def test_a_legacy_choice_is_not_probed(options, version):
    with Site() as site:
        site.version = version
        with site.connect(**options) as client:
            assert works(client) and site.saw == [*HANDSHAKE, "tools/call"]  # ERA-24
            assert site.requests[0].message["params"]["protocolVersion"] == version
    with Fake() as fake:
        with connect(fake, **options) as client:
            assert client.protocol_version == version
        assert fake.all_methods() == HANDSHAKE


@pytest.mark.parametrize("options", [{"era": "modern"}, {"revision": MODERN}, {"era": "modern", "revision": MODERN}])
def test_a_modern_choice_never_begins_a_handshake(options):
    with Fake({"server/discover": discovered()}) as fake, connect(fake, **options) as client:
        assert client.era == "modern" and fake.methods() == ["server/discover"]
    with Site(says(discovered())) as site, site.connect(**options) as client:
        assert works(client) and site.saw == ["server/discover", "tools/call"]


@pytest.mark.parametrize("options", [{"era": "modern"}, {"revision": MODERN}])
@pytest.mark.parametrize("code", REFUSALS)
def test_an_old_server_for_a_modern_choice_is_a_clear_error(options, code):
    with refusing(code) as fake:
        with pytest.raises(UnsupportedVersion, match="does not accept requests without a handshake"):
            connect(fake, **options).open()
        assert fake.all_methods() == ["server/discover"]  # ERA-08
    with Site(fails(400, code)) as site:
        with pytest.raises(UnsupportedVersion, match="does not accept requests without a handshake"):
            site.connect(**options).open()
        assert site.saw == ["server/discover"]


def test_a_modern_choice_has_the_whole_open_timeout(child):
    body = """
def react(message):
    time.sleep(0.3)
    modern(message)
run(react)"""
    with child.connect(body, {"discovered": discovered()}, era="modern", probe_timeout=0.05) as client:
        assert works(client) and child.saw == ["start", "server/discover", "tools/call"]


def test_a_pinned_revision_that_a_modern_server_lacks():
    for answer in (discovered("2027-01-01"), Refusal(-32022, data={"supported": ["2027-01-01", NEWEST_LEGACY]})):
        with Fake({"server/discover": answer}) as fake:
            with pytest.raises(UnsupportedVersion) as caught:
                connect(fake, revision=MODERN).open()
            assert "2027-01-01" in caught.value.supported and fake.all_methods() == ["server/discover"]


@pytest.mark.parametrize("options", [{"era": "legacy"}, {"revision": NEWEST_LEGACY}])
def test_a_modern_server_for_a_legacy_choice(options):
    refusal = Refusal(-32022, "Unsupported protocol version", {"supported": [MODERN], "requested": NEWEST_LEGACY})
    with Fake({"server/discover": discovered()}, handshake=refusal) as fake:
        with pytest.raises(UnsupportedVersion) as caught:
            connect(fake, **options).open()
        assert caught.value.supported == [MODERN] and fake.all_methods() == ["initialize"]  # ERA-21


# --- prior -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era, calls", [("modern", ["tools/call"]), ("legacy", [*HANDSHAKE, "tools/call"])])
def test_prior_saves_the_probe_on_a_pipe(child, tmp_path, era, calls):
    given = {"discovered": discovered()}
    with child.connect(f"run({era})", given) as client:
        prior = json.loads(json.dumps(client.prior))  # it is made to be stored
    again = Children(tmp_path / "more notes")
    with again.connect(f"run({era})", given, prior=prior) as client:
        assert works(client) and client.era == era and client.prior == prior  # DISC-02
        if era == "modern":
            assert client.protocol_version == MODERN and client.server_info.name == "new"
            assert client.instructions == "Be kind." and client.server_capabilities.tools == {}
    assert again.saw == ["start", *calls]  # ERA-16


GOOD = {"era": "modern", "revision": MODERN, "capabilities": {"tools": {}}}


@pytest.mark.parametrize("prior", [
    {**GOOD, "capabilities": "all"}, {**GOOD, "capabilities": {"tools": 3}}, {**GOOD, "server_info": {"name": 3}},
    {**GOOD, "server_info": "me"}, {**GOOD, "instructions": ["Be kind."]}, {**GOOD, "revision": "2027-01-01"},
    {**GOOD, "revision": NEWEST_LEGACY}, {**GOOD, "revision": None}, {**GOOD, "era": "middle"}, {}, {"modern": True},
    ["modern"], "modern",
], ids=repr)
def test_an_invalid_prior_is_ignored_with_a_warning(prior, caplog):
    with caplog.at_level(logging.WARNING, "mcplite"):
        with Fake({"server/discover": discovered()}) as fake, connect(fake, prior=prior) as client:
            assert fake.methods() == ["server/discover"] and client.instructions == "Be kind."
    assert "prior" in caplog.text


def test_a_prior_of_the_other_era_is_ignored():
    with Fake({"server/discover": discovered()}) as fake:
        with connect(fake, era="modern", prior={"era": "legacy", "revision": NEWEST_LEGACY}) as client:
            assert client.era == "modern" and fake.methods() == ["server/discover"]
    for options in ({"era": "legacy"}, {"revision": NEWEST_LEGACY}):
        with Fake() as fake:
            with connect(fake, prior=GOOD, **options) as client:
                assert client.era == "legacy"
            assert fake.all_methods() == HANDSHAKE
