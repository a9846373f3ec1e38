"""What a caller sees of a server that hides what its scopes do not allow: the answers of a server without it, to the letter.

Each request goes to two servers. One has entries that the caller may not use, the other one has none; the caller is answered
in one way by both. Entries are the server's own, those of a mounted server, and files of a directory.
"""

import base64
import contextlib
import itertools
import json
import logging
import queue
from typing import Annotated

import pytest

import mcplite
from mcplite.errors import RegistrationError, RemoteError
from mcplite.middleware import CacheResults
from mcplite.protocol.http.headers import Headers
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import make_endpoint
from tests.support import stateless
from tests.support.rawhttp import BOTH, initialize
from tests.support.wsgi import serving_wsgi

LIMIT = 30
MODERN = stateless.MODERN
LEGACY = ["2025-03-26", "2025-06-18", "2025-11-25"]
SOME, MORE, ALL = "a-token-with-some-scopes-0123", "a-token-with-more-scopes-0123", "a-token-with-all-scopes-01234"


def tokens():
    def principal(name, *scopes):
        return mcplite.Principal(name, audience=mcplite.auth.ISSUED_HERE, scopes=scopes)

    return mcplite.StaticTokens({SOME: principal("ada", "use"), MORE: principal("ada", "use", "keys"),
                                 ALL: principal("eve", "use", "keys", "files")})


def values(*found):
    def complete(value):
        return list(found)

    return complete


def fill(server, scheme, hides, uses=True):
    """Register entries that all callers see and, on a server that hides, others that need more scopes."""
    server.add_tool(lambda: "look", name="look")
    if uses:
        server.add_tool(lambda word="": word, name="use", scopes=["use"])
    server.add_resource(scheme + "://open", lambda: "open", name="r")
    server.add_resource(scheme + "://{name}", lambda name: f"any {name}", name="r")
    server.add_resource(scheme + "://numbered/{number}", lambda number: number, name="r")

    @server.prompt()
    def ask(topic: str) -> str:
        return topic

    server.completion(argument="topic", prompt="ask")(values("a", "b"))
    if not hides:
        return

    @server.tool(scopes=["keys"])
    def looks(region: Annotated[str, mcplite.Header("Region")]) -> str:  # its name is nearer to "lookz" than another one
        return "keys"

    server.add_tool(lambda: "keys", name="keep", scopes=["use", "keys"], task="optional")
    server.add_resource(scheme + "://keys", lambda: "keys", name="r", scopes=["keys"])
    server.add_resource(scheme + "://key-{name}", lambda name: "keys", name="r", scopes=["keys"])
    server.add_resource(scheme + "://numbered/{number}/key", lambda number: "keys", name="r", scopes=["keys"])

    @server.prompt(scopes=["keys"])
    def asks(topic: str) -> str:
        return "keys"

    server.completion(argument="topic", prompt="asks")(values("keys"))
    server.completion(argument="name", resource=scheme + "://key-{name}")(values("keys"))


def make(folder, hides, uses=True):
    """Return a server with a mounted one; on one that hides, half of the entries need scopes."""
    hint = mcplite.CacheHint(60, "public" if hides else "private")
    server = mcplite.Server("vault", auth=tokens(), cache=hint, options=mcplite.ServerOptions(
        page_size=2, hide_unauthorized=hides))
    inner = mcplite.Server("inner", cache=hint)
    for one, scheme in ((server, "own"), (inner, "in")):
        fill(one, scheme, hides, uses)
    if hides:
        server.add_directory("file:///vault", str(folder), scopes=["files"])
    else:  # the task of "keep" declares a capability
        server.add_tool(lambda: "", name="keep", task="optional")
        server.remove_tool("keep")
    server.mount(inner, "in")
    return server


class Caller:
    """Sends requests to the endpoint of a server, without a socket; a session begins with the first one."""

    def __init__(self, server, revision, token=SOME):
        self.endpoint, self.revision, self.token = make_endpoint(server.runtime), revision, token
        self.ids, self.session = itertools.count(1), None
        if revision != MODERN:
            answer = self.post(initialize(revision, 0))
            self.handshake, self.session = json.loads(answer.content), dict(answer.headers)["Mcp-Session-Id"]
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message, **more):
        body = json.dumps(message).encode()
        given = {"Content-Type": "application/json", "Accept": BOTH}
        if self.revision == MODERN:
            given.update(stateless.headers(message))
        elif self.session is not None:
            given.update({"MCP-Protocol-Version": self.revision, "Mcp-Session-Id": self.session})
        given.update({"Host": "localhost", **({"Authorization": f"Bearer {self.token}"} if self.token else {}), **more})
        return self.endpoint.handle(HTTPRequest("POST", "/mcp", Headers(given.items()), read=lambda limit: body))

    def message(self, method, params):
        if self.revision == MODERN:
            return stateless.message(method, params, next(self.ids))
        return {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}

    def ask(self, method, params=None, **more):
        """Return all that is sent for a request: status, headers and message."""
        return self.read(self.post(self.message(method, params or {}), **more))

    def read(self, response):
        headers = {name.lower(): value for name, value in response.headers}
        headers.pop("mcp-session-id", None)
        if not response.streaming:
            return response.status, headers, json.loads(response.content)
        text = b"".join(itertools.takewhile(lambda piece: b"acknowledged" not in piece, response.body))
        return response.status, headers, [line for line in text.decode().splitlines() if line.startswith("data: ")]

    def result(self, method, params=None):
        _, _, answer = self.ask(method, params)
        return answer["result"]

    def list(self, kind, key):
        """Return all pages of a list, and their names."""
        pages, cursor = [], {}
        while True:
            pages.append(self.result(f"{kind}/list", cursor))
            cursor = {"cursor": pages[-1].get("nextCursor")}
            if cursor["cursor"] is None:
                return pages, [one.get("uri") or one.get("uriTemplate") or one["name"] for page in pages for one in page[key]]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "key.txt").write_text("keys")
    return tmp_path


@pytest.fixture
def both(folder):
    """Return a caller of the server that hides, and one of the server that has nothing to hide."""
    with contextlib.ExitStack() as stack:

        def both(revision, token=SOME):
            callers = [Caller(make(folder, hides, hides or token is not None), revision, token) for hides in (True, False)]
            for caller in callers:
                stack.callback(caller.endpoint.close, 0.1)
            return callers

        yield both


def forged(kind, position, name):
    return base64.urlsafe_b64encode(json.dumps([kind, position, name]).encode()).decode().rstrip("=")


LISTS = [("tools", "tools"), ("resources", "resources"), ("resources/templates", "resourceTemplates"), ("prompts", "prompts")]
#: Requests that ask for what is hidden, or come near it.
PROBES = [
    *(("tools/call", {"name": name, "arguments": arguments}) for arguments in ({}, {"region": 1}, [])
      for name in ("looks", "lookz", "keep", "in_looks", "in_keep", "kee")),
    ("tools/call", {"name": "looks", "arguments": "none"}), ("tools/call", {"name": "keep", "task": {"ttl": 1000}}),
    ("tools/call", {"name": "in_keep", "task": {"ttl": 1000}}),
    *((method, {"uri": uri}) for method in ("resources/read", "resources/subscribe", "resources/unsubscribe") for uri in (
        "own://keys", "OWN://keys", "own://%6Beys", "own://key-1", "own://numbered/1/key", "own://numbered/1", "in://keys",
        "in://key-1", "in+own://keys", "in+in://keys", "in://numbered/1/key", "file:///vault", "file:///vault/",
        "file:///vault/key.txt", "file:///vault/none.txt")),
    *(("prompts/get", {"name": name, "arguments": {"topic": "x"}}) for name in ("asks", "in_asks", "askz")),
    *(("prompts/get", {"name": name, "arguments": {"topic": 1}}) for name in ("asks", "in_asks")),
    *(("completion/complete", {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "topic", "value": ""}})
      for name in ("ask", "asks", "in_ask", "in_asks", "none")),
    *(("completion/complete", {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "name", "value": ""}})
      for uri in ("own://key-{name}", "own://keys", "own://{name}", "in://key-{name}", "file:///vault/{+path}")),
    *((f"{method}/list", {"cursor": forged(kind, position, name)}) for method, kind, names in (
        ("tools", "tools", ("looks", "keep", "none")), ("resources", "resources", ("own://keys", "file:///vault/")),
        ("prompts", "prompts", ("asks", "in_asks"))) for name in names for position in (0, 1, 9)),
]


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
@pytest.mark.parametrize("token", [SOME, None], ids=["some", "anonymous"])
def test_what_is_hidden_is_answered_as_what_does_not_exist(both, revision, token, monkeypatch):
    if token is None:  # the host lets everyone in
        monkeypatch.setattr(f"{__name__}.tokens", lambda: None)
    hiding, bare = both(revision, token)
    if revision == MODERN:
        assert hiding.result("server/discover")["capabilities"] == bare.result("server/discover")["capabilities"]
    else:
        assert hiding.handshake == bare.handshake
    for kind, key in LISTS:
        assert hiding.list(kind, key) == bare.list(kind, key)
    for method, params in PROBES:
        assert hiding.ask(method, params) == bare.ask(method, params), (method, params)


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
def test_a_caller_with_the_scopes_sees_and_uses_all(both, revision):
    hiding, _ = both(revision, ALL)
    names = {name for kind, key in LISTS for name in hiding.list(kind, key)[1]}
    assert names >= {"look", "looks", "keep", "in_looks", "own://keys", "own://key-{name}", "in://keys", "file:///vault/key.txt",
                     "file:///vault/{+path}", "asks", "in_asks"}
    for name in ("looks", "in_looks"):
        _, _, answer = hiding.ask("tools/call", {"name": name, "arguments": {"region": "x"}}, **{"Mcp-Param-Region": "x"})
        assert answer["result"]["content"][0]["text"] == "keys"
    for uri in ("own://keys", "own://key-1", "in://numbered/1/key", "file:///vault/key.txt"):
        assert hiding.result("resources/read", {"uri": uri})["contents"][0]["text"] == "keys"
    completed = hiding.result("completion/complete", {"ref": {"type": "ref/prompt", "name": "in_asks"},
                                                      "argument": {"name": "topic", "value": ""}})
    assert completed["completion"]["values"] == ["keys"]


def test_headers_and_states_of_july_2026_tell_nothing(both):
    hiding, bare = both(MODERN)
    for name in ("looks", "in_looks"):
        for more in ({"Mcp-Param-Region": "x"}, {"Mcp-Param-Region": "other"}, {}):
            asked = {"name": name, "arguments": {"region": "x"}}
            assert hiding.ask("tools/call", asked, **more) == bare.ask("tools/call", asked, **more)
        for more in ({"requestState": "x"}, {"inputResponses": {"a": {"action": "accept"}}}, {"inputResponses": {"a": 1}}):
            asked = {"name": name, "arguments": {}, **more}
            assert hiding.ask("tools/call", asked) == bare.ask("tools/call", asked)


def test_caches_keep_lists_and_resources_for_one_caller_only(both):
    for token in (SOME, ALL):
        hiding, _ = both(MODERN, token)
        scopes = [page["cacheScope"] for kind, key in LISTS for page in hiding.list(kind, key)[0]]
        # The template of all URIs reads "own://keys" for a caller that lacks the scopes.
        scopes += [hiding.result("resources/read", {"uri": uri})["cacheScope"] for uri in ("own://open", "own://keys")]
        assert set(scopes) == {"private"}


def test_the_requests_of_a_batch_are_answered_one_by_one(both):
    hiding, bare = both("2025-03-26")
    for caller in (hiding, bare):
        batch = [{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {"word": "x"}}}
                 for id, name in enumerate(["use", "looks", "in_looks", "none"])]
        _, _, lines = caller.read(caller.post(batch))
        answers = {one["id"]: one for line in lines for one in _each(json.loads(line[6:]))} if isinstance(lines[0], str) else {
            one["id"]: one for one in lines}
        assert answers[0]["result"]["content"][0]["text"] == "x" and len(answers) == 4
        assert [answers[id]["error"]["message"] for id in (1, 2, 3)] == [
            f"Unknown tool: {name}{_suggested(name)}" for name in ("looks", "in_looks", "none")]


def _each(message):
    return message if isinstance(message, list) else [message]


def _suggested(name):
    return {"looks": "; did you mean 'look'?", "in_looks": "; did you mean 'in_look'?"}.get(name, "")


def test_without_the_option_the_scopes_are_named(folder):
    server = mcplite.Server("open", auth=tokens())
    fill(server, "own", True)
    caller = Caller(server, MODERN)
    assert "looks" in caller.list("tools", "tools")[1]
    status, headers, _ = caller.ask("tools/call", {"name": "looks", "arguments": {"region": "x"}}, **{"Mcp-Param-Region": "x"})
    assert status == 403 and "keys" in headers["www-authenticate"]
    caller.endpoint.close(0.1)


def test_scopes_of_every_request_are_required_as_before(folder):
    server = make(folder, True)
    server.auth = mcplite.BearerAuth(tokens(), scopes=["keys"])
    caller = Caller(server, MODERN)
    status, headers, _ = caller.ask("tools/call", {"name": "keep"})
    assert status == 403 and 'scope="keys"' in headers["www-authenticate"]
    caller.endpoint.close(0.1)


def test_another_server_that_hides_does_not_decide_for_the_one_that_mounts_it(folder):
    inner = mcplite.Server("inner", options=mcplite.ServerOptions(hide_unauthorized=True))
    fill(inner, "in", True)
    server = mcplite.Server("outer", auth=tokens())
    server.mount(inner, "in")
    caller = Caller(server, MODERN)
    assert caller.ask("tools/call", {"name": "in_keep"})[0] == 403
    assert "in_keep" in caller.list("tools", "tools")[1]
    caller.endpoint.close(0.1)


@contextlib.contextmanager
def hosted(server, host):
    if host == "wsgi":
        application = server.wsgi(path="/mcp")
        with serving_wsgi(application) as url, contextlib.closing(application):
            yield url
    else:
        with mcplite.serve(server, legacy_sse=host == "sse") as serving:
            yield serving.url.replace("/mcp", "/sse") if host == "sse" else serving.url


@pytest.mark.parametrize("host, revision", [
    ("http", "2025-11-25"), ("http", MODERN), ("wsgi", "2025-11-25"), ("wsgi", MODERN), ("sse", "2024-11-05")])
def test_changes_of_what_is_hidden_are_not_told(folder, host, revision):
    server = make(folder, True)
    inner = mcplite.Server("later", auth=None)
    inner.add_resource("later://keys", lambda: "keys", name="r", scopes=["keys"])
    server.mount(inner, "later")
    told = {token: queue.Queue() for token in (SOME, ALL)}
    with hosted(server, host) as url, contextlib.ExitStack() as stack:
        for token, heard in told.items():
            client = stack.enter_context(mcplite.connect(url, auth=mcplite.Bearer(token), revision=revision, timeout=LIMIT))
            seen = {"own://open", "own://key-1", "own://keys", "in://keys"}  # there is a template of all URIs
            if token == ALL or revision == MODERN:  # which acknowledges what does not exist
                seen.add("later://keys")
            stack.callback(client.subscribe(heard.put, tools=True, prompts=True, resources=sorted(seen)))
        for one in (server, inner):
            one.add_tool(lambda: "keys", name="late", scopes=["keys"])
            one.remove_tool("late")
        server.add_prompt(lambda: "keys", name="late", scopes=["keys"])
        for one, uri in ((server, "own://keys"), (server, "own://key-1"), (server, "in://keys"), (inner, "later://keys"),
                         (server, "own://open")):
            one.resource_updated(uri)
        inner.add_tool(lambda: "", name="seen")
        events = {token: [] for token in told}
        for token, heard in told.items():
            while mcplite.ToolsChanged() not in events[token][-1:] or token == ALL and len(set(map(str, events[token]))) < 7:
                events[token].append(heard.get(timeout=LIMIT))
        assert events[SOME] == [mcplite.ResourceUpdated(uri="own://open"), mcplite.ToolsChanged()]
        assert mcplite.PromptsChanged() in events[ALL] and mcplite.ResourceUpdated(uri="later://keys") in events[ALL]


def test_a_subscription_to_what_is_hidden_is_acknowledged_as_one_to_what_does_not_exist(both):
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": [
        "own://keys", "own://numbered/1/key", "in://keys", "file:///vault/key.txt", "none://none"]}

    def acknowledged(caller):
        response = caller.post(caller.message("subscriptions/listen", {"notifications": wanted}))
        with contextlib.closing(response.body):
            return response.status, next(piece for piece in response.body if b"acknowledged" in piece)

    hiding, bare = map(acknowledged, both(MODERN))
    assert hiding == bare and b"none://none" in hiding[1]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_changes_in_another_process_are_not_told_either(tmp_path, revision):
    def process():
        made = mcplite.Server("vault", auth=tokens(), backend=f"sqlite:///{tmp_path}/shared.db", state_keys=["k" * 32],
                              options=mcplite.ServerOptions(hide_unauthorized=True))
        fill(made, "own", True)
        return made

    told = {token: queue.Queue() for token in (SOME, ALL)}
    servers = [process(), process()]
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(mcplite.serve(server)).url for server in servers]
        for url, token in [*((urls[0], token) for token in told), (urls[1], ALL)]:
            client = stack.enter_context(mcplite.connect(url, auth=mcplite.Bearer(token), revision=revision, timeout=LIMIT))
            if url == urls[0]:
                stack.callback(client.subscribe(told[token].put, tools=True, resources=["own://keys", "own://open"]))
            else:
                client.list_tools()
        servers[1].add_tool(lambda: "keys", name="late", scopes=["keys"])
        servers[1].resource_updated("own://keys")
        assert {told[ALL].get(timeout=LIMIT) for _ in range(2)} == {
            mcplite.ToolsChanged(), mcplite.ResourceUpdated(uri="own://keys")}
        servers[1].resource_updated("own://open")
        servers[1].remove_tool("use")
        for heard in told.values():
            assert {heard.get(timeout=LIMIT) for _ in range(2)} == {
                mcplite.ToolsChanged(), mcplite.ResourceUpdated(uri="own://open")}


def test_the_latest_token_says_what_a_client_is_told(folder):
    server, heard, token = make(folder, True), queue.Queue(), [SOME]
    with mcplite.serve(server) as serving, mcplite.connect(serving.url, auth=mcplite.Bearer(lambda: token[-1]),
                                                           revision="2025-11-25", timeout=LIMIT) as client:
        client.subscribe(heard.put, resources=["own://open"])
        with pytest.raises(RemoteError, match="not found"):
            client.subscribe(heard.put, resources=["own://numbered/1/key"])
        token.append(MORE)
        client.subscribe(heard.put, resources=["own://numbered/1/key"])
        server.resource_updated("own://numbered/1/key")
        assert heard.get(timeout=LIMIT) == mcplite.ResourceUpdated(uri="own://numbered/1/key")
        token.append(SOME)
        assert "looks" not in [tool.name for tool in client.list_tools(fresh=True)]
        server.resource_updated("own://numbered/1/key")
        server.resource_updated("own://open")
        assert heard.get(timeout=LIMIT) == mcplite.ResourceUpdated(uri="own://open")


def test_a_call_that_waits_goes_on_for_none_but_a_caller_with_its_scopes():
    server = mcplite.Server("vault", auth=tokens(), options=mcplite.ServerOptions(hide_unauthorized=True))

    @server.tool(scopes=["keys"])
    def open_vault(ctx: mcplite.Context) -> str:
        return str(ctx.elicit("Which?", {"type": "object", "properties": {"n": {"type": "integer"}}}).content)

    with contextlib.closing(Caller(server, MODERN, MORE).endpoint) as endpoint:
        web = Caller(server, MODERN, MORE)
        web.endpoint = endpoint
        asked = stateless.call("open_vault", capabilities={"elicitation": {}})
        _, _, answer = web.read(web.post(asked))
        retry = stateless.again(asked, answer["result"])
        web.token = SOME
        assert web.read(web.post(retry))[2]["error"]["message"] == "Unknown tool: open_vault"
        web.token = MORE
        assert web.read(web.post(retry))[2]["result"]["content"][0]["text"] == "{'n': 2}"


def test_middleware_does_not_see_what_is_hidden():
    seen = []

    def note(ctx, proceed):
        seen.append(None if ctx.tool is None else ctx.tool.name)
        return proceed()

    kept = CacheResults(tools=["open_vault"], shared=True)  # for all callers: those who may call it
    server = mcplite.Server("vault", auth=tokens(), middleware=[note, kept],
                            options=mcplite.ServerOptions(hide_unauthorized=True))
    server.add_tool(lambda: "keys", name="open_vault", scopes=["keys"])
    caller = Caller(server, MODERN, MORE)
    with contextlib.closing(caller.endpoint):
        for _ in range(2):
            assert caller.result("tools/call", {"name": "open_vault"})["content"][0]["text"] == "keys"
        caller.token = SOME
        assert caller.ask("tools/call", {"name": "open_vault"})[2]["error"]["message"] == "Unknown tool: open_vault"
        assert caller.result("tools/list")["tools"] == []
    assert seen == ["open_vault", "open_vault", None, None]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_nothing_is_hidden_without_http(folder, revision):
    with mcplite.connect(make(folder, True), revision=revision) as client:
        assert {"look", "looks", "in_looks"} <= {tool.name for tool in client.list_tools()}
        assert client.call_tool("looks", {"region": "x"}).text == "keys"


def test_the_log_says_what_a_caller_does_not_learn(folder, caplog):
    caller = Caller(make(folder, True), MODERN)
    with caplog.at_level(logging.INFO, "mcplite"), contextlib.closing(caller.endpoint):
        caller.ask("tools/call", {"name": "keep"})
    assert any("'ada'" in record.getMessage() and "scopes" in record.getMessage() for record in caplog.records)


def test_the_option_is_true_or_false():
    with pytest.raises(RegistrationError, match="hide_unauthorized= must be True or False"):
        mcplite.Server("x", options=mcplite.ServerOptions(hide_unauthorized="keys"))


def test_a_completer_that_is_registered_later_completes_for_everyone():
    server = mcplite.Server("vault", auth=tokens(), options=mcplite.ServerOptions(hide_unauthorized=True))
    server.add_tool(lambda: "keys", name="keys", scopes=["keys"])
    server.add_prompt(lambda topic: topic, name="ask")
    server.completion(prompt="ask", argument="other")(values("unused"))
    with mcplite.serve(server) as served, mcplite.connect(served.url, auth=SOME) as client:
        def complete():
            return client.complete(prompt="ask", argument="topic", value="").completion.values

        assert complete() == []
        server.completion(prompt="ask", argument="topic")(values("maps"))
        assert complete() == ["maps"]
