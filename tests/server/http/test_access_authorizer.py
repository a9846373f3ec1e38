"""Tokens and scopes at every path of an endpoint, on both hosts and in both eras."""

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import mcplite
from mcplite.errors import INTERNAL_ERROR, SERVER_BUSY
from mcplite.protocol import jsonrpc
from mcplite.protocol.http.headers import Headers
from mcplite.protocol.http.oauth import parse_challenges
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http import make_endpoint
from mcplite.server.http.access import Authorization, OriginPolicy
from mcplite.server.transports.wsgi import mount_wsgi
from tests.support import connecting, stateless
from tests.support.children import wait_until
from tests.support.rawhttp import BOTH, LIMIT, Wire, call, initialize, request

ROOT = str(Path(mcplite.__file__).resolve().parent.parent)
ADA, BOB = "a-token-of-ada-0123456789", "a-token-of-bob-0123456789"
ISSUER = "https://login.example"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
STREAM = {"Accept": "text/event-stream"}
LEGACY, MODERN = "2025-11-25", stateless.MODERN


def bearer(token):
    return {} if token is None else {"Authorization": f"Bearer {token}"}


class Reply:
    """One response; of a stream, its beginning."""

    def __init__(self, status, headers, body, close=lambda: None):
        self.status, self.headers, self.body, self.close = status, headers, body, close

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def challenge(self):
        """The challenge in ``WWW-Authenticate``; None without one."""
        said = self.headers.get("www-authenticate")
        found = None if said is None else parse_challenges(said)
        return None if found is None else found[0].parameters


class HTTP:
    """Our own host, over sockets."""

    def __init__(self, mcp, **options):
        self.server = mcplite.serve(mcp, **options).start()

    def ask(self, method, path="/mcp", message=None, headers=(), query=""):
        body = b"" if message is None else json.dumps(message).encode()
        given = {"Host": "localhost", "Accept": BOTH, **({"Content-Type": "application/json"} if body else {}), **dict(headers)}
        with contextlib.ExitStack() as stack:
            wire = stack.enter_context(Wire(self.server.port))
            head = wire.send(request(method, path + query, body, given)).head()
            if head.headers.get("content-type") == "text/event-stream":
                return Reply(head.status, head.headers, wire.piece(), stack.pop_all().close)
            size = 0 if method == "HEAD" else int(head.headers.get("content-length", 0))
            return Reply(head.status, head.headers, wire._exactly(size))

    def close(self):
        self.server.close(0.1)


class WSGI:
    """A WSGI application, called as by a host."""

    def __init__(self, mcp, **options):
        self.app = mcp.wsgi(path="/mcp", **options)

    def ask(self, method, path="/mcp", message=None, headers=(), query="", app=None, **more):
        body = b"" if message is None else json.dumps(message).encode()
        environ = {"REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query.lstrip("?"),
                   "HTTP_HOST": "localhost", "HTTP_ACCEPT": BOTH, "wsgi.input": io.BytesIO(body),
                   "CONTENT_LENGTH": str(len(body)), "SERVER_PORT": "80",
                   **({"CONTENT_TYPE": "application/json"} if body else {})}
        environ.update({"HTTP_" + name.upper().replace("-", "_"): value for name, value in dict(headers).items()})
        environ.update(more)
        started = []
        content = (app or self.app)(environ, lambda status, headers: started.append((status, headers)))
        status, pairs = started[0]
        given = {name.lower(): value for name, value in pairs}
        streaming = given.get("content-type") == "text/event-stream"
        close = getattr(content, "close", lambda: None)
        found = next(iter(content)) if streaming else b"".join(content)
        if not streaming:
            close()
        return Reply(int(status.split()[0]), given, found, close)

    def close(self):
        self.app.close(0.1)


HOSTS = {"http": HTTP, "wsgi": WSGI}


@pytest.fixture
def hosted():
    """Serve within the block."""
    with contextlib.ExitStack() as stack:

        def hosted(host, mcp, **options):
            made = HOSTS[host](mcp, **options)
            stack.callback(made.close)
            return made

        yield hosted


@pytest.fixture(params=list(HOSTS))
def host(request, hosted):
    return lambda mcp, **options: hosted(request.param, mcp, **options)


def make(auth=None, done=None, **options):
    """Return a server whose handlers note that they have run."""
    mcp = connecting.new_server("guarded", auth=auth, **options)
    done = [] if done is None else done

    @mcp.tool()
    def read(ctx: mcplite.Context) -> str:
        done.append("read")
        return ctx.principal.subject if ctx.principal else "anonymous"

    @mcp.tool(scopes=["write", "files"])
    def write() -> str:
        done.append("write")
        return "written"

    @mcp.resource("memo://open")
    def open_memo() -> str:
        done.append("open")
        return "x"

    @mcp.resource("memo://closed", scopes="secret")
    def closed_memo() -> str:
        done.append("closed")
        return "x"

    @mcp.resource("memo://closed/{name}", scopes=["secret"])
    def closed_memos(name: str) -> str:
        done.append("closed")
        return name

    @mcp.prompt(scopes=["secret"])
    def plan(topic: str) -> str:
        done.append("plan")
        return topic

    @mcp.completion(argument="topic", prompt="plan")
    def topics(value: str) -> list:
        done.append("topics")
        return ["x"]

    @mcp.completion(argument="name", resource="memo://closed/{name}")
    def names(value: str) -> list:
        done.append("names")
        return ["x"]

    return mcp


def tokens(**options):
    return mcplite.BearerAuth(mcplite.StaticTokens({
        ADA: mcplite.Principal("ada", scopes=options.pop("ada", ())), BOB: "bob"}), **options)


def modern(message):
    """Return the headers of a sessionless request."""
    given = stateless.headers(message)
    return {name: value for name, value in given.items() if name not in ("Host", "Accept", "Content-Type")}


READ = stateless.call("read")
LISTEN = stateless.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


def paths_of(session, post_path):
    """Return each path: method, path, message and headers besides the token, by name."""
    old = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
    return {
        "initialize": ("POST", "/mcp", initialize(), {}), "legacy post": ("POST", "/mcp", call("read"), old),
        "notification": ("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, old),
        "stream": ("GET", "/mcp", None, {**old, **STREAM}),
        "resumption": ("GET", "/mcp", None, {**old, **STREAM, "Last-Event-ID": "1-1"}), "end": ("DELETE", "/mcp", None, old),
        "modern post": ("POST", "/mcp", READ, modern(READ)), "modern stream": ("POST", "/mcp", LISTEN, modern(LISTEN)),
        "old stream": ("GET", "/sse", None, STREAM), "old post": ("POST", post_path, call("read"), {}),
        "no method": ("PUT", "/mcp", None, {}), "question": ("OPTIONS", "/mcp", None, {}),
        "with a slash": ("POST", "/mcp/", READ, modern(READ)),
    }


def open_session(host, token):
    reply = host.ask("POST", message=initialize(), headers=bearer(token))
    assert reply.status == 200, reply.body
    session = reply.headers["mcp-session-id"]
    assert host.ask("POST", message={"jsonrpc": "2.0", "method": "notifications/initialized"},
                    headers={"Mcp-Session-Id": session, **bearer(token)}).status == 202
    return session


@contextlib.contextmanager
def opened(host, token):
    """Open a session of each legacy transport; yields the paths."""
    session = open_session(host, token)
    stream = host.ask("GET", "/sse", headers={**STREAM, **bearer(token)})
    assert stream.status == 200
    try:
        data = next(line for line in stream.body.decode().splitlines() if line.startswith("data: "))
        yield paths_of(session, data[len("data: "):])
    finally:
        stream.close()


def ask_at(host, entry, headers):
    method, path, message, own = entry
    path, _, query = path.partition("?")
    return host.ask(method, path, message, {**own, **dict(headers)}, query=f"?{query}" if query else "")


# --- who comes in -------------------------------------------------------------------------------------------


def test_every_path_requires_a_token(host):
    # AUTH-01, AUTH-12, AUS-02, AUS-24
    done = []
    served = host(make(tokens(), done), legacy_sse=True)
    with opened(served, ADA) as known:
        for name, entry in known.items():
            for sent in ({}, {"Authorization": "Basic YTpi"}):
                reply = ask_at(served, entry, sent)
                assert reply.status == 401 and reply.challenge == {}, name  # RFC 6750: no error without a token
                assert reply.json["error"]["message"] and "mcp-session-id" not in reply.headers
            for sent in ("Bearer", "Bearer a b", f"Bearer {ADA}, Bearer {ADA}", "Bearer \"x\"", "Bearer " + "x" * 8100):
                reply = ask_at(served, entry, {"Authorization": sent})
                assert reply.status == 400 and reply.challenge["error"] == "invalid_request", (name, sent)
            for sent in (ADA + "x", ADA[:-1], "x"):
                reply = ask_at(served, entry, bearer(sent))
                assert reply.status == 401 and reply.challenge["error"] == "invalid_token", (name, sent)
        assert done == []
        # The session is still there, and valid tokens are accepted.
        for name, status in (("legacy post", 200), ("notification", 202), ("modern post", 200), ("old post", 202), ("end", 204),
                             ("no method", 405), ("question", 405)):
            assert ask_at(served, known[name], bearer(ADA)).status == status, name


def test_invalid_tokens_are_refused_at_every_path(host, mint, caplog):
    # AUS-10 to AUS-12, AUTH-03 to AUTH-06
    caplog.set_level(logging.DEBUG)
    done = []
    verifier = mcplite.auth.JWTVerifier(issuer=mint.issuer, keys=mint.jwks())
    served = host(make(mcplite.BearerAuth(verifier, resource=mint.resource), done), legacy_sse=True)
    texts = []
    with opened(served, mint.token()) as known:
        for kind, token in mint.wrong().items():
            for name, entry in known.items():
                reply = ask_at(served, entry, bearer(token))
                assert (reply.status, reply.challenge["error"]) == (401, "invalid_token"), (kind, name)
                texts.append((token, reply.body.decode() + str(reply.headers)))
        assert done == []
        good = ask_at(served, known["modern post"], bearer(mint.token()))
        assert good.status == 200 and good.json["result"]["content"][0]["text"] == "ada"
    for token, text in texts:
        for piece in token.split("."):
            assert len(piece) < 12 or (piece not in text and piece not in caplog.text)  # AUTH-19


def test_preflight_requests_need_no_token(host):
    served = host(make(tokens()), allowed_origins=["https://app.example"])
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "authorization"}
    reply = served.ask("OPTIONS", headers=asked)
    assert reply.status == 204 and "Authorization" in reply.headers["access-control-allow-headers"]
    refused = served.ask("POST", message=READ, headers={"Origin": "https://app.example", **modern(READ)})
    assert refused.status == 401 and "WWW-Authenticate" in refused.headers["access-control-expose-headers"]
    assert served.ask("OPTIONS", headers={**asked, "Origin": "https://evil.example"}).status == 403


def test_the_origin_policy_comes_first_and_public_paths_need_no_token(host):
    asked = []
    served = host(make(mcplite.BearerAuth(lambda token: asked.append(token))),
                  routes={"/health": lambda request: (200, "text/plain", b"well")})
    assert served.ask("POST", message=READ, headers={"Host": "evil.example", **bearer(ADA)}).status == 421
    assert served.ask("POST", message=READ, headers={"Origin": "https://evil.example", **bearer(ADA)}).status == 403
    assert asked == []
    assert served.ask("GET", "/health").body == b"well"
    assert served.ask("GET", "/elsewhere").status == 404
    assert served.ask("GET", WELL_KNOWN).status == 404, "without an authorization server there is nothing to describe"


def test_tokens_in_the_query_and_in_the_body_are_ignored(host):
    # AUS-15, AUTH-10
    done = []
    served = host(make(tokens(), done))
    message = {**READ, "access_token": ADA}
    assert served.ask("POST", message=message, headers=modern(READ), query=f"?access_token={ADA}").status == 401
    assert served.ask("POST", message=READ,
                      headers={**modern(READ), "X-Authorization": f"Bearer {ADA}", "Cookie": f"token={ADA}"}
                      ).status == 401
    assert done == []


def test_the_body_of_a_refused_request_is_not_read():
    endpoint = make_endpoint(make(tokens()).runtime)

    def read(limit):
        raise AssertionError("read")

    for sent in ({}, {"Authorization": "Bearer x y"}, bearer("stranger")):
        request = HTTPRequest("POST", "/mcp",
                              Headers({"Host": "localhost", "Content-Type": "application/json", **sent}.items()), read=read)
        response = endpoint.handle(request)
        assert response.status in (400, 401) and ("Connection", "close") in response.headers
    endpoint.close(0.1)


@pytest.mark.parametrize("error, status", [(ConnectionError("down"), 503), (ValueError("odd"), 500)])
def test_a_failing_verifier_admits_no_request(host, error, status, caplog):
    # AUTH-17
    done = []

    def verify(token):
        raise error

    served = host(make(mcplite.BearerAuth(verify), done))
    reply = served.ask("POST", message=READ, headers={**modern(READ), **bearer(ADA)})
    assert reply.status == status and reply.challenge is None and str(error) not in reply.body.decode()
    assert reply.headers.get("retry-after") == ("1" if status == 503 else None)
    assert reply.json["error"]["code"] == (SERVER_BUSY if status == 503 else INTERNAL_ERROR)
    assert reply.json["error"]["message"]
    assert done == [] and "could not be verified" in caplog.text


# --- refusals -----------------------------------------------------------------------------------------------------


def authorization(auth, path="/mcp", **options):
    return Authorization(make(auth, **options).runtime, OriginPolicy(), path)


def asking(token=None, method="POST", principal=None, **more):
    return HTTPRequest(method, "/mcp", Headers({"Host": "localhost:9", **bearer(token), **more}.items()), port=9,
                       principal=principal)


def test_the_refusal_of_a_request_without_a_scope(caplog):
    caplog.set_level(logging.INFO)
    guard = authorization(tokens(realm="shop", ada=["write"]))
    request = asking(ADA)
    assert guard.authenticate(request) is None and request.principal.subject == "ada"
    message = jsonrpc.parse(json.dumps({**call("write"), "id": 9}).encode())
    refused = guard.authorize(request, message)
    assert (refused.status, refused.id, refused.close) == (403, 9, False)
    assert refused.message == "this requires the scopes: write files"
    assert parse_challenges(refused.headers[0][1])[0].parameters == {
        "realm": "shop", "error": "insufficient_scope", "error_description": refused.message, "scope": "write files"}
    assert "'ada' was refused: it requires the scopes write files, and has write" in caplog.text
    bob = asking(BOB)
    assert guard.authenticate(bob) is None and guard.authorize(bob, message).status == 403
    assert "'bob' was refused: it requires the scopes write files, and has none" in caplog.text


def test_the_refusal_of_a_request_without_a_scope_says_where_to_get_it():
    message = jsonrpc.parse(json.dumps(call("write")).encode())
    refused = authorization(described()).authorize(asking(principal=mcplite.Principal("bob")), message)
    challenge = parse_challenges(refused.headers[0][1])[0].parameters
    assert challenge["resource_metadata"] == f"http://localhost:9{WELL_KNOWN}/mcp"


@pytest.mark.parametrize("hosts, admitted", [(None, True), (["localhost", "mcp.example"], False)])
def test_the_host_header_names_the_resource_on_loopback_only(hosts, admitted):
    # AUTH-15
    auth = mcplite.BearerAuth(lambda token: mcplite.Principal("ada", audience="http://localhost:9/mcp"))
    refused = Authorization(make(auth).runtime, OriginPolicy(hosts), "/mcp").authenticate(asking(ADA))
    assert (refused is None) is admitted and (admitted or refused.status == 401)


def test_a_host_header_that_a_web_framework_accepts_does_not_name_the_resource():
    # It may accept any: ALLOWED_HOSTS = ["*"].
    auth = mcplite.BearerAuth(lambda token: mcplite.Principal("ada", audience="http://localhost:9/mcp"))
    guard = Authorization(make(auth).runtime, OriginPolicy(), "/mcp")
    assert guard.authenticate(asking(ADA)) is None
    request = asking(ADA)
    request.host_checked = True
    assert guard.authenticate(request).status == 401


# --- whose things they are ----------------------------------------------------------------------------------------


def issued(name, client="desk", issuer=ISSUER, scopes=(), expires=None):
    return mcplite.Principal(name, client_id=client, issuer=issuer, scopes=scopes, expires_at=expires,
                             audience=mcplite.auth.ISSUED_HERE)


#: Ada's token, her next one, and those of others who are like her.
HOLDERS = {
    "first": issued("ada"), "refreshed": issued("ada", scopes=["more"]), "bob": issued("bob"),
    "other-client": issued("ada", "app"), "other-issuer": issued("ada", issuer="https://second.example"),
}
OTHERS = ["bob", "other-client", "other-issuer"]


def holders():
    return mcplite.BearerAuth(HOLDERS.get)


def test_a_session_is_only_for_its_owner(host):
    # AUTH-13, SESS-13, AUS-25
    served = host(make(holders()), legacy_sse=True)
    with opened(served, "first") as known:
        names = ["legacy post", "notification", "stream", "resumption", "old post", "end"]
        for other in OTHERS:
            for name in names:
                reply = ask_at(served, known[name], bearer(other))
                assert reply.status == 404, (name, other)
        answer = ask_at(served, known["legacy post"], bearer("refreshed"))
        assert answer.status == 200 and answer.json["result"]["content"][0]["text"] == "ada"
        for name, status in (("stream", 200), ("old post", 202), ("end", 204)):
            reply = ask_at(served, known[name], bearer("refreshed"))
            reply.close()
            assert reply.status == status, name


def web(mcp, **options):
    """Return an endpoint whose tokens are the names of HOLDERS."""
    there = stateless.Web(mcp, **options)

    def send(request, token):
        response = there.respond(request, Authorization=f"Bearer {token}")
        return json.loads(response.content)

    there.ask = send
    return there


@pytest.mark.parametrize("options", [{}, {"fleet": True, "state_keys": ["a key of thirty-two bytes or more!"]}])
def test_a_question_is_only_answered_by_its_owner(options):
    # AUTH-13, MRTR-14: a waiting call, and the state of a fleet
    mcp = connecting.new_server("asking", auth=holders(), **options)
    seen = []

    @mcp.tool()
    def ask(ctx: mcplite.Context) -> str:
        answer = ctx.elicit("Well?").action
        seen.append(sorted(ctx.principal.scopes))
        return answer

    there = web(mcp)
    request = stateless.call("ask", capabilities={"elicitation": {}})
    first = there.ask(request, "first")["result"]
    assert first["resultType"] == "input_required"
    for other in OTHERS:
        assert there.ask(stateless.again(request, first), other)["error"]["code"] == -32602
    assert there.ask(stateless.again(request, first), "refreshed")["result"]["content"][0]["text"] == "accept"
    assert seen == [["more"]], "the handler sees who came back"
    there.close()


def test_a_handler_sees_the_principal_of_its_own_request(host):
    # Also in a lasting session, and in batches.
    mcp = mcplite.Server("who", auth=mcplite.BearerAuth(HOLDERS.get, implies={"more": ["less"]}))

    @mcp.tool()
    def who(ctx: mcplite.Context) -> list:
        return [ctx.principal.subject, ctx.principal.issuer, sorted(ctx.principal.scopes),
                ctx.session.principal.key == ctx.principal.key]

    served = host(mcp)
    session = open_session(served, "first")
    own = {"Mcp-Session-Id": session}
    for token, scopes in (("first", []), ("refreshed", ["less", "more"])):
        expected = json.dumps(["ada", ISSUER, scopes, True])
        for message, headers in ((call("who"), own), (stateless.call("who"), modern(stateless.call("who")))):
            answer = served.ask("POST", message=message, headers={**headers, **bearer(token)}).json
            assert json.loads(answer["result"]["content"][0]["text"]) == json.loads(expected)
    reply = served.ask("POST", message=initialize("2025-03-26"), headers=bearer("first"))
    old = {"Mcp-Session-Id": reply.headers["mcp-session-id"]}
    served.ask("POST", message={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers={**old, **bearer("first")})
    answers = served.ask("POST", message=[call("who", 1), call("who", 2)], headers={**old, **bearer("refreshed")}).json
    assert len(answers) == 2 and all('"more"' in answer["result"]["content"][0]["text"] for answer in answers)


def test_request_ids_belong_to_the_session_for_every_sender():
    # A cancellation is a request of its own, here with another token of the same client.
    mcp, started, ended = mcplite.Server("slow", auth=holders()), threading.Event(), threading.Event()

    @mcp.tool()
    def wait(ctx: mcplite.Context) -> str:
        started.set()
        ctx.on_cancel(ended.set)
        ctx.sleep(LIMIT)
        return "not cancelled"

    served = HTTP(mcp)
    own = {"Mcp-Session-Id": open_session(served, "first")}
    box = []
    asking = threading.Thread(target=lambda: box.append(served.ask("POST", message=call("wait", 7),
                                                                   headers={**own, **bearer("first")})))
    asking.start()
    assert started.wait(LIMIT)
    twice = served.ask("POST", message=call("wait", 7), headers={**own, **bearer("refreshed")})
    assert "in use" in twice.json["error"]["message"]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert served.ask("POST", message=cancel, headers={**own, **bearer("refreshed")}).status == 202
    assert ended.wait(LIMIT)
    asking.join(LIMIT)
    box[0].close()
    served.close()


# --- what they may do ---------------------------------------------------------------------------------------------


def ask_modern(host, method, params, token=ADA, **said):
    message = stateless.message(method, params, **said)
    return host.ask("POST", message=message, headers={**modern(message), **bearer(token)})


OPERATIONS = {
    "tools/call": ({"name": "write", "arguments": {}}, ["write", "files"]),
    "resources/read": ({"uri": "memo://closed"}, ["secret"]),
    "resources/read of a template": ({"uri": "memo://closed/a"}, ["secret"]),
    "resources/subscribe": ({"uri": "memo://closed"}, ["secret"]),
    "prompts/get": ({"name": "plan", "arguments": {"topic": "x"}}, ["secret"]),
    "completion/complete": ({"ref": {"type": "ref/prompt", "name": "plan"},
                             "argument": {"name": "topic", "value": ""}}, ["secret"]),
    "completion/complete of a template": ({"ref": {"type": "ref/resource", "uri": "memo://closed/{name}"},
                                           "argument": {"name": "name", "value": ""}}, ["secret"]),
    "subscriptions/listen": ({"notifications": {"resourceSubscriptions": ["memo://open", "memo://closed"]}},
                             ["secret"]),
}


@pytest.mark.parametrize("granted, works",
                         [((), False), (("read",), False), (("write",), False), (("write", "files", "secret"), True),
                                            (("admin",), True)])
def test_requests_need_the_scopes_of_what_they_name(host, granted, works):
    # AUS-17, AUS-18, AUS-21, AUTH-11: all of them in one challenge, at every path that has the operation
    done = []
    auth = tokens(ada=granted, implies={"admin": ["write", "files"], "write": [], "files": ["secret"]})
    served = host(make(auth, done), legacy_sse=True)
    with opened(served, ADA) as known:
        for name, (params, scopes) in OPERATIONS.items():
            method = name.split(" ")[0]
            replies = []
            if method != "resources/subscribe":
                replies.append(ask_modern(served, method, params))
            if method != "subscriptions/listen":
                message = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
                for name in ("legacy post", "old post"):
                    way, path, _, own = known[name]
                    replies.append(ask_at(served, (way, path, message, own), bearer(ADA)))
            for reply in replies:
                reply.close()
                if works:
                    assert reply.status in (200, 202), (name, reply.body)
                    continue
                assert reply.status == 403, (name, reply.body)
                assert reply.challenge["error"] == "insufficient_scope"
                assert reply.challenge["scope"].split()[:len(scopes)] == scopes
                assert reply.json["id"] in (1, 5) and "error" in reply.json
        if not works:
            assert done == []
        else:
            assert {"write", "closed", "plan", "topics", "names"} <= set(done)
        assert ask_modern(served, "tools/call", {"name": "read", "arguments": {}}).status == 200
        assert ask_modern(served, "resources/read", {"uri": "memo://open"}).status == 200
        for odd in ({"name": 5}, {"name": None}, {}, {"name": "unknown"}):
            message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": odd}
            assert served.ask("POST", message=message,
                              headers={**known["legacy post"][3], **bearer(ADA)}).json["error"]["code"] == -32602


FORBIDDEN = "resources/read", {"uri": "memo://closed"}


def test_a_flood_of_requests_without_a_scope_leaves_few_lines(host, caplog):
    served = host(make(tokens(ada=["read"])))
    caplog.set_level(logging.INFO, "mcplite.server.http.access")
    for _ in range(60):
        assert ask_modern(served, *FORBIDDEN).status == 403
    assert 0 < len([record for record in caplog.records if "requires the scopes" in record.getMessage()]) <= 30


def test_one_item_that_lacks_a_scope_refuses_the_whole_batch(host):
    # AUTH-11
    done = []
    served = host(make(tokens(ada=["write"]), done))
    reply = served.ask("POST", message=initialize("2025-03-26"), headers=bearer(ADA))
    own = {"Mcp-Session-Id": reply.headers["mcp-session-id"], **bearer(ADA)}
    served.ask("POST", message={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=own)
    plan = {"jsonrpc": "2.0", "id": 3, "method": "prompts/get", "params": {"name": "plan", "arguments": {"topic": "x"}}}
    refused = served.ask("POST", message=[call("read", 1), call("write", 2), plan], headers=own)
    assert refused.status == 403 and refused.challenge["scope"] == "write files secret" and refused.json["id"] is None
    assert done == []
    assert len(served.ask("POST", message=[call("read", 1), call("read", 2)], headers=own).json) == 2


def test_a_challenge_names_all_required_scopes(host):
    served = host(make(tokens(scopes=["base"])), legacy_sse=True)
    assert served.ask("POST", message=READ, headers=modern(READ)).challenge == {"scope": "base"}  # AUS-08
    for method, path in (("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse")):
        reply = served.ask(method, path, headers={**STREAM, "Mcp-Session-Id": "x", **bearer(ADA)})
        assert (reply.status, reply.challenge["scope"]) == (403, "base")
    assert ask_modern(served, "tools/call", {"name": "read", "arguments": {}}).challenge["scope"] == "base"
    assert ask_modern(served, "tools/call", {"name": "write", "arguments": {}}).challenge["scope"] == "base write files"
    for message in (initialize(), {"jsonrpc": "2.0", "method": "notifications/x"}):
        assert served.ask("POST", message=message, headers={**bearer(ADA), "Mcp-Session-Id": "x"}).status in (403, 404)
    assert served.ask("POST", message=initialize(), headers=bearer(ADA)).status == 403


@pytest.mark.parametrize("repeat, old, new", [
    (None, "write files read admin", "write files"), (True, "write files read admin", "write files read admin"),
    (False, "write files", "write files"),
])
def test_granted_scopes_are_repeated_as_the_revision_advises(host, repeat, old, new):
    # AUS-19: sorted behind what is needed, without what another scope includes, and without unknown scopes
    auth = tokens(ada=["read", "admin", "audit", "offline_access", "foreign"], implies={"admin": ["audit"]},
                  scopes_supported=["read"], repeat_granted=repeat)
    served = host(make(auth))
    session = open_session(served, ADA)
    refused = served.ask("POST", message=call("write"), headers={"Mcp-Session-Id": session, **bearer(ADA)})
    assert sorted(refused.challenge["scope"].split()) == sorted(old.split())
    assert refused.challenge["scope"].startswith("write files")
    refused = ask_modern(served, "tools/call", {"name": "write", "arguments": {}})
    assert sorted(refused.challenge["scope"].split()) == sorted(new.split())
    assert refused.challenge["scope"].startswith("write files")


def test_scopes_without_authentication_refuse_every_request(host, caplog):
    done = []
    served = host(make(None, done))
    refused = ask_modern(served, "tools/call", {"name": "write", "arguments": {}}, token=None)
    assert refused.status == 403 and refused.challenge is None and done == []
    assert "requests are not authenticated" in caplog.text
    assert ask_modern(served, "tools/call", {"name": "read", "arguments": {}}, token=None).status == 200


def test_a_pipe_has_no_scopes():
    # AUS-26
    done = []
    with mcplite.connect(make(tokens(), done)) as client:
        assert client.call_tool("write").content[0].text == "written"
        assert client.call_tool("read").content[0].text == "anonymous"
    assert done == ["write", "read"]


def test_invalid_scopes_cannot_be_registered():
    mcp = mcplite.Server("x")
    for scopes in (["a b"], ['"'], [""], "offline_access", [5], 5):
        with pytest.raises(mcplite.errors.RegistrationError):
            mcp.add_tool(lambda: None, name="x", scopes=scopes)
        with pytest.raises(mcplite.errors.RegistrationError):
            mcp.add_resource("a://b", lambda: "", name="x", scopes=scopes)
        with pytest.raises(mcplite.errors.RegistrationError):
            mcp.add_prompt(lambda: "", name="x", scopes=scopes)
    assert not mcp.registry.scoped


def test_the_files_of_a_directory_can_require_scopes(tmp_path, hosted):
    (tmp_path / "a.txt").write_text("text")
    mcp = mcplite.Server("files", auth=tokens(ada=["files"]))
    mcp.add_directory("file:///srv", str(tmp_path), scopes=["files"])
    served = hosted("http", mcp)
    assert ask_modern(served, "resources/read", {"uri": "file:///srv/a.txt"}).json["result"]["contents"][0]["text"] == "text"
    assert ask_modern(served, "resources/read", {"uri": "file:///srv/a.txt"}, BOB).status == 403


# --- what a host says -----------------------------------------------------------------------------------------------


def test_a_principal_of_the_host_needs_no_auth(hosted):
    def known(environ):
        return {"ada": mcplite.Principal("ada", scopes=["write", "files"]), "bob": "bob",
                "": None}.get(environ.get("app.user", ""), 5)

    served = hosted("wsgi", make(), principal=known)
    message = stateless.call("write")
    assert served.ask("POST", message=message, headers=modern(message), **{"app.user": "ada"}).status == 200
    refused = served.ask("POST", message=message, headers=modern(message), **{"app.user": "bob"})
    assert refused.status == 403 and refused.challenge["scope"] == "write files"
    assert "resource_metadata" not in refused.challenge
    assert served.ask("POST", message=message, headers=modern(message)).status == 403
    assert served.ask("POST", message=READ, headers=modern(READ),
                      **{"app.user": "bob"}).json["result"]["content"][0]["text"] == "bob"
    with pytest.raises(TypeError, match="a Principal, a name, or None"):
        served.ask("POST", message=READ, headers=modern(READ), **{"app.user": "?"})


def test_with_tokens_the_principal_of_the_host_is_ignored(hosted):
    asked = []
    served = hosted("wsgi", make(tokens()), principal=lambda environ: asked.append(1) or "eve")
    assert served.ask("POST", message=READ, headers=modern(READ), REMOTE_USER="eve").status == 401
    reply = served.ask("POST", message=READ, headers={**modern(READ), **bearer(ADA)}, REMOTE_USER="eve")
    assert reply.json["result"]["content"][0]["text"] == "ada" and asked == []


# --- where to get a token -----------------------------------------------------------------------------------------


def described(**options):
    return mcplite.BearerAuth({ADA: issued("ada")}.get, issuer=ISSUER, **options)


def test_the_metadata_is_at_the_well_known_paths(host):
    # AUS-04 to AUS-07, AUS-22, AUS-30, AUTH-15
    mcp = make(described(resource="https://mcp.example/mcp", scopes=["base"],
                         documentation="https://mcp.example/docs"), title="The Guarded")
    served = host(mcp, allowed_hosts=["mcp.example", "localhost"])
    for path in (WELL_KNOWN + "/mcp", WELL_KNOWN, WELL_KNOWN + "/"):
        for name in ("mcp.example", "localhost:99"):
            reply = served.ask("GET", path, headers={"Host": name})
            assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
            assert reply.json == {
                "resource": "https://mcp.example/mcp", "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"], "scopes_supported": ["base", "write", "files", "secret"],
                "resource_name": "The Guarded", "resource_documentation": "https://mcp.example/docs"}
    assert served.ask("HEAD", WELL_KNOWN).body == b"" and served.ask("POST", WELL_KNOWN, READ).status == 405
    assert served.ask("GET", WELL_KNOWN + "/other").status == 404
    assert served.ask("GET", WELL_KNOWN, headers={"Host": "evil.example"}).status == 421
    url = served.ask("GET", headers=STREAM).challenge["resource_metadata"]
    assert url == "https://mcp.example" + WELL_KNOWN + "/mcp"


def test_scopes_supported_can_be_given():
    endpoint = make_endpoint(make(described(resource="https://mcp.example/mcp", scopes_supported=["read"])).runtime,
                             allowed_hosts=["*"])
    response = endpoint.handle(HTTPRequest("GET", WELL_KNOWN, Headers([("Host", "x")])))
    assert json.loads(response.content)["scopes_supported"] == ["read"]
    bare = mcplite.Server("bare", auth=described(resource="https://mcp.example"))
    response = make_endpoint(bare.runtime).handle(HTTPRequest("GET", WELL_KNOWN, Headers([("Host", "localhost")])))
    assert "scopes_supported" not in json.loads(response.content)


@pytest.mark.parametrize("origin", ["https://app.example", "https://any.example", "http://localhost:6274", "null"])
def test_pages_of_any_origin_can_read_the_metadata_and_nothing_more(host, origin):
    # It is public; clients in pages, such as the Inspector, begin with it (RFC 9728, section 3).
    served = host(make(described(resource="https://mcp.example/mcp")), allowed_origins=["https://app.example"])
    page = {"Origin": origin}
    reply = served.ask("GET", WELL_KNOWN, headers=page)
    assert reply.status == 200 and reply.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in reply.headers
    asked = {**page, "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "mcp-protocol-version"}
    allowed = served.ask("OPTIONS", WELL_KNOWN, headers=asked)
    assert allowed.status == 204 and allowed.headers["access-control-allow-origin"] == "*"
    assert "GET" in allowed.headers["access-control-allow-methods"]
    assert "mcp-protocol-version" in allowed.headers["access-control-allow-headers"].lower()
    assert served.ask("POST", WELL_KNOWN, message={}).status == 405
    assert served.ask("GET", WELL_KNOWN, headers={**page, "Host": "evil.example"}).status == 421
    if origin not in ("https://app.example", "http://localhost:6274"):  # the names of this machine are accepted
        for method, path in (("POST", WELL_KNOWN), ("POST", "/mcp"), ("GET", "/mcp"), ("OPTIONS", "/mcp")):
            refused = served.ask(method, path, message=initialize() if method == "POST" else None, headers={**page, **(
                bearer(ADA) if path == "/mcp" else {})})
            assert refused.status == 403 and "access-control-allow-origin" not in refused.headers, path


def test_on_loopback_the_resource_is_the_requested_url(hosted):
    def verify(token):
        return mcplite.Principal("ada", audience=token.replace("~", "/").replace("+", ":"))

    auth = mcplite.BearerAuth(verify, issuer=ISSUER)
    served = hosted("http", make(auth))
    port = served.server.port
    for name in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        resource = f"http://{name}/mcp"
        refused = served.ask("GET", headers={**STREAM, "Host": name})
        url = refused.challenge["resource_metadata"]
        assert url == f"http://{name}{WELL_KNOWN}/mcp"
        assert served.ask("GET", WELL_KNOWN + "/mcp", headers={"Host": name}).json["resource"] == resource
    token = f"http+~~localhost+{port}~mcp"
    headers = {**modern(READ), **bearer(token)}
    assert served.ask("POST", message=READ, headers={**headers, "Host": f"localhost:{port}"}).status == 200
    assert served.ask("POST", message=READ, headers={**headers, "Host": f"127.0.0.1:{port}"}).status == 401
    # The Host header of a request does not make a token for another port valid here.
    other = {**modern(READ), **bearer("http+~~localhost+1~mcp")}
    refused = served.ask("POST", message=READ, headers={**other, "Host": "localhost:1"})
    assert refused.status == 401 and "resource_metadata" not in refused.challenge
    assert served.ask("GET", WELL_KNOWN, headers={"Host": "localhost:1"}).status == 404


@pytest.mark.parametrize("port, name, status", [
    ("9999", "localhost:9999", 200), ("80", "localhost", 200), ("9998", "localhost:9999", 401), ("80", "localhost:9999", 401),
    ("", "localhost:9999", 401), ("", "localhost:80", 401), ("", "localhost", 401), ("81", "localhost:81", 200),
])
def test_without_a_known_port_the_resource_is_unknown(hosted, port, name, status):
    # AUTH-15: a Unix socket has no port, and the Host header does not replace it.
    def verify(token):
        return mcplite.Principal("ada", audience=f"http://{name}/mcp")

    served = hosted("wsgi", make(mcplite.BearerAuth(verify, issuer=ISSUER)))
    headers = {**modern(READ), **bearer(ADA), "Host": name}
    reply = served.ask("POST", message=READ, headers=headers, SERVER_PORT=port)
    assert reply.status == status
    if status == 401:
        assert "resource_metadata" not in reply.challenge
        assert served.ask("GET", WELL_KNOWN, headers={"Host": name}, SERVER_PORT=port).status == 404


@pytest.mark.parametrize("hosts", [["mcp.example"], ["*"], ["localhost", "mcp.example"]])
def test_elsewhere_the_resource_must_be_given(hosts):
    with pytest.raises(ValueError, match="resource='https://mcp.example.com/mcp'"):
        make_endpoint(make(described()).runtime, allowed_hosts=hosts)
    make_endpoint(make(tokens()).runtime, allowed_hosts=hosts).close(0.1)


@pytest.mark.parametrize("resource, mounted, path, url", [
    ("https://mcp.example/mcp", "", "/mcp", "https://mcp.example" + WELL_KNOWN + "/mcp"),
    ("https://mcp.example/api/mcp", "/api", "/mcp", "https://mcp.example/api" + WELL_KNOWN + "/mcp"),
    ("https://mcp.example/api/mcp", "/api/mcp", "", "https://mcp.example/api/mcp" + WELL_KNOWN),
    ("https://mcp.example", "", "", "https://mcp.example" + WELL_KNOWN),
    ("https://mcp.example/mcp/", "", "/mcp", "https://mcp.example" + WELL_KNOWN + "/mcp"),
    ("https://mcp.example/public", "", "/mcp", "https://mcp.example" + WELL_KNOWN + "/public"),
    ("https://mcp.example/public/", "", "/mcp", "https://mcp.example" + WELL_KNOWN + "/public"),
    ("https://mcp.example/BOX/", "", "/mcp", "https://mcp.example" + WELL_KNOWN + "/BOX"),
    (None, "/api", "/mcp", "http://localhost/api" + WELL_KNOWN + "/mcp"),
])
def test_a_challenge_names_a_url_that_is_served(resource, mounted, path, url):
    app = make(described(resource=resource)).wsgi(path=path)
    outer = mount_wsgi(lambda environ, start: pytest.fail("the outer application was asked"),
                  {mounted: app}) if mounted else app
    there = WSGI.__new__(WSGI)
    refused = there.ask("GET", mounted + path, headers=STREAM, app=outer)
    assert refused.challenge["resource_metadata"] == url
    asked = url[len("https://mcp.example"):] if resource else url[len("http://localhost"):]
    reply = there.ask("GET", asked, app=outer)
    assert reply.status == 200 and reply.json["resource"] == (resource or "http://localhost/api/mcp")
    app.close(0.1)


def test_the_metadata_of_a_mounted_server_is_at_the_root_too():
    # RFC 9728, section 3.1
    app = make(described(resource="https://mcp.example/api/mcp")).wsgi(path="/mcp")
    bare = make(tokens()).wsgi()
    outer = mount_wsgi(lambda environ, start: start("299 Outer", []) or [b""], {"/api": app, "/bare": bare})
    there = WSGI.__new__(WSGI)
    assert there.ask("GET", WELL_KNOWN + "/api/mcp", app=outer).json["resource"] == "https://mcp.example/api/mcp"
    assert there.ask("GET", WELL_KNOWN + "/api", app=outer).status == 200
    for path in (WELL_KNOWN, WELL_KNOWN + "/apis", WELL_KNOWN + "/bare", WELL_KNOWN + "/other"):
        assert there.ask("GET", path, app=outer).status == 299, path
    app.close(0.1)
    bare.close(0.1)


# --- streams end with their tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stream", "resumption", "modern stream", "old stream"])
@pytest.mark.slow
def test_a_stream_ends_with_its_token(kind):
    # AUS-31, AUTH-16: the call itself is not lost
    soon = time.time() + 0.6
    keys = {"lasting": issued("ada"), "short": issued("ada", expires=soon)}
    mcp = make(mcplite.BearerAuth(keys.get))
    endpoint = make_endpoint(mcp.runtime, legacy_sse=True)

    def ask(method, path="/mcp", message=None, token="lasting", **headers):
        body = b"" if message is None else json.dumps(message).encode()
        given = {"Host": "localhost", "Accept": BOTH, "Content-Type": "application/json", **bearer(token),
                 **{name.replace("_", "-"): value for name, value in headers.items()}}
        return endpoint.handle(HTTPRequest(method, path, Headers(given.items()), read=lambda limit: body))

    session = dict(ask("POST", message=initialize()).headers)["Mcp-Session-Id"]
    ask("POST", message={"jsonrpc": "2.0", "method": "notifications/initialized"}, Mcp_Session_Id=session)
    way = {
        "stream": lambda: ask("GET", token="short", Mcp_Session_Id=session),
        "resumption": lambda: ask("GET", token="short", Mcp_Session_Id=session, Last_Event_ID="0.0-0"),
        "modern stream": lambda: ask("POST", message=LISTEN, token="short", **modern(LISTEN)),
        "old stream": lambda: ask("GET", "/sse", token="short"),
    }[kind]
    response = way()
    assert response.streaming and response.status == 200
    mcp.add_tool(lambda: None, name="new")  # what came in time is still said
    said = b"".join(response.body)
    response.close()
    assert time.time() >= soon - 0.1
    assert (b"list_changed" in said) == (kind != "old stream")
    if kind == "modern stream":
        assert b'"resultType":"complete"' in said.replace(b": ", b":") and len(mcp.runtime.subscriptions) == 0  # SUBS-11
    assert wait_until(lambda: len(endpoint.open_streams) == 0)
    assert ask("POST", message=call("read"), token="short", Mcp_Session_Id=session).status == 401
    again = ask("GET", Mcp_Session_Id=session)
    assert again.status == 200, "the session goes on with the next token"
    again.close()
    endpoint.close(0.1)


@pytest.mark.slow
def test_a_busy_stream_ends_with_its_token_too():
    mcp = make(mcplite.BearerAuth({"short": issued("ada", expires=time.time() + 0.5)}.get))
    endpoint = make_endpoint(mcp.runtime)
    given = {"Host": "localhost", "Accept": BOTH, "Content-Type": "application/json", **bearer("short"), **modern(LISTEN)}
    response = endpoint.handle(HTTPRequest("POST", "/mcp", Headers(given.items()),
                                           read=lambda limit: json.dumps(LISTEN).encode()))
    pieces = 0
    for _ in response.body:
        pieces += 1
        mcp.add_tool(lambda: None, name=f"new{pieces}")
    response.close()
    assert pieces > 2 and len(mcp.runtime.subscriptions) == 0
    endpoint.close(0.1)


# --- nothing is told ------------------------------------------------------------------------------------------------


def test_a_process_never_prints_a_token(tmp_path):
    # AUS-23, AUTH-19: on a real server's stderr, with every message shown
    (tmp_path / "guarded.py").write_text(
        "import mcplite\n"
        "def verify(token):\n"
        "    if token.startswith('odd'):\n"
        "        raise ValueError('no token: ' + token)\n"
        "    return tokens(token)\n"
        f"tokens = mcplite.StaticTokens({{{ADA!r}: 'ada'}})\n"
        "mcp = mcplite.Server('guarded', auth=verify)\n"
        "@mcp.tool()\n"
        "def read(ctx: mcplite.Context) -> str:\n"
        "    return repr(ctx.principal)\n"
        "@mcp.tool()\n"
        "def fail() -> str:\n"
        "    raise ValueError('failed')\n")
    process = subprocess.Popen([sys.executable, "-m", "mcplite.server", "guarded.py", "--http", "0", "--log-level", "debug",
                                "--debug"], cwd=str(tmp_path), env={**os.environ, "PYTHONPATH": ROOT, "MCPLITE_DEBUG": "1"},
                               stderr=subprocess.PIPE)
    try:
        said = b""
        while b"is served at" not in said:
            said += process.stderr.readline()
        port = int(said.partition(b"is served at http://127.0.0.1:")[2].split(b"/")[0])
        bodies = []
        for token in ("odd-" + ADA, ADA + "x", ADA):
            for message in (READ, stateless.call("fail"), call("read")):
                headers = modern(message) if "_meta" in message["params"] else {"Mcp-Session-Id": "x"}
                with Wire(port) as wire:
                    reply = wire.ask("POST", f"/mcp?access_token={token}", json.dumps(message).encode(), {
                        "Content-Type": "application/json", "Accept": BOTH, **headers, **bearer(token)})
                bodies.append(reply.body + str(reply.headers).encode())
        process.terminate()
        said += process.communicate(timeout=LIMIT)[1]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert b"failed" in said and b"could not be verified" in said and b'"method"' in said and b"/mcp" in said
    for text in (said, *bodies):
        assert ADA.encode() not in text
    assert any(b"ada" in text for text in bodies)
