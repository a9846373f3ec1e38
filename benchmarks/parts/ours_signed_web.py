"""mcplite's server over HTTP with tokens that are signed by RS256; prints its URL and a token."""

import json
import sys
import threading
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from ours_server import add, mcplite

ISSUER, RESOURCE = "https://login.example", "https://mcp.example/mcp"


def main(mode):
    key = rsa.generate_private_key(65537, 2048)
    keys = {"keys": [{**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": "one"}]}
    token = jwt.encode({"iss": ISSUER, "aud": RESOURCE, "sub": "ada", "exp": int(time.time()) + 86_400, "scope": "read write"},
                       key, "RS256", {"kid": "one"})
    mcp = mcplite.Server("ours", auth=mcplite.BearerAuth(mcplite.auth.JWTVerifier(issuer=ISSUER, keys=keys), resource=RESOURCE))
    mcp.add_tool(add)
    with mcplite.serve(mcp) as server:
        print(server.url, token, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
