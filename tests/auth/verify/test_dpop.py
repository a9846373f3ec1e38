"""DPoP on the server (RFC 9449): bound tokens with their proofs, and what attackers send in their place.

Each attack goes over a socket, to a server that accepts the good request beside it.
"""

import base64
import hashlib
import json
import time

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from urllib3 import PoolManager
from urllib3._collections import HTTPHeaderDict  # 1.26 has no public name for it

import mcplite
from mcplite.auth import DPoP, JWTVerifier
from mcplite.auth.login.jwt_signing import Proofs, SigningKey
from mcplite.auth.verify.bearer_auth import Refused
from mcplite.backend.memory import MemoryBackend
from mcplite.server.principals import Principal
from tests.support.rawhttp import BOTH, LIMIT, initialize

URL = "https://mcp.example/mcp"
KINDS = {"ES256": ECAlgorithm, "ES384": ECAlgorithm, "RS256": RSAAlgorithm, "PS256": RSAAlgorithm, "EdDSA": OKPAlgorithm}


def encode(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Holder:
    """Holds a key, and makes proofs that are good, but for what is changed; None takes a claim or a part of the header out."""

    def __init__(self, algorithm="ES256", key=None):
        self.algorithm = algorithm
        self.key = key or {"ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
                           "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
                           "RS256": lambda: rsa.generate_private_key(65537, 2048),
                           "PS256": lambda: rsa.generate_private_key(65537, 2048),
                           "EdDSA": ed25519.Ed25519PrivateKey.generate}[algorithm]()
        self.kind = KINDS[algorithm]
        self.jwk = json.loads(self.kind.to_jwk(self.key.public_key()))
        self.jwk.pop("key_ops", None)

    @property
    def private_jwk(self):
        return json.loads(self.kind.to_jwk(self.key))

    @property
    def thumbprint(self):
        members = {name: self.jwk[name] for name in ("crv", "e", "kty", "n", "x", "y") if name in self.jwk}
        return encode(hashlib.sha256(json.dumps(members, sort_keys=True, separators=(",", ":")).encode()).digest())

    def proof(self, token, header=None, key=None, algorithm=None, **changed):
        claims = {"jti": encode(hashlib.sha256(repr(time.perf_counter_ns()).encode()).digest()), "htm": "POST", "htu": URL,
                  "iat": int(time.time()), "ath": encode(hashlib.sha256(token.encode()).digest()), **changed}
        headers = {"typ": "dpop+jwt", "jwk": self.jwk, **(header or {})}
        return jwt.PyJWS().encode(json.dumps({name: value for name, value in claims.items() if value is not None}).encode(),
                                  key or self.key, algorithm or self.algorithm,
                                  {name: value for name, value in headers.items() if value is not None})


@pytest.fixture(scope="module")
def holder():
    return Holder()


@pytest.fixture
def serve(mint):
    """``serve(**options of DPoP)``: a server, and a function that posts with headers and returns the response."""
    made = {}

    def serve(verify=None, **options):
        name = (verify, *sorted(options.items()))
        if name not in made:
            check = verify or JWTVerifier(issuer=mint.issuer, keys=mint.jwks())
            auth = mcplite.BearerAuth(check, issuer=mint.issuer, resource=URL, dpop=DPoP(**options))
            made[name] = mcplite.serve(mcplite.Server("bound", auth=auth))
        url = made[name].url

        def post(authorization, *proofs, method="POST"):
            headers = HTTPHeaderDict({"Content-Type": "application/json", "Accept": BOTH})
            if authorization:
                headers["Authorization"] = authorization
            for proof in proofs:
                headers.add("DPoP", proof)
            with PoolManager() as pool:
                return pool.request(method, url, headers=headers, body=json.dumps(initialize()).encode(), timeout=LIMIT,
                                    retries=False)

        return post

    yield serve
    for server in made.values():
        server.close(0)


def challenge(reply):
    return reply.headers["WWW-Authenticate"]


# --- what is accepted ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", KINDS)
def test_a_bound_token_with_its_proof_is_accepted(serve, mint, algorithm):
    holder = Holder(algorithm)
    token = mint.token(cnf={"jkt": holder.thumbprint})
    assert serve()(f"DPoP {token}", holder.proof(token)).status == 200
    assert serve()(f"dpop  {token}", holder.proof(token)).status == 200


@pytest.mark.parametrize("htu", ["https://MCP.example:443/mcp", URL + "?x=1", URL + "#x", "HTTPS://mcp.example/mcp"])
def test_a_url_may_be_written_in_another_way(serve, mint, holder, htu):
    token = mint.token(cnf={"jkt": holder.thumbprint})
    assert serve()(f"DPoP {token}", holder.proof(token, htu=htu)).status == 200


def test_proofs_of_our_own_client_are_accepted(serve, mint):
    proofs = Proofs(SigningKey.generate())
    holder = Holder(key=proofs.key._key)
    token = mint.token(cnf={"jkt": holder.thumbprint})
    assert serve()(f"DPoP {token}", proofs.proof("POST", URL, token)).status == 200


def test_bearer_tokens_are_accepted_unless_bound_ones_are_required(serve, mint):
    token = mint.token()
    assert serve()(f"Bearer {token}").status == 200
    reply = serve(required=True)(f"Bearer {token}")
    assert reply.status == 401 and challenge(reply).startswith("DPoP ") and 'error="invalid_token"' in challenge(reply)
    assert "Bearer" not in challenge(reply)


def test_the_challenge_names_both_schemes_and_the_algorithms(serve):
    reply = serve(algorithms=("ES256", "EdDSA"))(None)
    assert reply.status == 401
    bearer, _, bound = challenge(reply).partition(", DPoP ")
    assert bearer.startswith('Bearer resource_metadata="https://mcp.example/.well-known/oauth-protected-resource/mcp"')
    assert 'algs="ES256 EdDSA"' in bound


def test_the_metadata_tells_it(mint):
    auth = mcplite.BearerAuth(JWTVerifier(issuer=mint.issuer, keys=mint.jwks()), dpop=DPoP(required=True, algorithms="ES256"))
    with mcplite.serve(mcplite.Server("bound", auth=auth)) as server:
        told = requests.get(server.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"), timeout=LIMIT).json()
    assert told["dpop_signing_alg_values_supported"] == ["ES256"] and told["dpop_bound_access_tokens_required"] is True


# --- attacks ---------------------------------------------------------------------------------------------

OTHER = Holder()
RSA = Holder("RS256")


def with_bytes(proof, at, data):
    parts = proof.split(".")
    parts[at] = encode(data)
    return ".".join(parts)


def unsigned(holder, token, algorithm):
    head, payload, _ = holder.proof(token).split(".")
    return f"{encode(json.dumps({'typ': 'dpop+jwt', 'alg': algorithm, 'jwk': holder.jwk}).encode())}.{payload}."


def shared_secret(holder, token):
    """Signed with a secret that the header contains."""
    secret = {"kty": "oct", "k": encode(b"s" * 32)}
    return holder.proof(token, key=b"s" * 32, algorithm="HS256", header={"jwk": secret})


#: What is sent in place of a proof, by what is wrong with it: gets the holder and the token.
ATTACKS = {
    "no JWT": lambda h, t: "garbage", "an empty proof": lambda h, t: "",
    "another type": lambda h, t: h.proof(t, header={"typ": "JWT"}), "no type": lambda h, t: h.proof(t, header={"typ": None}),
    "the type of an access token": lambda h, t: h.proof(t, header={"typ": "at+jwt"}),
    "unsigned": lambda h, t: unsigned(h, t, "none"), "unsigned, in capitals": lambda h, t: unsigned(h, t, "NONE"),
    "a shared secret": shared_secret, "an algorithm that is not accepted": lambda h, t: RSA.proof(t, algorithm="RS512"),
    "no key": lambda h, t: h.proof(t, header={"jwk": None}),
    "a key that is a text": lambda h, t: h.proof(t, header={"jwk": "x"}),
    "an empty key": lambda h, t: h.proof(t, header={"jwk": {}}), "a private key": lambda h, t: h.proof(
        t, header={"jwk": h.private_jwk}), "a key of another type": lambda h, t: h.proof(t, header={"jwk": RSA.jwk}),
    "a set of keys": lambda h, t: h.proof(t, header={"jwk": {"keys": [h.jwk]}}),
    "a point that is not on the curve": lambda h, t: h.proof(t, header={"jwk": {**h.jwk, "x": encode(b"\x01" * 32)}}),
    "a key for encryption": lambda h, t: h.proof(t, header={"jwk": {**h.jwk, "use": "enc"}}),
    "the token's key named, another's signature": lambda h, t: h.proof(t, key=OTHER.key),
    "another's key": lambda h, t: OTHER.proof(t), "a short RSA key": lambda h, t: Holder(
        "RS256", rsa.generate_private_key(65537, 1024)).proof(t),
    "a critical extension": lambda h, t: h.proof(t, header={"crit": ["x"], "x": 1}),
    "a signature that is cut off": lambda h, t: h.proof(t)[:-8],
    "another payload": lambda h, t: with_bytes(h.proof(t), 1, b'{"htm": "POST"}'),
    "a payload that is a list": lambda h, t: with_bytes(h.proof(t), 1, b"[]"),
    "another method": lambda h, t: h.proof(t, htm="GET"), "a method in small letters": lambda h, t: h.proof(t, htm="post"),
    "no method": lambda h, t: h.proof(t, htm=None), "several methods": lambda h, t: h.proof(t, htm=["POST"]),
    "another path": lambda h, t: h.proof(t, htu="https://mcp.example/other"),
    "a path below": lambda h, t: h.proof(t, htu=URL + "/x"), "the host alone": lambda h, t: h.proof(t, htu="https://mcp.example"),
    "another host": lambda h, t: h.proof(t, htu="https://evil.example/mcp"),
    "the host as user": lambda h, t: h.proof(t, htu="https://mcp.example@evil.example/mcp"),
    "another port": lambda h, t: h.proof(t, htu="https://mcp.example:8443/mcp"),
    "another scheme": lambda h, t: h.proof(t, htu="http://mcp.example/mcp"), "no URL": lambda h, t: h.proof(t, htu=None),
    "a URL that is none": lambda h, t: h.proof(t, htu="://"), "a URL that is a list": lambda h, t: h.proof(t, htu=[URL]),
    "too old": lambda h, t: h.proof(t, iat=int(time.time()) - 120), "of the future": lambda h, t: h.proof(
        t, iat=int(time.time()) + 60), "no time": lambda h, t: h.proof(t, iat=None),
    "a time that is a text": lambda h, t: h.proof(t, iat=str(int(time.time()))), "a time that is true": lambda h, t: h.proof(
        t, iat=True), "an endless time": lambda h, t: h.proof(t, iat=float("inf")),
    "a time that is no number": lambda h, t: h.proof(t, iat=float("nan")),
    "no identifier": lambda h, t: h.proof(t, jti=None), "an empty identifier": lambda h, t: h.proof(t, jti=""),
    "a number as identifier": lambda h, t: h.proof(t, jti=7), "an identifier that is too long": lambda h, t: h.proof(
        t, jti="x" * 300), "for another token": lambda h, t: h.proof(t + "x"),
    "for no token": lambda h, t: h.proof(t, ath=None), "a digest that is a list": lambda h, t: h.proof(t, ath=[1]),
    "the token in place of its digest": lambda h, t: h.proof(t, ath=t),
}


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_wrong_proof_is_refused(serve, mint, holder, attack):
    token = mint.token(cnf={"jkt": holder.thumbprint})
    reply = serve()(f"DPoP {token}", ATTACKS[attack](holder, token))
    assert reply.status == 401 and challenge(reply).startswith("DPoP ")
    assert 'error="invalid_dpop_proof"' in challenge(reply) and token not in reply.data.decode()


def test_a_proof_is_used_once(serve, mint, holder):
    token = mint.token(cnf={"jkt": holder.thumbprint})
    proof = holder.proof(token)
    assert serve()(f"DPoP {token}", proof).status == 200
    reply = serve()(f"DPoP {token}", proof)
    assert reply.status == 401 and b"used before" in reply.data
    # Another spelling of the same signature and claims is the same proof.
    again = holder.proof(token, jti=jwt.decode(proof, options={"verify_signature": False})["jti"], iat=int(time.time()) + 1)
    assert serve()(f"DPoP {token}", again).status == 401


def test_processes_share_what_was_used(holder):
    backend = MemoryBackend()
    proof = holder.proof("token")
    assert DPoP().check([proof], "POST", URL, backend, token="token") == holder.thumbprint
    with pytest.raises(Refused, match="used before"):
        DPoP().check([proof], "POST", URL, backend, token="token")
    assert DPoP().check([proof], "POST", URL, MemoryBackend(), token="token") == holder.thumbprint


def test_a_proof_that_is_too_long(holder):
    with pytest.raises(Refused, match="8000 characters"):
        DPoP().check([holder.proof("t", x="y" * 8000)], "POST", URL, MemoryBackend(), token="t")


@pytest.mark.parametrize("proofs", [0, 2])
def test_there_is_one_proof(serve, mint, holder, proofs):
    token = mint.token(cnf={"jkt": holder.thumbprint})
    reply = serve()(f"DPoP {token}", *(holder.proof(token) for _ in range(proofs)))
    assert reply.status == 401 and 'error="invalid_dpop_proof"' in challenge(reply)


@pytest.mark.parametrize("cnf", [{"jkt": "x"}, {"jkt": 1}, {}, None, "x", {"x5t#S256": "x"}, {"jkt": "HERE", "x5t#S256": "x"}],
                         ids=str)
def test_a_token_that_is_bound_otherwise_is_refused(serve, mint, holder, cnf):
    if isinstance(cnf, dict) and cnf.get("jkt") == "HERE":
        cnf = {**cnf, "jkt": holder.thumbprint}
    token = mint.token(cnf=cnf)
    for scheme in ("DPoP", "Bearer") if cnf is not None else ("DPoP",):
        assert serve()(f"{scheme} {token}", holder.proof(token)).status == 401


@pytest.mark.parametrize("required", [False, True])
def test_a_bound_token_is_no_bearer_token(serve, mint, holder, required):
    token = mint.token(cnf={"jkt": holder.thumbprint})
    reply = serve(required=required)(f"Bearer {token}", holder.proof(token))
    assert reply.status == 401 and 'error="invalid_token"' in challenge(reply)


def test_a_bound_token_is_no_bearer_token_of_a_verifier_of_ones_own(serve, holder):
    def verify(token):
        return Principal("ada", audience=URL, claims={"cnf": {"jkt": holder.thumbprint}})

    post = serve(verify)
    assert post("Bearer some-token").status == 401
    assert post("DPoP some-token", holder.proof("some-token")).status == 200
    assert post("DPoP some-token", OTHER.proof("some-token")).status == 401


@pytest.mark.parametrize("authorization", ["DPoP", "DPoP ", "DPoP a b", "DPoP\ttoken", "DPoPtoken", "DPoP Bearer token"])
def test_malformed_headers(serve, authorization, holder):
    assert serve()(authorization, holder.proof("token")).status in (400, 401)


def test_an_expired_token_is_refused_before_its_proof(serve, mint, holder):
    token = mint.token(cnf={"jkt": holder.thumbprint}, exp=int(time.time()) - 3600)
    reply = serve()(f"DPoP {token}", holder.proof(token))
    assert reply.status == 401 and 'error="invalid_token"' in challenge(reply)


# --- nonces ----------------------------------------------------------------------------------------------


def test_a_proof_needs_the_nonce(serve, mint, holder):
    post, token = serve(nonces=True), mint.token(cnf={"jkt": holder.thumbprint})
    reply = post(f"DPoP {token}", holder.proof(token))
    assert reply.status == 401 and 'error="use_dpop_nonce"' in challenge(reply)
    nonce = reply.headers["DPoP-Nonce"]
    assert post(f"DPoP {token}", holder.proof(token, nonce=nonce)).status == 200
    for wrong in (nonce + "x", "", 1, [nonce], nonce.swapcase(), "\u00e9"):
        assert 'error="use_dpop_nonce"' in challenge(post(f"DPoP {token}", holder.proof(token, nonce=wrong)))


def test_nonces_change_and_are_shared(holder):
    now, backend = [1_000_000.0], MemoryBackend()
    first, second = (DPoP(nonces=True, clock=lambda: now[0]) for _ in range(2))
    old = first.nonce(backend)
    assert second.nonce(backend) == old

    def check(nonce):
        return second.check([holder.proof("t", iat=now[0], nonce=nonce)], "POST", URL, backend, token="t")

    assert check(old)
    now[0] += 120
    new = first.nonce(backend)
    assert new != old and check(old) and check(new)
    now[0] += 120
    with pytest.raises(Refused) as refused:
        check(old)
    assert refused.value.headers == [("DPoP-Nonce", second.nonce(backend))] and check(new)


# --- the options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, said", [
    ({"algorithms": ["HS256"]}, "supported are"), ({"algorithms": []}, "supported are"), ({"seconds": 1}, "5 to 300"),
    ({"seconds": 10_000}, "5 to 300"), ({"seconds": float("nan")}, "5 to 300")])
def test_options_that_are_not_valid(options, said):
    with pytest.raises(ValueError, match=said):
        DPoP(**options)


def test_a_token_endpoint_learns_the_key(holder):
    proof = holder.proof("", ath=None, htu="https://login.example/token")
    assert DPoP().check([proof], "POST", "https://login.example/token", MemoryBackend()) == holder.thumbprint


@pytest.mark.parametrize("nonces", [False, True])
def test_our_client_gets_a_bound_token_and_uses_it(mint, nonces):
    # The token endpoint binds tokens by the same check.
    dpop, backend = DPoP(required=True, nonces=nonces), MemoryBackend()
    used = []

    def token(request):
        try:
            key = dpop.check(request.headers.all("dpop"), "POST", issuer.url.replace("/mcp", "/token"), backend)
        except Refused as refused:
            return 400, "application/json", json.dumps({"error": refused.error}).encode(), refused.headers
        used.append(key)
        access = mint.token(iss=root, aud=server.url, cnf={"jkt": key})
        answer = {"access_token": access, "token_type": "DPoP", "expires_in": 300}
        return 200, "application/json", json.dumps(answer).encode()

    def metadata(request):
        return 200, "application/json", json.dumps({
            "issuer": root, "token_endpoint": root + "/token", "authorization_endpoint": root + "/authorize",
            "response_types_supported": ["code"], "grant_types_supported": ["client_credentials"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "dpop_signing_alg_values_supported": ["ES256"]}).encode()

    routes = {"/token": token, "/.well-known/oauth-authorization-server": metadata}
    with mcplite.serve(mcplite.Server("issuer"), routes=routes) as issuer:
        root = issuer.url[:-4]
        mcp = mcplite.Server("bound", auth=mcplite.BearerAuth(JWTVerifier(issuer=root, keys=mint.jwks()), dpop=dpop))

        @mcp.tool
        def who(ctx: mcplite.Context) -> str:
            return ctx.principal.claims["cnf"]["jkt"]

        with mcplite.serve(mcp) as server:
            login = mcplite.auth.ClientCredentials("desk", "secret", issuer=root, dpop=True)
            with mcplite.connect(server.url, auth=login, timeout=LIMIT) as client:
                assert client.call_tool("who", {}).data == used[0]
