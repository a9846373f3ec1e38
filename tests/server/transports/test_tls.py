"""HTTP over TLS: handshakes that take no thread, certificates that change, clients with certificates, and clients without TLS.

The tests of one connection (test_connection.py) run over TLS as well.
"""

import contextlib
import json
import logging
import os
import shutil
import socket
import ssl
import threading
import time
import warnings

import pytest

import mcplite
from mcplite.server import Context, Server
from mcplite.server.transports import poller as poller_module, tls as tls_module
from mcplite.server.transports.httpd import HTTPServer
from tests.support.children import wait_until
from tests.support.rawhttp import LIMIT, Wire, begin, call, initialize, post, request
from tests.support.tight import tight

PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}


def new_server(**bounds):
    server = Server("secured", limits=tight(**bounds))
    ended = threading.Event()

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def text(size: int) -> str:
        return "x" * size

    @server.tool
    def watched(ctx: Context) -> str:
        ctx.report_progress(1)
        if ctx.token.wait(LIMIT):
            ended.set()
        return "ended"

    @server.tool
    def caller(ctx: Context) -> str:
        return json.dumps(ctx.http.client_certificate)

    return server, ended


@pytest.fixture
def served(tls):
    """``served(server=None, **options)``: a server over TLS."""
    with contextlib.ExitStack() as stack:
        def served(server=None, **options):
            given = {**tls.files, **options}
            return stack.enter_context(mcplite.serve(server or new_server()[0], **given))

        yield served


@pytest.fixture
def trusting(tls):
    """``trusting(url, **options)``: a client of ours that trusts the authority."""
    def trusting(url, **options):
        given = {"verify": str(tls.folder / "ca.pem"), **options}
        return mcplite.connect(url, options=mcplite.ClientOptions(**given), timeout=LIMIT)

    return trusting


def secure(made, context, **options):
    return Wire(made.port, **options).secure(context)


# --- conversations ---------------------------------------------------------------------------------------


def test_a_client_calls_tools_and_reads_streams(served, trusting):
    made = served()
    assert made.url.startswith("https://127.0.0.1:")
    with trusting(made.url) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).data == 3
        assert len(client.call_tool("text", {"size": 3_000_000}).data) == 3_000_000


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_that_come_together_are_all_answered(served, tls, version):
    # More than is decrypted at once: what is left over waits in no place that the poller does not see.
    context = ssl.create_default_context(cafile=str(tls.folder / "ca.pem"))
    context.minimum_version = context.maximum_version = version
    made = served()
    with secure(made, context) as wire:
        session = begin(wire)
        wire.send(b"".join(post({**PING, "id": number, "params": {"x": "y" * 3000}}, session) for number in range(100)))
        assert [wire.reply().json["id"] for _ in range(100)] == list(range(100))


def test_records_in_pieces_are_put_together(served, tls):
    # Each byte of the handshake and of a request wakes the poller; none of them needs a thread of its own.
    made = served()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = tls.client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with Wire(made.port) as wire:
        def flush():
            for byte in outgoing.read():
                wire.sock.sendall(bytes([byte]))

        def until(act):
            while True:
                try:
                    return act()
                except ssl.SSLWantReadError:
                    flush()
                    incoming.write(wire.sock.recv(65536))

        until(client.do_handshake)
        client.write(post(initialize()))
        flush()
        assert until(lambda: client.read(65536)).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("how", ["close_notify", "end of the stream", "reset"])
def test_a_client_that_leaves_during_a_call_cancels_it(tls, served, how):
    server, ended = new_server()
    made = served(server)
    wire = secure(made, tls.client)
    head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "watched"}
    asked = call("watched")
    asked["params"]["_meta"] = {
        "progressToken": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}
    wire.send(post(asked, **head))
    assert wire.head().headers["content-type"] == "text/event-stream"
    assert b"progress" in wire.piece()
    if how == "close_notify":
        with contextlib.suppress(ssl.SSLError, OSError):
            wire.sock.settimeout(0)
            wire.sock.unwrap()
    elif how == "reset":
        wire.reset()
    else:
        wire.finish()
    assert ended.wait(LIMIT)
    wire.close()


def test_the_end_of_a_connection_is_told(served, tls):
    # Without close_notify a client could not tell it from an attacker's cut.
    made = served()
    with secure(made, tls.client) as wire:
        wire.sock.suppress_ragged_eofs = False
        reply = wire.ask("GET", "/elsewhere")
        assert reply.headers["connection"] == "close" and wire.ended()


# --- handshakes ------------------------------------------------------------------------------------------


def half_a_handshake(port, tls):
    """Return a connection whose client has sent its hello, and stays silent then."""
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.client.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1").do_handshake()
    wire = Wire(port)
    wire.send(outgoing.read())
    assert wire.sock.recv(1)  # the server has answered it
    return wire


def test_clients_in_the_middle_of_a_handshake_take_no_thread_and_go_in_time(served, tls, trusting, monkeypatch):
    monkeypatch.setattr(poller_module, "_BURST_SECONDS", 0.0)  # after a slow step each connection would get one for a while
    made = served(new_server(idle_seconds=1.0)[0])
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(half_a_handshake(made.port, tls)) for _ in range(40)]
        threads = threading.active_count()
        with trusting(made.url) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).data == 3
        assert threads < 20
        for wire in wires:
            wire.rest()  # the rest of its hello, and the end
    assert wait_until(lambda: not made._open_connections())


def test_a_flood_of_handshakes_lets_others_through(served, tls, trusting):
    made = served()
    over = threading.Event()

    def flood():
        while not over.is_set():
            with contextlib.suppress(OSError):
                half_a_handshake(made.port, tls).reset()

    threads = [threading.Thread(target=flood) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        with trusting(made.url) as client:
            for number in range(50):
                assert client.call_tool("add", {"a": number, "b": 1}).data == number + 1
    finally:
        over.set()
        for thread in threads:
            thread.join(LIMIT)


@pytest.mark.parametrize("sent", [request("GET"), b"G", post(PING), b"\x00" * 50])
def test_plain_http_is_told_to_use_https(served, sent):
    made = served()
    with Wire(made.port) as wire:
        reply = wire.send(sent).reply()
        assert reply.status == 400 and b"https://" in reply.body
        assert wire.ended()


@pytest.mark.parametrize("sent", [b"", b"\x16", b"\x16\x03\x01\x02\x00" + b"\x01" * 512, b"\x16\x03\x01\xff\xff" + b"x" * 7000],
                         ids=["nothing", "one byte", "no hello", "too long"])
def test_a_broken_handshake_costs_only_its_connection(served, trusting, sent, caplog):
    caplog.set_level(logging.WARNING)
    made = served()
    with Wire(made.port) as wire, contextlib.suppress(OSError):
        wire.send(sent)
        wire.finish()
        wire.rest()
    with trusting(made.url) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).data == 3
    assert [record.getMessage() for record in caplog.records] == []


def test_old_versions_are_refused(served, tls):
    context = ssl.create_default_context(cafile=str(tls.folder / "ca.pem"))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.10 and newer
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    wire = Wire(served().port)
    with pytest.raises(ssl.SSLError):
        wire.secure(context)
    wire.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed(served, tls, version):
    context = ssl.create_default_context(cafile=str(tls.folder / "ca.pem"))
    context.maximum_version = version
    made, resumed, session = served(), [], None
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", made.port), LIMIT) as sock:
            with context.wrap_socket(sock, server_hostname="127.0.0.1", session=session) as secured:
                secured.sendall(request("GET", "/elsewhere"))
                while secured.recv(65536):
                    continue
                resumed.append(secured.session_reused)
                session = secured.session
    assert resumed == [False, True, True]


# --- certificates ----------------------------------------------------------------------------------------


@pytest.fixture
def own(tls, tmp_path):
    """Copies of the server's files that a test may change; ``replace(name)`` replaces them."""
    files = {"certfile": tmp_path / "cert.pem", "keyfile": tmp_path / "key.pem"}

    def replace(cert, key):
        for source, target in ((cert, files["certfile"]), (key, files["keyfile"])):
            shutil.copy(tls.folder / source, str(target) + ".new")
            os.replace(str(target) + ".new", target)

    replace("server.pem", "server.key")
    files["replace"] = replace
    return files


def presented(made):
    """Return the certificate of a server."""
    return ssl.get_server_certificate(("127.0.0.1", made.port))


def test_certificates_are_read_again_when_they_change(served, tls, own, trusting, monkeypatch, caplog):
    monkeypatch.setattr(tls_module, "_LOOK_SECONDS", 0.0)
    replace = own.pop("replace")
    made = served(**own)
    first = presented(made)
    with secure(made, tls.client) as wire:
        replace("named.pem", "server.key")  # which do not fit together
        assert presented(made) == first
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
            "the certificate has changed and cannot be used, so the former one stays: certfile= and keyfile=: give the PEM of a"
            f" certificate and of its key: {own['certfile']} and {own['keyfile']} are not (KEY_VALUES_MISMATCH)"]
        assert presented(made) == first and len(caplog.records) == 1
        replace("named.pem", "named.key")
        assert presented(made) != first
        assert wire.post(initialize()).status == 200  # a connection keeps what it began with


def test_a_certificate_that_could_not_be_read_for_a_moment_is_read_later(served, tls, own, monkeypatch, caplog):
    monkeypatch.setattr(tls_module, "_LOOK_SECONDS", 0.0)
    replace = own.pop("replace")
    made = served(**own)
    first, load = presented(made), ssl.SSLContext.load_cert_chain
    replace("named.pem", "named.key")
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda *given: exec("raise OSError('too many open files')"))
    assert presented(made) == presented(made) == first
    assert [record.getMessage() for record in caplog.records].count(
        "the certificate has changed and cannot be used, so the former one stays: too many open files") == 1
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    assert presented(made) != first


@pytest.mark.parametrize("given, said", [
    ({"certfile": "nowhere.pem"}, r"certfile=: \S+nowhere.pem cannot be read: No such file"),
    ({"keyfile": "nowhere.key"}, r"keyfile=: \S+nowhere.key cannot be read"),
    ({"keyfile": "named.key"}, r"certfile= and keyfile=: give the PEM of a certificate and of its key"),
    ({"certfile": "broken.pem"}, r"give the PEM of a certificate and of its key"),
    ({"certfile": "client.pem", "keyfile": "locked.key"}, r"the key in \S+locked.key has a password: give key_password="),
    ({"certfile": "client.pem", "keyfile": "locked.key", "key_password": "wrong"}, r"give the PEM of a certificate"),
    ({"client_ca": "nowhere.pem"}, r"client_ca=: give a PEM file, or a folder, .*nowhere.pem is none"),
    ({"client_ca": "server.key"}, r"client_ca=: give a PEM file, or a folder"),
    ({"certfile": None}, r"HTTPS needs a certificate: give certfile= as well"),
])
def test_files_that_cannot_be_used(tls, given, said):
    named = {name: str(tls.folder / value) if value is not None and name != "key_password" else value
             for name, value in given.items()}
    with pytest.raises(ValueError, match=said):
        HTTPServer(new_server()[0].runtime, port=0, **{**tls.files, **named})


@pytest.mark.parametrize("password", ["secret", b"secret", lambda: "secret"], ids=["text", "bytes", "function"])
def test_a_key_with_a_password(served, tls, password):
    made = served(certfile=tls.folder / "client.pem", keyfile=tls.folder / "locked.key", key_password=password)
    assert presented(made).startswith("-----BEGIN")


# --- clients with certificates -----------------------------------------------------------------------------


@pytest.mark.parametrize("authority", ["ca.pem", "hashed"])
def test_a_client_with_a_certificate_is_known_to_handlers(served, tls, trusting, authority):
    made = served(client_ca=tls.folder / authority)
    with trusting(made.url, cert=(str(tls.folder / "client.pem"), str(tls.folder / "client.key"))) as client:
        told = json.loads(client.call_tool("caller", {}).data)
    assert told["subject"] == [[["commonName", "client"]]] and told["subjectAltName"] == [["DNS", "client"]]


@pytest.mark.parametrize("cert", [None, "other-ca"], ids=["without", "of another authority"])
def test_other_clients_are_refused(served, tls, cert):
    made = served(client_ca=tls.folder / "ca.pem")
    context = ssl.create_default_context(cafile=str(tls.folder / "ca.pem"))
    if cert is not None:
        context.load_cert_chain(tls.folder / f"{cert}.pem", tls.folder / f"{cert}.key")
    wire = Wire(made.port)
    with pytest.raises(OSError):  # in TLS 1.3 the client learns it when it reads
        wire.secure(context)
        wire.sock.suppress_ragged_eofs = False
        wire.ask("GET")
    wire.close()


def test_without_an_authority_there_is_no_certificate(served, tls, trusting):
    made = served()
    with trusting(made.url, cert=(str(tls.folder / "client.pem"), str(tls.folder / "client.key"))) as client:
        assert client.call_tool("caller", {}).data == "null"


# --- the end ---------------------------------------------------------------------------------------------


def test_a_stopping_server_ends_connections_of_all_kinds(tls):
    made = mcplite.serve(new_server()[0], **tls.files)
    with Wire(made.port) as silent, half_a_handshake(made.port, tls) as half, secure(made, tls.client) as idle:
        idle.ask("GET", "/elsewhere", headers={"Connection": "keep-alive"})
        began = time.monotonic()
        made.close(0)
        assert silent.ended() and time.monotonic() - began < LIMIT
        half.rest()
        assert idle.ended()


def test_one_request_in_the_way_of_the_standard_library(tls):
    made = HTTPServer(new_server()[0].runtime, port=0, **tls.files)
    thread = threading.Thread(target=made.handle_request, daemon=True)
    thread.start()
    with secure(made, tls.client) as wire:
        assert wire.post(initialize()).status == 200
    thread.join(LIMIT)
    made.server_close()
