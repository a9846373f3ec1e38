"""Attacks on the inspector: from web pages and programs of this machine, and from the servers that it inspects."""

import json
import socket
import sys
import textwrap
import time

import pytest

from mcplite import Server
from mcplite.inspector.inspector_server import InspectedTarget
from mcplite.revisions import NEWEST_LEGACY
from tests.inspector.conftest import PATIENCE, events_in

# --- from web pages and programs -----------------------------------------------------------------------------


def raw(page, data):
    """Send bytes to the page's port, and return all that comes."""
    with socket.create_connection(("127.0.0.1", page.inspector.port), PATIENCE) as sock:
        sock.sendall(data)
        received = b""
        try:
            while True:
                chunk = sock.recv(65_536)
                if not chunk:
                    return received
                received += chunk
        except ConnectionError:
            return received


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def request(page, *lines, method="POST", path="/api/open", body=b'{"server": "it"}', host=None, length=None):
    """Send a request with the page's cookie and the given lines of the head, and return its status."""
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in page.http.cookies)
    head = [f"{method} {path} HTTP/1.1", f"Inspector-Key: {page.key}",
            f"Host: {host or '127.0.0.1:%d' % page.inspector.port}", f"Cookie: {cookies}",
            f"Content-Length: {len(body) if length is None else length}"]
    return status(raw(page, "\r\n".join([*head, *lines, "", ""]).encode() + body))


JSON = "Content-Type: application/json"


@pytest.fixture
def page(inspect):
    return inspect(it=Server("x"))


@pytest.mark.parametrize("host", [
    "evil.example:{port}", "127.0.0.1.evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:1", "evil.example",
    "0.0.0.0:{port}", "localhost.evil:{port}", "127.0.0.1:{port}:80", "user@127.0.0.1:{port}", "127.0.0.1:{port}/"])
def test_a_name_that_leads_here_is_no_host(page, host):
    assert request(page, JSON, host=host.format(port=page.inspector.port)) == 421


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_names_of_this_machine_are_hosts(page, host):
    assert request(page, JSON, host=host.format(port=page.inspector.port)) == 200


def test_one_host_is_needed(page):
    port = page.inspector.port
    assert status(raw(page, b"GET /api/state HTTP/1.1\r\n\r\n")) == 421
    assert request(page, JSON, f"Host: 127.0.0.1:{port}") == 421
    assert status(raw(page, b"GET /api/state HTTP/1.0\r\n\r\n")) == 421


@pytest.mark.parametrize("lines", [
    ["Origin: https://evil.example"], ["Origin: null"], ["Origin: http://127.0.0.1:1"], ["Origin: https://127.0.0.1:{port}"],
    ["Origin: http://localhost:{port}"], ["Origin: http://127.0.0.1:{port}", "Origin: http://evil.example"], ["Origin: "],
    ["Sec-Fetch-Site: cross-site"], ["Sec-Fetch-Site: same-site"],
    ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"]])
def test_pages_of_others_are_refused(page, lines):
    lines = [line.format(port=page.inspector.port) for line in lines]
    assert request(page, JSON, *lines) == 403
    assert request(page, *lines, method="GET", path="/api/state", body=b"") == 403


def test_the_page_itself_is_served(page):
    own = f"Origin: http://127.0.0.1:{page.inspector.port}"
    assert request(page, JSON, own, "Sec-Fetch-Site: same-origin") == 200


@pytest.mark.parametrize("path", [
    "/", "/page/index.html", "/api/state", "/api/events", "/api/record?server=it", "/api/message?message=1"])
def test_nothing_is_served_without_the_cookie(page, path):
    page.http.cookies.clear()
    assert page.get(path, 401).json()["error"]
    page.http.cookies.set(f"mcplite_inspector_{page.inspector.port}", "guess")
    page.get(path, 401)
    page.http.cookies.set(f"mcplite_inspector_{page.inspector.port}", "\u00e9")
    page.get(path, 401)


@pytest.mark.parametrize("key", ["", "guess", "\u00e9"])
def test_the_cookie_alone_which_a_program_at_another_port_may_get_is_not_enough(page, key):
    page.http.headers["Inspector-Key"] = key.encode("utf-8")
    for path in ("/api/state", "/api/events", "/api/record?server=it", "/api/message?message=1"):
        assert page.get(path, 401).json()["error"].startswith("open the address with the token")
    page.post("open", 401, server="it")
    del page.http.headers["Inspector-Key"]
    page.post("open?key=" + page.key, 401, server="it")
    assert page.get("/api/state?key=" + page.key).json()["version"]  # for what has no headers: a stream, a link
    page.get("/api/state?key=guess", 401)


def test_a_form_or_a_script_of_another_page_can_send_nothing(page):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", ""):
        assert request(page, f"Content-Type: {kind}") == 415
    assert request(page) == 415


@pytest.mark.parametrize("body, code", [
    (b"", 400), (b"[]", 400), (b"{", 400), (b"null", 400), (b"\xff", 400), (b"[" * 100_000, 400), (b'{"server": 1}', 400),
    (b'{"server": "other"}', 404), (b'{"server": ["it"]}', 400), (b'{"server": "it", "revision": "1999-01-01"}', 400),
    (b'{"server": "it", "revision": {}}', 400), (b'{"server": null}', 400)])
def test_bodies_that_are_no_request(page, body, code):
    assert request(page, JSON, body=body) == code


@pytest.mark.parametrize("length, code", [
    ("-1", 411), ("1e3", 411), ("99999999999", 413), ("x", 411), ("\u0661", 411), ("16777217", 413)])
def test_lengths_that_are_none(page, length, code):
    assert request(page, JSON, length=length, body=b"") == code


def test_chunks_are_refused(page):
    assert request(page, JSON, "Transfer-Encoding: chunked", body=b"0\r\n\r\n") == 411


@pytest.mark.parametrize("data", [
    b"\x16\x03\x01\x02\x00\x01", b"GET /\r\n", b"\r\n\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"X" * 70_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"GET / HTTP/1.1\r\nA: " + b"b" * 70_000 + b"\r\n\r\n",
    b"TRACE / HTTP/1.1\r\n\r\n", b"OPTIONS /api/open HTTP/1.1\r\n\r\n", b"PUT /api/open HTTP/1.1\r\n\r\n"])
def test_what_is_no_request_of_a_page_is_refused(page, data):
    answer = raw(page, data + b"\r\n\r\n")
    assert status(answer) == 0 or status(answer) >= 400
    assert b"Access-Control" not in answer
    assert page.get("/api/state").json()["version"]


@pytest.mark.parametrize("path", [
    "/page/..%2f__init__.py", "/page/../inspector_server.py", "/page/%2e%2e/x.js", "/page//etc/passwd", "/page/.",
    "/page/x\x00.js", "//evil.example/", "/page/inspector_server.py", "/page/index.html/"])
def test_files_beside_the_page_are_not_served(page, path):
    assert request(page, method="GET", path=path, body=b"") in (400, 404)


@pytest.mark.slow
def test_idle_connections_do_not_keep_the_page_out(page):
    idle = [socket.create_connection(("127.0.0.1", page.inspector.port), PATIENCE) for _ in range(100)]
    try:
        assert page.get("/api/state").json()["version"]
    finally:
        for sock in idle:
            sock.close()


def test_too_many_pages_are_refused(page):
    streams = [page.stream() for _ in range(15)]
    try:
        assert page.stream().status == 429
    finally:
        for stream in streams:
            stream.close()


def test_a_stream_goes_on_behind_the_last_event(page):
    page.open()
    page.call("tools/list")
    first = page.inspector.traffic.after(0, 0)[0].event
    page.inspector.traffic.note("changed", {"server": "it", "kind": "tools"})
    number = page.inspector.traffic.after(0, 0)[-2].number
    for last, expected in ((str(number), "changed"), ("x" * 100, first), ("-1", first), ("\u00b2", first)):
        stream = page.stream(**{"Last-Event-ID": last.encode("utf-8").decode("latin-1")})
        assert next(events_in(stream))[0] == expected
        stream.close()
    for headers, after, expected in (({}, number, "changed"), ({"Last-Event-ID": str(number)}, 0, "changed"), ({}, 0, first)):
        stream = page.stream(f"?after={after}", **headers)
        assert next(events_in(stream))[0] == expected
        stream.close()


# --- from servers --------------------------------------------------------------------------------------------

#: A server of a session whose behaviour is a function ``serve(method, id, params)`` in Python.
SCRIPT = textwrap.dedent("""
    import json, sys
    def send(value):
        sys.stdout.buffer.write(value if isinstance(value, bytes) else json.dumps(value).encode() + b"\\n")
        sys.stdout.buffer.flush()
    def answer(id, result):
        send({"jsonrpc": "2.0", "id": id, "result": result})
    INFO = {"name": "hostile", "version": "1"}
    CAPABILITIES = {"tools": {}}
    def serve(method, id, params):
        pass
    %s
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "initialize":
            answer(message["id"], {"protocolVersion": message["params"]["protocolVersion"], "capabilities": CAPABILITIES,
                                   "serverInfo": INFO})
        elif "id" in message and "method" in message:
            serve(message["method"], message["id"], message.get("params"))
""")


@pytest.fixture
def hostile(inspect):
    """Return a function that opens a server with a behaviour, and returns the page."""
    def hostile(behaviour, **more):
        program = SCRIPT % textwrap.dedent(behaviour)
        page = inspect(it=[sys.executable, "-c", program])
        page.open(revision=NEWEST_LEGACY.name, **more)
        return page

    return hostile


def test_a_flood_of_notifications_costs_the_oldest_messages(hostile):
    page = hostile("""
        def serve(method, id, params):
            line = json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"text": "x" * 100}}).encode() + b"\\n"
            send(line * 1_000)
            answer(id, {})
    """)
    page.inspector.traffic._most_messages = 100
    assert page.call("ping")["state"] == "done"
    assert page.wait_for(lambda name, values: name == "dropped" and values["messages"] >= 900)["server"] == "it"
    assert len(page.inspector.traffic.messages("it")) <= 100
    assert page.get("/api/state").json()["servers"][0]["state"] == "open"


def test_a_huge_result_is_cut_in_the_record_and_whole_in_the_call(hostile):
    page = hostile("""
        def serve(method, id, params):
            answer(id, {"text": "\\u2028x" * 1_000_000})
    """)
    done = page.call("ping")
    assert len(done["result"]["text"]) == 2_000_000
    message = page.wait("message", kind="response", method="ping")
    assert message["cut"] > 0 and isinstance(message["content"], str)
    assert len(page.get(f"/api/message?message={message['message']}").content) == message["size"]


def test_a_list_without_an_end_is_given_up(hostile):
    page = hostile("""
        def serve(method, id, params):
            answer(id, {"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "nextCursor": "again"})
    """)
    assert "no end" in page.post("lists", 502, server="it", kind="tools")["error"]


@pytest.mark.parametrize("line", [
    b"not json\\n", b"\\xff\\xfe\\n", b"[]\\n", b"{}\\n", b"null\\n", b'{"jsonrpc": "2.0", "id": NaN, "result": {}}\\n',
    b"[" * 50_000 + b"\\n", b'{"jsonrpc": "2.0", "id": 999, "result": 1e999}\\n', b'{"a": "\\xe2\\x80\\xa8"}\\n',
    b'{"jsonrpc": "2.0", "id": {"a": []}, "error": 1}\\n', b'{"jsonrpc": "2.0", "method": "\\\\ud800"}\\n',
    b"\\n", b"{\\r}\\n"])
def test_what_is_no_message_reaches_the_page_as_an_event(hostile, line):
    written = line.decode("latin-1").replace("'", "\\'") if len(line) < 1_000 else None
    value = f"b'{written}'" if written is not None else 'b"[" * 50_000 + b"\\n"'
    page = hostile(f"""
        def serve(method, id, params):
            send({value})
            answer(id, {{}})
    """)
    assert page.call("ping")["state"] in ("done", "failed")
    assert page.post("lists", server="it", kind="prompts") == {"items": []}


def test_markup_is_nothing_but_text(hostile, inspect):
    script = "<script>alert(1)</script>"
    page = hostile(f"""
        INFO = {{"name": {script!r}, "version": "1"}}
        def serve(method, id, params):
            send({{"jsonrpc": "2.0", "method": "notifications/message", "params": {{"level": "info", "data": {script!r}}}}})
            answer(id, {{"text": {script!r}}})
    """)
    page.call("ping")
    answer = page.http.get(page.base + "/api/state", timeout=PATIENCE)
    assert answer.headers["Content-Type"] == "application/json" and answer.headers["X-Content-Type-Options"] == "nosniff"
    assert page.wait("message", method="notifications/message")["content"]["params"]["data"] == script


def test_many_questions_wait_in_a_bounded_number(hostile):
    page = hostile("""
        def serve(method, id, params):
            for number in range(100):
                send({"jsonrpc": "2.0", "id": 1000 + number, "method": "elicitation/create", "params": {
                    "message": "?", "requestedSchema": {"type": "object", "properties": {}}}})
            answer(id, {})
    """)
    page.call("ping")
    page.wait("question", server="it")
    time.sleep(0.2)
    assert len(page.of("question")) <= 16
    page.post("close", server="it")
    page.wait("question-closed")


def test_a_question_that_no_one_could_read_is_refused(hostile):
    page = hostile("""
        def serve(method, id, params):
            send({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {
                "message": "x" * 9_000_000, "requestedSchema": {"type": "object", "properties": {}}}})
            answer(id, {})
    """)
    page.call("ping")
    assert page.wait("message", direction="->", kind="error", id=7)["content"]["error"]["code"] == -32602
    assert page.of("question") == []


def test_a_flood_of_stderr_and_lines_without_end(inspect):
    program = "import sys\nsys.stderr.write('x' * 300_000 + '\\n')\nfor n in range(5000): print('line', n, file=sys.stderr)\n"
    page = inspect(it=[sys.executable, "-c", program])
    page.post("open", server="it")
    page.wait("server", state="failed")
    page.wait("stderr", line="line 4999")
    assert all(len(one["line"]) < 5_000 for one in page.of("stderr"))
    assert len(page.inspector.traffic.after(0, 0)) < 5_000


def test_numbers_that_a_browser_cannot_read(hostile):
    page = hostile("""
        def serve(method, id, params):
            send(b'{"jsonrpc": "2.0", "id": %d, "result": {"much": 1e999, "few": 1}}\\n' % id)
    """)
    assert page.call("ping")["state"] in ("done", "failed")  # and the event stream goes on
    assert "1e999" in page.inspector.traffic.messages("it")[-1].raw.decode()


@pytest.mark.slow
def test_progress_without_end_is_one_state(hostile):
    page = hostile("""
        def serve(method, id, params):
            token = params["_meta"]["progressToken"]
            for number in range(5000):
                params = {"progressToken": token, "progress": number}
                send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            answer(id, {})
    """)
    assert page.call("ping")["state"] == "done"
    assert len([entry for entry in page.inspector.traffic.after(0, 0) if entry.event == "call"]) == 1


def test_a_server_that_answers_nothing_costs_its_own_calls(hostile, inspect):
    page = hostile("""
        def serve(method, id, params):
            return None
    """)
    numbers = [page.post("call", server="it", method="ping")["call"] for _ in range(64)]
    assert "64 calls" in page.post("call", 429, server="it", method="ping")["error"]
    page.post("cancel", call=numbers[0])
    page.wait("call", call=numbers[0], state="cancelled")
    page.post("close", server="it")
    page.wait("call", call=numbers[-1], state="failed")


def test_a_name_of_a_configuration_is_no_header(inspect):
    name = 'a"\r\nSet-Cookie: b=c; "<x>'
    page = inspect(it=InspectedTarget(name, Server("x")))
    answer = page.http.get(page.base + "/api/record", params={"server": name}, timeout=PATIENCE)
    assert answer.status_code == 200 and "Set-Cookie" not in answer.headers
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a_Set-Cookie_b_c_x.jsonl"'
    assert json.loads(answer.text.splitlines()[0])["mcplite"] == "cassette"
