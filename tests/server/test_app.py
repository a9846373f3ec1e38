"""The server object: registering, refusing, directories."""

import contextlib
import http.client
import sys
import threading

import pytest

import mcplite
from mcplite.errors import RegistrationError
from mcplite.server import Server, ServerOptions
from mcplite.server.transports import httpd


def test_decorators_return_the_function():
    server = Server("test")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.prompt("hello")
    def greet(name: str) -> str:
        return "Hello " + name

    @server.resource("a://b")
    def read() -> str:
        return "x"

    @server.completion(prompt="hello", argument="name")
    def names(value: str) -> list:
        return [value]

    @server.method("acme/x")
    def own(params, ctx):
        return {}

    assert add(1, 2) == 3 and greet("Ann") == "Hello Ann" and read() == "x" and names("a") == ["a"] and own({}, None) == {}
    assert repr(server) == "<Server 'test'>" and server.name == "test"


def test_tools_and_prompts_are_registered_without_parentheses():
    server = Server("bare")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.prompt
    def greet(name: str) -> str:
        return "Hello " + name

    assert add(1, 2) == 3 and greet("Ann") == "Hello Ann"
    with mcplite.connect(server) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert client.get_prompt("greet", {"name": "Ann"}).messages[0].content.text == "Hello Ann"
        assert client.list_tools()[0].description == "Add two numbers."


@pytest.mark.parametrize("options, text", [
    ({"port": 8000}, "port= needs HTTP: run"), ({"transport": "htpp"}, "unknown transport 'htpp'"),
    ({"stateless": False, "routes": {}}, "stateless=, routes= needs HTTP"),
])
def test_run_refuses_options_that_do_not_fit(options, text):
    with pytest.raises(ValueError, match=text):
        Server("wrong").run(**options)


@pytest.mark.parametrize("transport, sse", [("http", False), ("streamable-http", False), ("sse", True)])
def test_run_has_other_words_for_http(monkeypatch, capsys, transport, sse):
    served = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: sse)
    monkeypatch.setattr(httpd.HTTPServer, "serve_forever", lambda server: served.append(server))
    Server("words").run(transport, port=0, path="/here")
    with served.pop() as running:
        connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", "/sse", headers={"Accept": "text/event-stream"})
            assert connection.getresponse().status == (200 if sse else 404)
        assert running.url.endswith("/here")
        assert capsys.readouterr().err == (f"words is served at {running.url} (Ctrl-C stops it)\n" if sse else "")
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{running.port}: .*choose another port") as caught:
            Server("second").run(transport, port=running.port)
        assert caught.value.__suppress_context__


@pytest.mark.parametrize("kind", ["tools", "resources", "prompts"])
def test_a_server_tells_of_changes_of_lists_that_it_answers_itself(kind):
    server, heard = Server("own lists", options=ServerOptions(declare=[kind])), threading.Event()
    with mcplite.connect(server) as client:
        stop = client.subscribe(lambda event: heard.set(), **{"resource_list" if kind == "resources" else kind: True})
        getattr(server, f"{kind}_changed")()
        assert heard.wait(30)
        stop()


@pytest.mark.parametrize("make, text", [
    (lambda: Server(""), "name"), (lambda: Server(None), "name"),
    (lambda: Server("x", options=ServerOptions(declare=["toys"])), "toys"),
    (lambda: Server("x", on_duplicate="keep"), "on_duplicate"), (lambda: Server("x").resource(lambda: None), "URI"),
    (lambda: Server("x").add_tool(lambda: None, name="t", timeout=0), "timeout"),
    (lambda: Server("x").add_tool(lambda: None, name="t", meta={"io.modelcontextprotocol/x": 1}), "reserved"),
    (lambda: Server("x").add_resource("noscheme", lambda: "x", name="r"), "scheme"),
    (lambda: Server("x").add_resource("a://{x", lambda x: x, name="r"), "not closed"),
    (lambda: Server("x").add_resource("a://{x}", lambda y: y, name="r"), "must be the same"),
    (lambda: Server("x").add_resource("a://{x}", lambda: "", name="r"), "must be the same"),
    (lambda: Server("x").add_resource("a://b", lambda y: y, name="r"), "does not have"),
    (lambda: Server("x").completion(argument="a"), "prompt="),
    (lambda: Server("x").completion(argument="a", prompt="p", resource="r"), "prompt="),
    (lambda: Server("x").add_method("ping", lambda params, ctx: {}), "ping"),
    (lambda: Server("x").add_directory("file:///x", "/no/such/place"), "not a directory"),
])
def test_invalid_registrations_are_refused(make, text):
    with pytest.raises(RegistrationError, match=text):
        make()


def test_completers_take_one_or_two_parameters_and_are_unique():
    server = Server("x")

    def one(value):
        return []

    def three(value, context, more):
        return []

    server.completion(prompt="p", argument="a")(one)
    with pytest.raises(RegistrationError, match="already"):
        server.completion(prompt="p", argument="a")(one)
    with pytest.raises(RegistrationError, match="3 parameters"):
        server.completion(prompt="p", argument="b")(three)


def test_registering_from_many_threads_while_lists_are_read(connect, server):
    server.add_tool(lambda: None, name="first")
    client = connect(server)
    threads = [threading.Thread(target=lambda n=n: [server.add_tool(lambda: None, name=f"t{n}-{k}") for k in range(25)])
               for n in range(4)]
    for thread in threads:
        thread.start()
    sizes = [len(client.result("tools/list")["tools"]) for _ in range(30)]
    for thread in threads:
        thread.join(20)
    assert sizes == sorted(sizes)
    assert len(client.result("tools/list")["tools"]) == 101


# --- options are checked ------------------------------------------------------------------------------


class Lazy:
    def __str__(self):
        return "text"


def plain(server):
    yield 1


@contextlib.asynccontextmanager
async def needs_a_loop(server):
    yield 1


@contextlib.contextmanager
def fine(server):
    yield 1


@pytest.mark.parametrize("given, reason", [
    ({"version": 1.0}, r"server 'x': version= must be a text, not 1.0; write version='1.0'"), ({"version": 2}, "version="),
    ({"title": 5}, "title="), ({"description": b"x"}, "description="), ({"instructions": 5}, "instructions="),
    ({"website_url": 5}, "website_url="), ({"icons": "https://x/i.png"}, "icons= takes a list"),
    ({"icons": {"src": "x"}}, "icons="), ({"extensions": ["com.example/x"]}, r"write extensions=\{'com.example/x': \{\}\}"),
    ({"extensions": {"com.example/x": {"a": object()}}}, "is not JSON"),
    ({"middleware": lambda context, proceed: proceed()}, r"middleware= takes a list: write middleware=\[function\]"),
    ({"middleware": [5]}, r"middleware\[0\] must be a function, not 5"),
    ({"lifespan": plain}, "decorate the function of lifespan= with @contextlib.contextmanager"),
    ({"lifespan": needs_a_loop}, "no event loop"), ({"lifespan": needs_a_loop.__wrapped__}, "no event loop"),
    ({"lifespan": fine(None)}, "give the function itself, without calling it"),
    ({"lifespan": 5}, "lifespan= must be a function"), ({"limits": {}}, "limits= must be Limits"),
    ({"cache": 60}, "cache= must be a CacheHint"), ({"state_keys": "x" * 20}, r"write state_keys=\[secret\]"),
    ({"state_keys": [5]}, "state_keys takes a list of secrets"),
])
def test_options_of_a_wrong_type_are_refused_by_name(given, reason):
    with pytest.raises(RegistrationError, match=reason):
        Server("x", **given)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_lazy_texts_of_a_server_are_made_at_once(revision):
    server = Server(Lazy(), version=Lazy(), title=Lazy(), description=Lazy(), instructions=Lazy(), website_url=Lazy())
    server.add_tool(lambda: 1, name="f")
    with mcplite.connect(server, revision=revision) as client:
        client.list_tools()
        assert (client.server_info.name, client.server_info.version) == ("text", "text")
    server.instructions = Lazy()
    assert server.instructions == "text"
    with pytest.raises(RegistrationError, match="server 'text': instructions= must be a text, not 5"):
        server.instructions = 5


def test_a_lifespan_that_returns_no_context_manager_says_so():
    server = Server("x", lifespan=lambda server: plain(server))
    with pytest.raises(TypeError,
    match="decorate the function of lifespan= with @contextlib.contextmanager: it returned generator"):
        server.runtime.enter()


@pytest.mark.parametrize("register", [
    lambda server: server.add_method("com.example/x", 5), lambda server: server.add_notification("x", 5),
    lambda server: server.add_notification(5, print), lambda server: server.add_resource(5, lambda: "x", name="x"),
    lambda server: server.add_resource(None, lambda: "x", name="x"), lambda server: server.add_directory(5, "."),
    lambda server: server.add_directory("file:///x", 5), lambda server: server.add_directory("file:///x", ".", watch="5"),
    lambda server: server.completion(argument=5, prompt="p"), lambda server: server.completion(argument="a", prompt=5),
    lambda server: server.mount(Server("y"), prefix=5), lambda server: server.mount(Server("y"), tool=5),
    lambda server: server.add_directory("file:///x", ".", title=5),
])
def test_other_registrations_are_checked_too(register):
    with pytest.raises(RegistrationError):
        register(Server("x"))


@pytest.mark.parametrize("given", ["server.py", None, mcplite])
def test_what_serve_does_not_take(given):
    with pytest.raises(TypeError, match="^serve\\(\\) takes a Server, not .*; 'python -m mcplite.server TARGET' serves a file"):
        mcplite.serve(given)
