"""``python -m mcplite.server``: what it serves, its error messages, and what stays off stdout."""

import io
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import mcplite
from mcplite.server import __main__ as command_line, program
from tests.support import connecting
from tests.support.interrupts import OPTIONS, STOPS, ask_to_stop
from tests.support.processes import free_port, running
from tests.support.rawhttp import Wire, begin, call, initialize, post, request

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
ENVIRONMENT = {**os.environ, "PYTHONPATH": ROOT, "PYTHONIOENCODING": "utf-8"}

SERVER = '''
import os
import sys

import mcplite

print("printed at import")
os.write(1, b"written at import\\n")
os.system("echo a child at import")
mcp = mcplite.Server("weather")

@mcp.tool()
def add(a: int, b: int) -> int:
    print("printed by a tool")
    return a + b

def make():
    return mcp
'''
FUNCTIONS = '''
"""Small tools."""
from os.path import join

def double(a: int) -> int:
    """Twice as much."""
    return a + a

def bare(a):
    return a

def _hidden(a: int) -> int:
    return a
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "weather_app.py").write_text(SERVER)
    (tmp_path / "small_tools.py").write_text(FUNCTIONS)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text(SERVER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def client(folder, *arguments, **options):
    return connecting.connect([sys.executable, "-m", "mcplite.server", *arguments], cwd=str(folder), env={"PYTHONPATH": ROOT},
                           timeout=30, **options)


@pytest.mark.parametrize("target", ["weather_app.py", "weather_app.py:mcp", "weather_app.py:make", "weather_app:mcp",
                                    "weather_app", "pack.inner:mcp", "pack.inner"])
def test_each_form_of_a_target_is_served_and_nothing_else_is_on_stdout(folder, target):
    with client(folder, target) as connected:
        assert connected.server_info.name == "weather"
        assert connected.call_tool("add", {"a": 2, "b": 3}).structured_content == {"result": 5}
        assert connected.last_error is None
    for line in ("printed at import", "written at import", "a child at import", "printed by a tool"):
        assert line in connected.stderr_tail


@pytest.mark.parametrize("options, name", [([], "small_tools"), (["--name", "my-tools"], "my-tools")])
def test_the_functions_of_a_module_without_a_server(folder, options, name):
    with client(folder, "small_tools.py", *options) as connected:
        assert connected.server_info.name == name
        assert connected.instructions == "Small tools."
        assert [tool.name for tool in connected.list_tools()] == ["double"]
        assert connected.call_tool("double", {"a": 21}).structured_content == {"result": 42}
    assert "not served:  bare: it has no annotations" in connected.stderr_tail


def serve(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "mcplite.server", *arguments], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60, **options)


@pytest.mark.parametrize("target, problem", [
    ("missing.py", "there is no file "), ("missing_module", "there is no module 'missing_module'"),
    ("weather_app.py:other", "'other' is not a Server; servers in weather_app: mcp"),
    ("pack", "pack has neither a Server nor a public annotated function"),
])
def test_targets_that_cannot_be_served_exit_with_1_and_a_message(folder, target, problem):
    ran = serve(target, cwd=str(folder))
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr.decode().splitlines()[0 if "weather" not in target else -1].startswith(f"cannot serve {target}: ")
    assert problem in ran.stderr.decode()


def test_an_error_in_the_target_is_shown_with_its_place(folder):
    (folder / "broken.py").write_text("import mcplite\n1 / 0\n")
    ran = serve("broken.py", cwd=str(folder))
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert 'broken.py", line 2' in ran.stderr.decode() and "ZeroDivisionError" in ran.stderr.decode()


def test_the_server_stops_at_the_end_of_stdin(folder):
    ran = serve("weather_app.py", cwd=str(folder))
    assert (ran.returncode, ran.stdout) == (0, b"")


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are there on POSIX only")
def test_at_a_terminal_the_server_says_how_to_try_it(folder):
    import pty

    outside, inside = pty.openpty()
    child = subprocess.Popen([sys.executable, "-m", "mcplite.server", "small_tools.py"], stdin=inside, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=str(folder))
    try:
        said = child.stderr.readline().decode()
        while "waits" not in said:
            line = child.stderr.readline().decode()
            assert line, said
            said = line
    finally:
        child.kill()
        child.communicate()
        os.close(inside)
        os.close(outside)
    assert said == ("small_tools waits for an MCP client on stdin; to try it, run `python -m mcplite list small_tools.py`, or"
                    " serve it over HTTP with --http 8000 (Ctrl-C stops it)\n")


def test_without_a_terminal_the_server_says_nothing_about_it(folder):
    assert b"waits for" not in serve("small_tools.py", cwd=str(folder)).stderr


@pytest.mark.parametrize("which", STOPS)
def test_the_server_stops_on_a_signal(folder, which):
    (folder / "weather_app.py").write_text(SERVER + "sys.stderr.write('loaded\\n')\n")
    child = subprocess.Popen([sys.executable, "-m", "mcplite.server", "weather_app.py"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=str(folder), **OPTIONS)
    try:
        child.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        child.stdin.flush()
        assert b'"id":1' in child.stdout.readline()  # it serves, so the signal is its own by now
        ask_to_stop(child, which)
        child.wait(30)
    finally:
        child.kill()
        out, err = child.communicate()
    assert (child.returncode, out) == (0, b"")
    assert b"Traceback" not in err


@pytest.mark.parametrize("level, shown", [("debug", ["debug", "info", "warning"]), ("info", ["info", "warning"]),
                                          (None, ["warning"]), ("error", [])])
def test_log_level_is_for_stderr(folder, level, shown):
    (folder / "noisy.py").write_text(
        "import logging\nimport mcplite\nmcp = mcplite.Server('noisy')\n"
        "for level in ('debug', 'info', 'warning'):\n    getattr(logging.getLogger('app'), level)('at %s', level)\n")
    ran = serve("noisy.py", *(["--log-level", level] if level else []), cwd=str(folder))
    assert ran.returncode == 0
    assert [name for name in ("debug", "info", "warning") if f"app: at {name}" in ran.stderr.decode()] == shown


def test_debug_logs_the_messages(folder):
    with client(folder, "weather_app.py", "--debug") as connected:
        connected.ping()
    assert "server/discover" in connected.stderr_tail and "supportedVersions" in connected.stderr_tail


# --- over HTTP -----------------------------------------------------------------------------------------


class Served:
    """A server over HTTP as a child; its first line on stderr says where."""

    def __init__(self, folder, *arguments):
        self.child = subprocess.Popen([sys.executable, "-m", "mcplite.server", *arguments], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=str(folder),
                                      **OPTIONS)
        self.line = ""
        while " is served at " not in self.line:
            self.line = self.child.stderr.readline().decode().replace("\r\n", "\n")
            assert self.line, "it ended without a word"
        self.url = self.line.split(" is served at ")[1].split(" ")[0]
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])

    def stop(self, how=STOPS[0]):
        """Stop it; return the status and what else it wrote to stderr."""
        ask_to_stop(self.child, how)
        status = self.child.wait(30)
        out, err = self.child.communicate()
        return status, err.decode()

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.communicate()


@pytest.fixture
def served(folder):
    made = []

    def served(*arguments):
        made.append(Served(folder, *arguments))
        return made[-1]

    yield served
    for one in made:
        one.close()


def first_reply(port, path="/mcp", **headers):
    with Wire(port) as wire:
        return wire.send(post(initialize(), **headers).replace(b"POST /mcp", b"POST " + path.encode())).reply()


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("address", ["0", "127.0.0.1:0", ":0", "localhost:0"])
@pytest.mark.slow
def test_serving_over_http(served, address, how):
    server = served("weather_app.py", "--http", address)
    name = "localhost" if "localhost" in address else "127.0.0.1"
    assert server.line == f"weather is served at http://{name}:{server.port}/mcp (Ctrl-C stops it)\n"
    with Wire(server.port) as wire:
        session = begin(wire)
        assert wire.post(call("add", a=2, b=3), session).json["result"]["structuredContent"] == {"result": 5}
        assert wire.post(initialize(), Origin="https://app.example").status == 403
    status, err = server.stop(how)
    assert status == 0 and err == ""


def test_the_options_over_http(served):
    server = served("weather_app.py:mcp", "--http", "0.0.0.0:0", "--path", "/deep/er", "--allow-host", "mcp.example.com",
                    "--allow-host", "other.example:8000", "--allow-origin", "https://app.example", "--legacy-sse")
    assert server.url == f"http://127.0.0.1:{server.port}/deep/er"
    assert first_reply(server.port, "/deep/er").status == 421
    for host in ("mcp.example.com", "mcp.example.com:8000", "other.example:8000"):
        assert first_reply(server.port, "/deep/er", Host=host).status == 200
    assert first_reply(server.port, Host="mcp.example.com").status == 404
    reply = first_reply(server.port, "/deep/er", Host="mcp.example.com", Origin="https://app.example")
    assert reply.headers["access-control-allow-origin"] == "https://app.example"
    with Wire(server.port) as wire:
        wire.send(request("GET", "/deep/sse", headers={"Host": "mcp.example.com", "Accept": "text/event-stream"}))
        assert wire.head().status == 200
        assert wire.piece().startswith(b"event: endpoint\ndata: /deep/messages?session_id=")
    assert server.stop()[0] == 0


def test_any_host(served):
    server = served("weather_app.py", "--http", "0", "--allow-host", "*")
    assert first_reply(server.port, Host="any.example").status == 200


def test_serving_without_sessions(served):
    server = served("small_tools.py", "--name", "mine", "--http", "0", "--stateless")
    assert server.line.startswith("mine is served at ")
    assert "mcp-session-id" not in first_reply(server.port).headers
    with Wire(server.port) as wire:
        reply = wire.post(call("double", a=4), MCP_Protocol_Version="2025-06-18")
        assert reply.json["result"]["structuredContent"] == {"result": 8}


def test_log_level_info_logs_requests(served):
    server = served("weather_app.py", "--http", "0", "--log-level", "info")
    with Wire(server.port) as wire:
        assert wire.ask("GET", "/secret/path?token=hidden").status == 404
    status, err = server.stop()
    line, = [line for line in err.splitlines() if " mcplite.access: " in line]
    assert status == 0 and " GET '/secret/path' 404 " in line and "hidden" not in err


@pytest.mark.parametrize("words, status, problem", [
    (["weather_app.py", "--http", "0.0.0.0:0"], 1, "clients use: --allow-host mcp.example.com (or --allow-host '*' for any"),
    (["weather_app.py", "--http", "[::]:0"], 1, "clients use: --allow-host mcp.example.com"),
    (["weather_app.py", "--http", "0", "--path", "mcp"], 1, "must begin with a slash"),
    (["weather_app.py", "--http", "0", "--allow-origin", "app.example"], 1, "'app.example' in --allow-origin is"),
    (["weather_app.py", "--http", "0", "--allow-host", "http://x"], 1, "'http://x' in --allow-host is"),
    (["weather_app.py", "--http", "0", "--trust-proxy", "proxy"], 1, "'proxy' in --trust-proxy is not an address"),
    (["weather_app.py", "--http", "192.0.2.1:1", "--allow-host", "*"], 1, "cannot listen at 192.0.2.1:1"),
    (["missing.py", "--http", "0"], 1, "there is no file"),
    (["weather_app.py", "--http", "port"], 2, "'port' is not PORT or HOST:PORT"),
    (["weather_app.py", "--http", "70000"], 2, "70000"), (["weather_app.py", "--http", "-1"], 2, "--http"),
    (["weather_app.py", "--http", "host:"], 2, "'host:'"), (["weather_app.py", "--path", ""], 2, "--path needs --http PORT"),
    (["weather_app.py", "--stateless"], 2, "--stateless needs --http PORT"),
    (["weather_app.py", "--client-ca", "x.pem"], 2, "--client-ca needs --http PORT"),
    (["weather_app.py", "--http", "0", "--cert", "x.pem"], 1, "--cert: x.pem cannot be read: No such file"),
    (["weather_app.py", "--http", "0", "--key", "x.pem"], 1, "give --cert as well"),
    (["weather_app.py", "--http", "0", "--cert", "weather_app.py"], 1, "--cert and --key: give the PEM of a certificate"),
    (["weather_app.py", "--http", "0", "--cert", "x.pem", "--key-password-env", "NO_SUCH"], 2, "NO_SUCH is empty or not set"),
    (["weather_app.py", "--issuer", "u"], 2, "--issuer needs --http PORT"),
    (["weather_app.py", "--http", "8000", "--issuer", "nobody.txt"], 1, "mcplite users add nobody.txt NAME makes it"),
    (["weather_app.py", "--http", "0", "--issuer", "weather_app.py"], 1, "a port that stays"),
    (["weather_app.py", "--http", "0.0.0.0:8000", "--issuer", "u"], 1, "give --public-url https://mcp.example.com"),
    (["weather_app.py", "--http", "8000", "--public-url", "https://x.example"], 1, "--public-url is for --issuer FILE"),
    (["weather_app.py", "--http", "8000", "--issuer", "u", "--token-env", "PATH"], 1, "takes the place of --token-env"),
])
@pytest.mark.slow
def test_invalid_http_options_are_reported(folder, words, status, problem):
    ran = serve(*words, cwd=str(folder))
    assert ran.returncode == status and problem in ran.stderr.decode()
    assert "Traceback" not in ran.stderr.decode()


@pytest.mark.parametrize("text, shown", [
    ("def helper():\n    raise ValueError('boom')\nhelper()\n", ["line 3, in <module>", "line 2, in helper", "Error: boom"]),
    ("import json\njson.loads('{')\n", ["line 2, in <module>", "JSONDecodeError"]),
    ("def broken(:\n", ["line 1", "SyntaxError"]), ("import no_such_module_at_all\n", ["line 1", "ModuleNotFoundError"]),
    ("import broken_part\n", ["line 1, in <module>", "broken_part.py", "ZeroDivisionError"]),
    ("import mcplite\nmcplite.Server(5)\n", ["line 2, in <module>", "Error"]),
])
@pytest.mark.slow
def test_a_traceback_begins_at_the_frames_of_the_target(tmp_path, text, shown):
    (tmp_path / "broken_app.py").write_text(text)
    (tmp_path / "broken_part.py").write_text("1 / 0\n")
    for target in ("broken_app.py", "broken_app"):
        ran = serve(target, cwd=str(tmp_path))
        err = ran.stderr.decode()
        assert ran.returncode == 1 and all(one in err for one in shown), err
        assert "runpy" not in err and "program.py" not in err and err.count("broken_app.py") >= 1
    assert "program.py" in serve("broken_app.py", "--debug", cwd=str(tmp_path)).stderr.decode()


# --- tokens ----------------------------------------------------------------------------------------------

TOKENS = ["the-first-token-0123456789", "the-second-token-0123456789"]


@pytest.mark.parametrize("between", [",", " ", "\n", " , "])
def test_token_env_requires_a_token_of_the_variable(served, monkeypatch, between):
    monkeypatch.setitem(ENVIRONMENT, "WEATHER_TOKEN", between.join(TOKENS) + "\n")
    server = served("weather_app.py", "--http", "0", "--token-env", "WEATHER_TOKEN", "--log-level", "debug", "--debug")
    refused = first_reply(server.port)
    assert refused.status == 401 and refused.headers["www-authenticate"] == "Bearer"
    assert first_reply(server.port, Authorization=f"Bearer {TOKENS[0]}x").status == 401
    sessions = []
    for token in TOKENS:
        reply = first_reply(server.port, Authorization=f"Bearer {token}")
        assert reply.status == 200
        sessions.append(reply.headers["mcp-session-id"])
    with Wire(server.port) as wire:
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert wire.post(ping, sessions[0], Authorization=f"Bearer {TOKENS[0]}").status == 200
        refused = wire.post(ping, sessions[0], Authorization=f"Bearer {TOKENS[1]}")
        assert refused.status == 404, "each holder has sessions of their own"
    err = server.stop()[1]
    assert not any(token in err for token in TOKENS)


def test_a_caller_with_the_token_may_use_everything(served, folder, monkeypatch):
    (folder / "scoped.py").write_text("import mcplite\nmcp = mcplite.Server('scoped')\n"
                                      "@mcp.tool(scopes=['write'])\ndef write() -> str:\n    return 'written'\n")
    monkeypatch.setitem(ENVIRONMENT, "WEATHER_TOKEN", TOKENS[0])
    server = served("scoped.py", "--http", "0", "--stateless", "--token-env", "WEATHER_TOKEN")
    with Wire(server.port) as wire:
        reply = wire.post(call("write"), MCP_Protocol_Version="2025-06-18", Authorization=f"Bearer {TOKENS[0]}")
        assert reply.json["result"]["content"][0]["text"] == "written"


@pytest.mark.parametrize("value, problem", [(None, "no token"), ("", "no token"), (" , \n", "no token"),
                                            ("short", "token number 1 has 5 characters"),
                                            (f"{TOKENS[0]},tiny", "token number 2 has 4"),
                                            (f"{TOKENS[0]},{TOKENS[0]}", "twice"),
                                            ("a-token-with-ümlauts-in-it", "cannot be sent in a header")])
def test_a_variable_without_a_usable_token(folder, monkeypatch, value, problem):
    monkeypatch.delitem(ENVIRONMENT, "WEATHER_TOKEN", raising=False)
    if value is not None:
        monkeypatch.setitem(ENVIRONMENT, "WEATHER_TOKEN", value)
    ran = serve("weather_app.py", "--http", "0", "--token-env", "WEATHER_TOKEN", cwd=str(folder))
    err = ran.stderr.decode()
    assert ran.returncode == 1 and problem in err and "--token-env WEATHER_TOKEN" in err and "Traceback" not in err
    assert "secrets.token_urlsafe(32)" in err or problem == "twice"
    assert TOKENS[0] not in err and "short" not in err


def test_issuer_has_the_users_of_a_file_log_in(folder, tmp_path):
    pytest.importorskip("authlib")
    from mcplite.auth.issuer.users import change_user
    from tests.support.issuers import Person

    users = tmp_path / "users.txt"
    change_user(str(users), "ann", "correct horse", new=True)
    port = free_port()
    with running([sys.executable, "-m", "mcplite.server", "weather_app.py", "--http", str(port), "--issuer", str(users)],
                 folder, port) as (_, said):
        auth = mcplite.OAuth(ask=mcplite.auth.Browser(open=Person("ann", "correct horse")), store=mcplite.auth.MemoryStore())
        with mcplite.connect(f"http://127.0.0.1:{port}/mcp", auth=auth) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        text = b"".join(said).decode()
    assert f"mcplite login http://127.0.0.1:{port}/mcp" in text and f"at http://127.0.0.1:{port}/grants" in text
    assert "logins end with this process: --backend sqlite:///logins.db, with --state-keys-file FILE, keeps them" in text


def test_processes_share_a_backend(served, folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("the first key of 16 bytes\nthe second key of 16 bytes\n", "utf-8")
    (folder / "shared.py").write_text("import mcplite\nmcp = mcplite.Server('shared')\n@mcp.tool()\ndef fleet() -> bool:\n"
                                      "    return mcp.fleet\n", "utf-8")
    server = served("shared.py", "--http", "0", "--backend", f"sqlite:///{tmp_path / 'shared.db'}", "--state-keys-file",
                    str(keys))
    with mcplite.connect(server.url) as client:
        assert client.call_tool("fleet").text == "true"
    assert (tmp_path / "shared.db").exists()


@pytest.mark.parametrize("arguments, status, text", [
    (["--state-keys-file", "nowhere"], 2, "--state-keys-file: "),
    (["--state-keys-file", "weather_app.py"], 2, "one key a line, without commas"),
    (["--backend", "sqlite:///shared.db"], 2, "needs --state-keys-file FILE or MCPLITE_STATE_KEYS"),
    (["--backend", "mysql://host"], 2, "is the URL of no backend"),
])
def test_a_backend_that_cannot_be_used_is_told(folder, arguments, status, text):
    ran = serve("weather_app.py", *arguments, cwd=str(folder))
    err = ran.stderr.decode()
    assert ran.returncode == status and text in err and "Traceback" not in err


FAILING = """
import threading, warnings
warnings.warn("careful")
failing = threading.Thread(target=lambda: 1 / 0)
failing.start()
failing.join()
"""


def test_health_and_logs_for_containers(folder):
    (folder / "failing.py").write_text((folder / "weather_app.py").read_text() + FAILING)
    port = free_port()
    with running([sys.executable, "-m", "mcplite.server", "failing.py", "--http", str(port), "--health", "--log-json",
                  "--log-level", "info", "--token-env", "WEATHER_TOKEN"], folder, port, WEATHER_TOKEN=TOKENS[0]) as (_, said):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=20) as response:
            assert json.load(response) == {"status": "ready"}
    lines = [json.loads(line) for line in b"".join(said).decode().splitlines() if line.startswith("{")]
    for said_so in (" is served at ", "UserWarning: careful", "has failed"):
        assert any(said_so in line["message"] for line in lines)
    assert any("/readyz" in line["message"] and line["level"] == "info" for line in lines)


def test_token_env_conflicts_with_auth(folder, monkeypatch):
    (folder / "own.py").write_text("import mcplite\nmcp = mcplite.Server('own', auth=lambda token: None)\n")
    monkeypatch.setitem(ENVIRONMENT, "WEATHER_TOKEN", TOKENS[0])
    ran = serve("own.py", "--http", "0", "--token-env", "WEATHER_TOKEN", cwd=str(folder))
    assert ran.returncode == 1 and "already has an auth=" in ran.stderr.decode()


@pytest.mark.parametrize("level", ["warning", "error", "critical"])
def test_the_warning_about_an_open_server_is_shown_at_any_log_level(folder, level):
    child = subprocess.Popen([sys.executable, "-m", "mcplite.server", "weather_app.py", "--http", "0.0.0.0:0", "--allow-host",
                              "*", "--log-level", level], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT,
                             cwd=str(folder))
    try:
        said = ""
        while " is served at " not in said:
            line = child.stderr.readline().decode()
            assert line, said
            said += line
    finally:
        child.kill()
        child.communicate()
    assert said.count("requires no token") == 1 and "WARNING" in said


# --- in this process ---------------------------------------------------------------------------------


@pytest.fixture
def here(folder, monkeypatch):
    """The folder of targets; loading one changes nothing for the next test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folder
    sys.modules.pop("weather_app", None)


@pytest.mark.parametrize("options, debug", [([], False), (["--debug"], True)])
def test_main_serves_on_the_real_streams_when_sys_stdout_is_replaced(here, monkeypatch, capfd, options, debug):
    served = []

    def serve_stdio(runtime, streams):
        served.append((runtime, streams))
        for descriptor in streams:
            os.close(descriptor)

    monkeypatch.setattr(program, "serve_stdio", serve_stdio)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert command_line.main(["weather_app.py", *options]) == 0
    (runtime, streams), = served
    assert (runtime.catalog.name, runtime.debug is True) == ("weather", debug)
    assert min(streams) > 2
    out, err = capfd.readouterr()
    assert out == "" and "written at import" in err and "a child at import" in err


@pytest.mark.parametrize("words", [[], ["a.py", "b.py"], ["a.py", "--log-level", "loud"], ["--loud"]])
def test_wrong_usage_exits_with_2(capsys, words):
    with pytest.raises(SystemExit) as caught:
        command_line.main(words)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m mcplite.server")


@pytest.mark.parametrize("words, taught", [
    (["--help"], ["usage: python -m mcplite.server [-h]", "file.py:name", "package.module:name",
                  "python -m mcplite.server weather.py:mcp --log-level debug", '"args": ["-m", "mcplite.server", ',
                  "--token-env NAME", "secrets.token_urlsafe(32)", "mcplite users add users.txt ann"]),
    (["--version"], [f"mcplite {mcplite.__version__}\n"]),
])
def test_help_has_examples(words, taught):
    ran = serve(*words)
    assert ran.returncode == 0
    for text in taught:
        assert text in ran.stdout.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("options", [[], ["--http", "0"]])
def test_ctrl_c_while_the_target_is_loaded(here, capfd, options):
    # A file that takes long to import; the signal comes in the middle of it.
    (here / "slow.py").write_text("raise KeyboardInterrupt")
    assert command_line.main(["slow.py", *options]) == 130
    assert capfd.readouterr() == ("", "interrupted\n")


def test_ctrl_c_before_the_server_heeds_signals(here, capfd, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mcplite.server.transports.httpd.HTTPServer", interrupted)
    assert command_line.main(["weather_app.py", "--http", "0"]) == 130
    out, err = capfd.readouterr()
    assert err.endswith("interrupted\n") and "Traceback" not in err
