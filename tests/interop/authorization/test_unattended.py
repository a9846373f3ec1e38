"""Without a user: our clients with credentials of their own, and what our server makes of all kinds of tokens."""

import base64
import contextlib
import json
import queue
import threading
import time

import pytest
import requests

import mcplite

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
NOVEMBER, JULY = "2025-11-25", "2026-07-28"
REVISIONS = [NOVEMBER, JULY]
LIMIT = 60
ROBOT = {"client_id": "robot: 100%", "client_secret": "a secret of the robot: + & /?", "redirect_uris": [],
         "response_types": [], "grant_types": ["client_credentials"]}
READER = "robot: 100% with mcp:read"


def robot(at, **options):
    return mcplite.auth.ClientCredentials(ROBOT["client_id"], ROBOT["client_secret"], issuer=at.issuer, **options)


def call(url, auth, tool="whoami", **options):
    with mcplite.connect(url, auth=auth, **options) as client:
        return client.call_tool(tool).text


def post(at, path, **form):
    """Ask an endpoint of the authorization server, in the robot's name, without anything of ours."""
    form.update(client_id=ROBOT["client_id"], client_secret=ROBOT["client_secret"])
    return requests.post(at.issuer + path, data=form, timeout=LIMIT)


def token(at, **form):
    return post(at, "/token", grant_type="client_credentials", **form).json()["access_token"]


def until_it_has_ended(store, url):
    """Wait until the token in a store is good no more."""
    ends = store.load(f"token {url}")["expires_at"]
    while time.time() <= ends:
        time.sleep(0.05)


def key_pair(algorithm):
    """Return a private key as PEM, and its public half as a JWK."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from jwt.algorithms import get_default_algorithms

    key = {"ES256": lambda: ec.generate_private_key(ec.SECP256R1()), "EdDSA": ed25519.Ed25519PrivateKey.generate,
           }.get(algorithm, lambda: rsa.generate_private_key(65537, 2048))()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = get_default_algorithms()[algorithm].to_jwk(key.public_key(), as_dict=True)
    return pem, {**public, "alg": algorithm, "use": "sig", "kid": "of the robot"}


def with_key(jwk):
    known = {**ROBOT, "token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [jwk]},
             "token_endpoint_auth_signing_alg": jwk["alg"]}
    del known["client_secret"]
    return known


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_secret(revision, method, authorization_server, protected):
    at = authorization_server([{**ROBOT, "token_endpoint_auth_method": method}], METHODS=method)
    server = protected(at)
    assert call(server.url, robot(at), revision=revision) == READER
    [had] = at.events("token")
    assert (had["method"], had["resource"], had["asked"]) == (method, server.url, "mcp:read")
    assert at.events("authorization") == at.events("registration") == []


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "PS256", "EdDSA"])
def test_a_key(algorithm, authorization_server, protected):
    pem, jwk = key_pair(algorithm)
    at = authorization_server([with_key(jwk)])
    server = protected(at)
    auth = mcplite.auth.ClientCredentials(ROBOT["client_id"], issuer=at.issuer, private_key=pem, algorithm=algorithm)
    assert call(server.url, auth) == READER
    assert [(had["method"], had["status"]) for had in at.events("token")] == [("private_key_jwt", 200)]


def test_a_secret_that_is_wrong(authorization_server, protected):
    at = authorization_server([ROBOT])
    server = protected(at)
    auth = mcplite.auth.ClientCredentials(ROBOT["client_id"], "another secret altogether", issuer=at.issuer)
    with pytest.raises(mcplite.errors.AuthError, match=f"{at.issuer} gave no token: .*invalid_client") as caught:
        call(server.url, auth)
    assert caught.value.error == "invalid_client"
    assert {had["error"] for had in at.events("token")} == {"invalid_client"}  # in each way to send it


def test_a_key_that_is_wrong(authorization_server, protected):
    (pem, _), (_, jwk) = key_pair("ES256"), key_pair("ES256")
    at = authorization_server([with_key(jwk)])
    server = protected(at)
    with pytest.raises(mcplite.errors.AuthError, match="gave no token") as caught:
        call(server.url, mcplite.auth.ClientCredentials(ROBOT["client_id"], issuer=at.issuer, private_key=pem))
    assert caught.value.error == "invalid_client"


def test_a_secret_goes_only_to_its_issuer(authorization_server, protected):
    at, other = (authorization_server([ROBOT]) for _ in range(2))
    server = protected(other)
    with pytest.raises(mcplite.errors.AuthError, match=at.issuer):
        call(server.url, robot(at))
    assert at.events("token") == other.events("token") == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_no_user_can_grant_more_scopes(revision, authorization_server, protected):
    at = authorization_server([ROBOT])
    server = protected(at)
    with mcplite.connect(server.url, auth=robot(at), revision=revision) as client:
        with pytest.raises(mcplite.errors.AuthError, match="mcp:write.*no user to ask for more") as caught:
            client.call_tool("write")
        assert caught.value.error == "insufficient_scope"
        assert client.call_tool("whoami").text == READER
    assert call(server.url, robot(at, scopes=["mcp:write"]), "write", revision=revision) == "written"


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_expired_token_is_replaced(revision, authorization_server, protected):
    at = authorization_server([ROBOT], FORMAT="opaque", SECONDS="2")
    server = protected(at, asks=True)
    store = mcplite.auth.MemoryStore()
    with mcplite.connect(server.url, auth=robot(at, store=store), revision=revision) as client:
        assert client.call_tool("whoami").text == READER
        until_it_has_ended(store, server.url)
        assert client.call_tool("whoami").text == READER
    assert [had["status"] for had in at.events("token")] in ([200] * n for n in range(2, 9))


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_subscription_continues_with_the_next_token(revision, authorization_server, protected):
    at = authorization_server([ROBOT], FORMAT="opaque", SECONDS="2")
    server = protected(at, asks=True)
    store, told = mcplite.auth.MemoryStore(), queue.Queue()
    with mcplite.connect(server.url, auth=robot(at, store=store), revision=revision) as client:
        with client.listen(tools=True) as changes:
            # It ends with the subscription.
            reader = threading.Thread(target=lambda: [told.put(change) for change in changes])
            reader.start()
            for name in ("one", "two", "three"):
                until_it_has_ended(store, server.url)
                with contextlib.suppress(queue.Empty):
                    while True:
                        told.get_nowait()
                assert client.call_tool("grow", {"name": name}).text == "grown"
                assert isinstance(told.get(timeout=LIMIT), mcplite.ToolsChanged)
                assert name in {tool.name for tool in client.list_tools()}
        reader.join(LIMIT)
    assert len(at.events("token", status=200)) == 4


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revoked_token_is_replaced(revision, authorization_server, protected):
    at = authorization_server([ROBOT], FORMAT="opaque")
    server = protected(at, asks=True)
    auth = robot(at)
    with mcplite.connect(server.url, auth=auth, revision=revision) as client:
        assert client.call_tool("whoami").text == READER
        assert post(at, "/token/revocation", token=auth.token(server.url)).status_code == 200
        assert client.call_tool("whoami").text == READER
    assert [had["status"] for had in at.events("token")] == [200, 200]


def test_tokens_that_are_not_for_this_server_are_refused(authorization_server, protected):
    at, other = (authorization_server([ROBOT]) for _ in range(2))
    server = protected(at)
    good = token(at, resource=server.url, scope="mcp:read")
    assert call(server.url, good) == READER
    head, body, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    more = json.dumps({**claims, "scope": "mcp:read mcp:write"})
    changed = base64.urlsafe_b64encode(more.encode()).rstrip(b"=").decode()
    wrong = {
        "for the server beside it": token(at, resource=server.url + "2", scope="mcp:read"),
        "for the host": token(at, resource=server.url.replace("/mcp", "/"), scope="mcp:read"),
        "for no audience": token(at),
        "of another authorization server": token(other, resource=server.url, scope="mcp:read"),
        "with other claims": f"{head}.{changed}.{signature}",
        "without a signature": f"{head}.{body}.",
        "cut off": good[:-5],
    }
    for what, value in wrong.items():
        with pytest.raises(mcplite.errors.AuthError) as caught:
            call(server.url, value)
        assert 'error="invalid_token"' in caught.value.challenge, what
    too_little = token(at, resource=server.url)
    with pytest.raises(mcplite.MCPError) as caught:
        call(server.url, too_little)
    assert "403" in str(caught.value) or "insufficient_scope" in str(caught.value)


def test_inactive_tokens_are_refused(authorization_server, protected):
    at = authorization_server([ROBOT], FORMAT="opaque")
    server = protected(at, asks=True)
    good = token(at, resource=server.url, scope="mcp:read")
    assert call(server.url, good) == READER
    for value in (token(at, resource=server.url + "2", scope="mcp:read"), token(at), good[:-1] + "~", "x" * 43):
        with pytest.raises(mcplite.errors.AuthError) as caught:
            call(server.url, value)
        assert 'error="invalid_token"' in caught.value.challenge
    assert post(at, "/token/revocation", token=good).status_code == 200
    with pytest.raises(mcplite.errors.AuthError):
        call(server.url, good)


def test_a_signed_token_that_the_authorization_server_cannot_look_up_is_refused(authorization_server, protected):
    at, other = authorization_server([ROBOT], FORMAT="opaque"), authorization_server([ROBOT])
    server = protected(at, asks=True)
    with pytest.raises(mcplite.errors.AuthError) as caught:
        call(server.url, token(other, resource=server.url, scope="mcp:read"))
    assert 'error="invalid_token"' in caught.value.challenge


def test_all_tokens_are_refused_while_the_authorization_server_is_down(authorization_server, protected):
    at = authorization_server([ROBOT], FORMAT="opaque")
    server = protected(at, asks=True)
    good = token(at, resource=server.url, scope="mcp:read")
    assert call(server.url, good) == READER
    at.process.end()
    # A server that answers so may be back in a moment: the client asks it again while it has time.
    with pytest.raises(mcplite.errors.HTTPStatusError) as caught:
        call(server.url, good, open_timeout=2)
    assert caught.value.status == 503


@pytest.mark.parametrize("nonce", ["no", "yes"])
def test_tokens_that_are_bound_to_a_key(nonce, authorization_server, protected):
    at = authorization_server([ROBOT], NONCE=nonce)
    server = protected(at)
    auth = robot(at, dpop=True)
    had = auth.login(server.url)
    assert had.scheme == "DPoP"
    assert [event["type"] for event in at.events("token", status=200)] == ["DPoP"]
    # Without proof they are good for nothing, and our server takes no proofs.
    with pytest.raises(mcplite.errors.AuthError) as caught:
        call(server.url, had.access_token)
    assert 'error="invalid_token"' in caught.value.challenge
