"""Stand-ins for the providers people have accounts at: each behaves as that provider's documents say, on a real socket.

``Provider("github", mint)`` is a server; ``log_in(url)`` is a browser in which the user agrees, and returns where it is sent.
"""

import base64
import hashlib
import http.client
import json
import secrets
import threading
import time
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import pytest

from mcplite.auth.issuer.upstream import upstream
from mcplite.auth.issuer.upstream_grants import Encryption, UpstreamGrants
from mcplite.auth.issuer.upstream_providers import PROVIDERS
from mcplite.backend.from_url import open_backend

from .webscript import LIMIT, WebScript

CLIENT, SECRET = "app-1", "upstream-secret-0123456789-0123456789"
CALLBACK = "https://notes.example/callback"
#: What the issuer encrypts with.
KEY = b"0123456789abcdef0123456789abcdef"
TENANT = "11111111-2222-3333-4444-555555555555"
#: By provider: the places of ``upstream()``, and the paths of the authorization, token and user endpoints.
PLACES = {
    "github": ({}, "/login/oauth/authorize", "/login/oauth/access_token", "/user"),
    "google": ({}, "/o/oauth2/v2/auth", "/token", "/v1/userinfo"),
    "entra": ({"tenant": TENANT}, f"/{TENANT}/oauth2/v2.0/authorize", f"/{TENANT}/oauth2/v2.0/token", "/oidc/userinfo"),
    "okta": ({}, "/oauth2/default/v1/authorize", "/oauth2/default/v1/token", "/oauth2/default/v1/userinfo"),
    "auth0": ({}, "/authorize", "/oauth/token", "/userinfo"),
    "cognito": ({"region": "eu-west-1", "pool": "eu-west-1_Abc"}, "/oauth2/authorize", "/oauth2/token", "/oauth2/userInfo"),
    "discord": ({}, "/oauth2/authorize", "/api/oauth2/token", "/api/users/@me"),
    "keycloak": ({"realm": "staff"}, "/realms/staff/protocol/openid-connect/auth",
                 "/realms/staff/protocol/openid-connect/token", "/realms/staff/protocol/openid-connect/userinfo"),
}
#: By provider: the path of its issuer.
ISSUERS = {"google": "", "entra": f"/{TENANT}/v2.0", "okta": "/oauth2/default", "auth0": "/", "cognito": "/eu-west-1_Abc",
           "keycloak": "/realms/staff"}
#: What each says of Ada.
USERS = {
    "github": {"id": 583231, "login": "ada", "name": "Ada Lovelace", "email": "shown@ada.example", "type": "User"},
    "google": {"sub": "1180", "name": "Ada Lovelace", "email": "ada@ada.example", "email_verified": True, "hd": "ada.example"},
    "entra": {"sub": "pairwise", "oid": "99999999-0000-0000-0000-000000000001", "tid": TENANT, "name": "Ada Lovelace",
              "preferred_username": "ada@ada.example", "email": "ada@ada.example", "groups": ["g-1", "g-2"]},
    "okta": {"sub": "00u1", "name": "Ada Lovelace", "email": "ada@ada.example", "email_verified": True,
             "groups": ["Everyone", "editors"]},
    "auth0": {"sub": "auth0|5f7", "name": "Ada Lovelace", "email": "ada@ada.example", "email_verified": True},
    "cognito": {"sub": "c0ffee", "cognito:username": "ada", "email": "ada@ada.example", "email_verified": "true",
                "cognito:groups": ["editors"]},
    "discord": {"id": "80351110224678912", "username": "ada", "global_name": "Ada", "email": "ada@ada.example",
                "verified": True},
    "keycloak": {"sub": "f81d4fae", "name": "Ada Lovelace", "preferred_username": "ada", "email": "ada@ada.example",
                 "email_verified": True, "realm_access": {"roles": ["editors"]}},
}


class Provider(WebScript):
    """One provider. ``asked`` has the forms of the token endpoint; the other attributes are for tests to change."""

    def __init__(self, kind, mint):
        super().__init__(path="")
        self.kind, self._mint = kind, mint
        self.places, *self._paths = PLACES[kind]
        self.issuer = self.origin + ISSUERS[kind] if kind in ISSUERS else ""
        #: Guards all below; for dictionary work.
        self._lock = threading.Lock()
        self.codes, self.tokens, self.refreshable, self.asked, self.reuses = {}, {}, {}, [], 0
        self.user = dict(USERS[kind])
        self.redirect_uris = [CALLBACK]
        #: GitHub's tokens do not expire, unless an app asks for that.
        self.expires_in = None if kind == "github" else 3600
        #: Whether a refresh token is given where this provider's documents say so.
        self.refreshes = True
        #: Changes of the ID token; a function that signs its claims; what it says beside the user.
        self.claims, self.sign = {}, mint.token
        self.metadata, self.response = {}, {}
        self.emails = [{"email": "other@ada.example", "primary": False, "verified": True},
                       {"email": "ada@ada.example", "primary": True, "verified": True}]
        self.orgs = [{"login": "editors", "id": 1}]
        #: Called with the fields of a request for tokens (or the path of another request) and the way back; returns
        #: NotImplemented to leave it to what is below.
        self.on_token = self.on_path = lambda given, answer: NotImplemented

    def login(self, **options):
        """Return the login of mcplite at this provider."""
        places = {"domain": self.origin, **self.places}
        if self.kind == "github":
            places["api"] = self.origin
        if self.kind == "entra":
            places["graph"] = self.origin
        return upstream(self.kind, **{"client_id": CLIENT, "client_secret": SECRET, **places, **options})

    def end(self):
        """Have the user's account be closed: no token is good any more."""
        with self._lock:
            self.tokens.clear()
            self.refreshable.clear()

    def play(self, request, answer):
        path, _, query = request.path.partition("?")
        if self.on_path(path, answer) is not NotImplemented:
            return None
        authorize, token, user = self._paths
        if request.method == "GET" and path == authorize:
            return self._authorize(dict(parse_qsl(query, keep_blank_values=True)), answer)
        if request.method == "POST" and path == token:
            return self._token(request, dict(parse_qsl(request.body.decode(), keep_blank_values=True)), answer)
        if self.issuer and path == urlsplit(self.issuer).path.rstrip("/") + "/.well-known/openid-configuration":
            return answer.json(self.description())
        if path == "/keys":
            return answer.json(self._mint.jwks("rsa", "ec"))
        return self._api(request, path, answer)

    def description(self):
        authorize, token, user = (self.origin + path for path in self._paths)
        document = {
            "issuer": self.issuer, "authorization_endpoint": authorize, "token_endpoint": token, "userinfo_endpoint": user,
            "jwks_uri": self.origin + "/keys", "id_token_signing_alg_values_supported": ["RS256"],
            "scopes_supported": ["openid", "profile", "email"], "response_types_supported": ["code"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"]}
        if self.kind in ("entra", "okta", "auth0", "keycloak"):
            document["scopes_supported"].append("offline_access")
        return {**document, **self.metadata}

    # --- the login ------------------------------------------------------------------------------------------

    def _authorize(self, fields, answer):
        if fields.get("client_id") != CLIENT or fields.get("redirect_uri") not in self.redirect_uris:
            return answer.status(400, "unknown client or redirect_uri")
        scopes = fields.get("scope", "").split(" ")
        back = {"state": fields.get("state", ""), **({"iss": self.issuer} if self.kind in ("okta", "keycloak") else {})}
        if self.kind == "entra" and "resource" in fields:
            back.update(error="invalid_request", error_description="AADSTS901002: The 'resource' request parameter is not"
                        " supported.")
        elif self.kind in ("google", "cognito") and "offline_access" in scopes:
            back.update(error="invalid_scope")
        else:
            code = back["code"] = secrets.token_urlsafe(12)
            with self._lock:
                self.codes[code] = fields
        return answer.status(302, Location=f"{fields['redirect_uri']}?{urlencode({**back, **self.response})}")

    def _token(self, request, fields, answer):
        with self._lock:
            self.asked.append(fields)
        if self.on_token(fields, answer) is not NotImplemented:
            return None
        if self.kind == "entra" and "resource" in fields:
            return self._error(request, answer, "invalid_request", "AADSTS901002")
        if not self._knows(request, fields):
            return self._error(request, answer, "incorrect_client_credentials" if self.kind == "github" else "invalid_client")
        grant = fields.get("grant_type")
        if grant == "authorization_code":
            return self._redeem(request, fields, answer)
        if grant == "refresh_token":
            return self._refresh(request, fields, answer)
        return self._error(request, answer, "unsupported_grant_type")

    def _knows(self, request, fields):
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            given = tuple(map(unquote_plus, base64.b64decode(text).decode().split(":")))
        else:
            given = fields.get("client_id"), fields.get("client_secret")
        allowed = {"github": "post", "okta": "basic"}.get(self.kind)
        return given == (CLIENT, SECRET) and allowed in (None, "basic" if scheme == "Basic" else "post")

    def _redeem(self, request, fields, answer):
        with self._lock:
            asked = self.codes.pop(fields.get("code"), None)
        digest = encoded(hashlib.sha256(fields.get("code_verifier", "").encode()).digest())
        if (asked is None or asked["redirect_uri"] != fields.get("redirect_uri")
                or digest != asked.get("code_challenge", digest)):
            return self._error(request, answer, "bad_verification_code" if self.kind == "github" else "invalid_grant")
        scopes = asked.get("scope", "").split(" ")
        refreshes = {
            "github": self.expires_in is not None,
            "google": asked.get("access_type") == "offline" and asked.get("prompt") == "consent",
            **dict.fromkeys(("entra", "okta", "auth0"), "offline_access" in scopes)}.get(self.kind, True)
        return self._give(request, answer, scopes, asked.get("nonce"), refreshes and self.refreshes)

    def _refresh(self, request, fields, answer):
        with self._lock:
            known = self.refreshable.get(fields.get("refresh_token"))
            rotates = self.kind not in ("google", "cognito")
            if known is not None and known["used"]:
                self.reuses += 1
            good = known is not None and not known["used"]
            if good and rotates:
                known["used"] = True
        if not good:
            return self._error(request, answer, "bad_refresh_token" if self.kind == "github" else "invalid_grant")
        return self._give(request, answer, known["scopes"], None, rotates)

    def _give(self, request, answer, scopes, nonce, refreshes):
        token = f"up-{self.kind}-{secrets.token_urlsafe(12)}"
        document = {"access_token": token, "token_type": "bearer" if self.kind == "github" else "Bearer",
                    "scope": (",".join if self.kind == "github" else " ".join)(scopes)}
        if self.expires_in is not None:
            document["expires_in"] = self.expires_in
        with self._lock:
            self.tokens[token] = scopes
            if refreshes:
                document["refresh_token"] = again = f"upr-{secrets.token_urlsafe(12)}"
                self.refreshable[again] = {"scopes": scopes, "used": False}
        if "openid" in scopes:
            document["id_token"] = self.id_token(nonce, token)
        if self.kind == "github" and "application/json" not in request.headers.get("accept", ""):
            return answer.status(200, urlencode(document), Content_Type="application/x-www-form-urlencoded")
        return answer.json(document)

    def id_token(self, nonce, access_token):
        half = hashlib.sha256(access_token.encode()).digest()[:16]
        told = {name: value for name, value in self.user.items()
                if self.kind != "okta" or name in ("sub", "name")}  # a thin token, beside an access token
        claims = {"iss": self.issuer, "aud": CLIENT, "nonce": nonce, "client_id": None, "scope": None,
                  "iat": int(time.time()), "exp": int(time.time()) + 3600,
                  "at_hash": encoded(half), **told}
        if self.kind == "cognito":
            claims["token_use"] = "id"
        if self.kind == "keycloak":
            claims.update(typ="ID", azp=CLIENT)
        return self.sign(**{**claims, **self.claims})

    def _error(self, request, answer, code, text="no"):
        document = {"error": code, "error_description": text}
        if self.kind != "github":
            status = 401 if code == "invalid_client" else 400
            return answer.status(status, json.dumps(document), Content_Type="application/json")
        if "application/json" in request.headers.get("accept", ""):
            return answer.json(document)
        return answer.status(200, urlencode(document), Content_Type="application/x-www-form-urlencoded")

    # --- what the access token is for -------------------------------------------------------------------------

    def _api(self, request, path, answer):
        lists = {"/user/emails": self.emails, "/user/orgs": self.orgs, "/api/users/@me/guilds": [{"id": "7", "name": "guild"}],
                 "/v1.0/me/transitiveMemberOf/microsoft.graph.group": {"value": [{"id": f"g-{n}"} for n in range(250)]}}
        if path not in lists and path != self._paths[2]:
            return answer.status(404, "<html>Not Found</html>", Content_Type="text/html")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token not in self.tokens:
            return answer.status(401, json.dumps({"message": "Bad credentials"}), Content_Type="application/json")
        if self.kind == "github" and not request.headers.get("user-agent"):
            return answer.status(403, "Request forbidden by administrative rules.")
        return answer.json(lists.get(path, self.user))


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def log_in(url):
    """Return where a browser is sent by the provider whose login is at *url*, as the parameters of the callback."""
    status, headers, _ = browse(url)
    assert status == 302, status
    return dict(parse_qsl(urlsplit(headers["Location"]).query, keep_blank_values=True))


def browse(url):
    """Open a page as a browser without following redirects; return status, headers and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=LIMIT)
    try:
        connection.request("GET", parts.path + ("?" + parts.query if parts.query else ""))
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


@pytest.fixture
def provider(request, mint):
    with Provider(getattr(request, "param", "github"), mint) as provider:
        yield provider


def each(*kinds):
    return pytest.mark.parametrize("provider", kinds or sorted(PROVIDERS), indirect=True)


class Logins:
    """The grants of one issuer with some logins, and its store."""

    def __init__(self, *logins, backend=None, **options):
        self.backend = backend or open_backend("memory:")
        self.grants = UpstreamGrants(logins, self.backend, Encryption([KEY]), 86_400, **options)

    def has(self, grant):
        """Whether a grant is kept."""
        return self.backend.get(f"upstream-{grant}/record") is not None

    def log_in(self, name):
        """Return the user and the grant of a whole login."""
        transaction = {}
        url = self.grants.begin(name, transaction, CALLBACK, "state-1")
        return self.grants.finish(log_in(url), transaction, CALLBACK)
