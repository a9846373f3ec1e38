"""An authorization server, an MCP server that takes its tokens only, and a user: strict, scripted, on real sockets."""

import base64
import hashlib
import http.client
import io
import json
import secrets
import sys
import threading
from collections import Counter
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

from .webscript import LIMIT, WebScript

#: The redirect URI; no server listens there.
REDIRECT = "http://127.0.0.1:8765/callback"


class AuthServer(WebScript):
    """It rotates refresh tokens, and revokes all that comes of one that is used again (``reuses``).

    ``asked`` has the fields of each token request; ``secrets`` all values that only the two sides may see.
    """

    def __init__(self, path=""):
        super().__init__(path=path)
        self.issuer = self.origin + path
        #: Guards all below; for dictionary work.
        self._lock = threading.Lock()
        self.clients, self.codes, self.tokens, self.refreshable = {}, {}, {}, {}
        self.asked, self.registered, self.revoked, self.secrets = [], [], [], set()
        self.reuses = 0
        # What it does; for tests to change.
        self.expires_in = 3600
        self.refreshes, self.registers, self.denies = True, True, False
        self.scopes = None
        #: Who has logged in, to those who ask what a token means.
        self.subject = "user"
        #: Scopes in, scopes that are granted out.
        self.grants = list
        self.metadata = {}
        #: Called with the fields of a request for a token (or the document of a registration) and the way back; returns
        #: NotImplemented to leave it to what is below.
        self.on_token = self.on_register = self.on_authorize = self.on_revoke = lambda given, answer: NotImplemented

    def count(self, grant_type):
        """Return how many requests of a grant there were: "refresh_token", "authorization_code", ..."""
        return Counter(fields.get("grant_type") for fields in self.asked)[grant_type]

    @property
    def everything(self):
        """All that was sent here, as one text."""
        return "\n".join(f"{request.method} {request.path} {request.headers} {request.body!r}" for request in self.requests)

    def know(self, client_id, secret=None, redirect_uris=(REDIRECT,), method=None):
        """Register a client by hand."""
        self.clients[client_id] = {"secret": secret, "redirect_uris": list(redirect_uris),
                                   "method": method or ("client_secret_basic" if secret else "none")}
        if secret:
            self.secrets.add(secret)

    def end(self, token=None):
        """Have access tokens be good no more: one, or all."""
        with self._lock:
            for name in [token] if token else list(self.tokens):
                self.tokens.pop(name, None)

    def _new(self, kind):
        text = f"{kind}-{secrets.token_urlsafe(18)}"
        self.secrets.add(text)
        return text

    # --- what is asked --------------------------------------------------------------------------------------

    def play(self, request, answer):
        path, _, query = request.path.partition("?")
        place = urlsplit(self.issuer).path
        if path == "/.well-known/oauth-authorization-server" + place:
            return answer.json(self.description())
        if request.method == "GET" and path == place + "/authorize":
            return self._authorize(dict(parse_qsl(query)), answer)
        if request.method == "POST" and path == place + "/register" and self.registers:
            return self._register(request.message, answer)
        ask = {"/token": self._token, "/revoke": self._revoke, "/introspect": self._introspect}.get(path[len(place):])
        if request.method == "POST" and ask is not None and path.startswith(place + "/"):
            return ask(request, dict(parse_qsl(request.body.decode(), keep_blank_values=True)), answer)
        return answer.status(404)

    def description(self):
        document = {
            "issuer": self.issuer, "token_endpoint": self.issuer + "/token",
            "authorization_endpoint": self.issuer + "/authorize",
            "revocation_endpoint": self.issuer + "/revoke", "code_challenge_methods_supported": ["S256"],
            "response_types_supported": ["code"], "authorization_response_iss_parameter_supported": True,
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]}
        if self.registers:
            document["registration_endpoint"] = self.issuer + "/register"
        if self.scopes is not None:
            document["scopes_supported"] = self.scopes
        return {**document, **self.metadata}

    def _authorize(self, fields, answer):
        if self.on_authorize(fields, answer) is not NotImplemented:
            return None
        client = self.clients.get(fields["client_id"])
        if client is None or fields["redirect_uri"] not in client["redirect_uris"]:
            return answer.status(400, "unknown client or redirect_uri")  # no redirect to an unknown URI
        back = {"state": fields["state"], "iss": self.issuer}
        if self.denies:
            back["error"] = "access_denied"
        else:
            assert fields["code_challenge_method"] == "S256" and fields["response_type"] == "code", fields
            code = back["code"] = self._new("code")
            with self._lock:
                self.codes[code] = fields
        return answer.status(302, Location=f"{fields['redirect_uri']}?{urlencode(back)}")

    def _register(self, document, answer):
        if self.on_register(document, answer) is not NotImplemented:
            return
        client_id = f"client-{len(self.registered) + 1}"
        self.know(client_id, None, document["redirect_uris"], document["token_endpoint_auth_method"])
        self.registered.append(document)
        answer.status(201, json.dumps({**document, "client_id": client_id}), Content_Type="application/json")

    def _client(self, request, fields):
        """Return the id of the client that has proved who it is; None when it has not."""
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            client_id, secret = map(unquote_plus, base64.b64decode(text).decode().split(":"))
        else:
            client_id, secret = fields.get("client_id"), fields.get("client_secret")
        known = self.clients.get(client_id)
        if known is None or known["secret"] != secret:
            return None
        if known["method"] == "private_key_jwt" and not fields.get("client_assertion"):
            return None
        return client_id

    def _token(self, request, fields, answer):
        with self._lock:
            self.asked.append(fields)
            self.secrets.update(filter(None, map(fields.get, ("code_verifier", "assertion", "client_assertion"))))
        if self.on_token(fields, answer) is not NotImplemented:
            return None
        client_id = self._client(request, fields)
        if client_id is None:
            return refuse(answer, 401, "invalid_client")
        if "resource" not in fields:
            return refuse(answer, 400, "invalid_target")
        kind = fields["grant_type"]
        if kind == "authorization_code":
            return self._redeemed(client_id, fields, answer)
        if kind == "refresh_token":
            return self._refreshed(client_id, fields, answer)
        if kind in ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"):
            return self.give(answer, client_id, fields["resource"], fields.get("scope", "").split(), None)
        return refuse(answer, 400, "unsupported_grant_type")

    def _redeemed(self, client_id, fields, answer):
        with self._lock:
            asked = self.codes.pop(fields["code"], None)
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or challenge != asked["code_challenge"] or client_id != asked["client_id"] or any(
                fields[name] != asked[name] for name in ("redirect_uri", "resource")):
            return refuse(answer, 400, "invalid_grant")
        return self.give(answer, client_id, fields["resource"], self.grants(asked.get("scope", "").split()), object())

    def _refreshed(self, client_id, fields, answer):
        with self._lock:
            known = self.refreshable.get(fields["refresh_token"])
            if known is not None and known["used"]:
                self.reuses += 1
                for other in list(self.refreshable.values()):
                    if other["family"] is known["family"]:
                        other["used"] = True
                for name in [name for name, token in self.tokens.items() if token["family"] is known["family"]]:
                    del self.tokens[name]
            if known is None or known["used"] or (known["client"], known["resource"]) != (client_id, fields["resource"]):
                known = None
            else:
                known["used"] = True
        if known is None:
            return refuse(answer, 400, "invalid_grant")
        return self.give(answer, client_id, known["resource"], known["scopes"], known["family"])

    def give(self, answer, client_id, resource, scopes, family, **more):
        """Give a token, and one to refresh it with when there was a user."""
        token = self._new("access")
        document = {"access_token": token, "token_type": "Bearer", **more}
        if scopes:
            document["scope"] = " ".join(scopes)
        if self.expires_in is not None:
            document["expires_in"] = self.expires_in
        with self._lock:
            self.tokens[token] = {"resource": resource, "scopes": scopes, "family": family}
            if self.refreshes and family is not None:
                document["refresh_token"] = self._new("refresh")
                self.refreshable[document["refresh_token"]] = {
                    "client": client_id, "resource": resource, "scopes": scopes, "family": family, "used": False}
        answer.json(document)

    def _revoke(self, request, fields, answer):
        self.revoked.append(fields)
        if self.on_revoke(fields, answer) is not NotImplemented:
            return None
        if self._client(request, fields) is None:
            return refuse(answer, 401, "invalid_client")
        self.end(fields["token"])
        return answer.status(200)

    def _introspect(self, request, fields, answer):
        known = self.tokens.get(fields["token"])
        if known is None:
            return answer.json({"active": False})
        return answer.json({"active": True, "sub": self.subject, "client_id": "us", "iss": self.issuer,
                            "aud": known["resource"], "scope": " ".join(known["scopes"])})


def refuse(answer, status, error, **more):
    """Answer with an error of OAuth."""
    answer.status(status, json.dumps({"error": error, **more}), Content_Type="application/json")


class Checks:
    """What lets requests with a good token pass; to be mixed into a :class:`WebScript`.

    ``sent`` has the tokens that came, None for none.
    """

    def guard(self, auth):
        self.auth = auth
        self.issuers = [auth.issuer]
        self.sent = []
        #: Scopes that each token needs, and that what is asked (``does``) needs besides.
        self.needs, self.needs_for = [], {}
        #: What needs no token.
        self.free = set()
        self.metadata = {}
        #: Called with a request and its token; returns a status and a challenge to refuse it, None to look at the token.
        self.on_request = lambda request, token: None
        return self

    def refuses(self, request, answer):
        path = request.path.partition("?")[0]
        own = urlsplit(self.url).path
        if path.startswith("/.well-known/"):
            if path == "/.well-known/oauth-protected-resource" + own:
                answer.json({"resource": self.url, "authorization_servers": self.issuers, **self.metadata})
            else:
                answer.status(404)
            return True
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        token = text if scheme == "Bearer" else None
        with self.arrived:
            self.sent.append(token)
        refusal = self.on_request(request, token) or self._judged(request, token)
        if refusal is None:
            return False
        answer.status(refusal[0], WWW_Authenticate=refusal[1])
        return True

    def challenge(self, *scopes, **more):
        """Return a challenge that names this server's description, and scopes."""
        said = {**more, "resource_metadata": f"{self.origin}/.well-known/oauth-protected-resource{urlsplit(self.url).path}"}
        if scopes:
            said["scope"] = " ".join(scopes)
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in said.items())

    def _judged(self, request, token):
        if request.does in self.free:
            return None
        known = self.auth.tokens.get(token)
        if known is None or known["resource"] != self.url:
            return 401, self.challenge(*self.needs, **({"error": "invalid_token"} if token else {}))
        wanted = [*self.needs, *self.needs_for.get(request.does, ())]
        if set(wanted) <= set(known["scopes"]):
            return None
        return 403, self.challenge(*wanted, error="insufficient_scope")


class Protected(Checks, WebScript):
    """An MCP server that takes the tokens of *auth*.

    :param app: a WSGI application that serves what passes; by default a small server with a session.
    """

    def __init__(self, auth, app=None, path="/mcp"):
        super().__init__(path=path)
        self.guard(auth)
        self._app = app

    def play(self, request, answer):
        if self._app is None:
            return super().play(request, answer)
        path, _, query = request.path.partition("?")
        mounted = urlsplit(self.url).path
        environ = {
            "REQUEST_METHOD": request.method, "SCRIPT_NAME": mounted, "PATH_INFO": path[len(mounted):], "QUERY_STRING": query,
            "SERVER_NAME": "127.0.0.1", "SERVER_PORT": str(self.port), "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_LENGTH": str(len(request.body)), "CONTENT_TYPE": request.headers.get("content-type", ""),
            "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(request.body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False,
            **{"HTTP_" + name.upper().replace("-", "_"): value for name, value in request.headers.items()
               if name not in ("content-type", "content-length")}}
        started = []
        body = self._app(environ, lambda *response: started.append(response))
        try:
            pieces = iter(body)
            first = next(pieces, b"")
            status, headers = started[0][:2]
            answer.raw(f"HTTP/1.1 {status}\r\n".encode() + b"".join(f"{name}: {value}\r\n".encode() for name, value in headers))
            if any(name.lower() == "content-length" for name, _ in headers) or status[:3] in ("204", "304"):
                return answer.raw(b"\r\n" + first + b"".join(pieces))
            answer.raw(b"Transfer-Encoding: chunked\r\n\r\n")
            if first:
                answer.more(first.decode())
            for piece in pieces:
                if piece:
                    answer.more(piece.decode())
            return answer.end()
        finally:
            getattr(body, "close", bool)()

    def __exit__(self, *exc):
        getattr(self._app, "close", bool)()  # streams end with it
        super().__exit__(*exc)


class User:
    """A user who agrees to everything, when they may; for ``OAuth(ask=...)``. ``visits`` has the pages they were sent to."""

    def __init__(self):
        self.visits = []
        #: Set for a user who answers at once.
        self.may = threading.Event()
        self.may.set()
        #: What the user does in place of a login; it is called with the URL.
        self.does = follow
        self._arrived = threading.Condition()

    def __call__(self, url):
        with self._arrived:
            self.visits.append(url)
            self._arrived.notify_all()
        assert self.may.wait(LIMIT)
        return self.does(url)

    def wait_for(self, count=1):
        """Wait until the user was asked *count* times."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.visits) >= count, LIMIT)

    def scopes(self):
        """Return the scopes that were asked for, each time."""
        return [dict(parse_qsl(urlsplit(url).query)).get("scope", "").split() for url in self.visits]


def follow(url):
    """Visit a page as a browser that is logged in, and return where it leads to."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=LIMIT)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}")
        response = connection.getresponse()
        response.read()
        assert response.status == 302, response.status
        return response.headers["Location"]
    finally:
        connection.close()
