"""A server that issues its own tokens, as a WSGI application for several workers; the port is in ISSUER_PORT."""

import os

from mcplite.auth import Issuer, User
from tests.support.issuers import TestUsers, server_with
from tests.support.marks import counted

USERS = TestUsers(*(User(f"user{number}") for number in range(20)))
issuer = Issuer(f"http://127.0.0.1:{os.environ['ISSUER_PORT']}", users=USERS, scopes="notes",
                backend=os.environ["MCPLITE_BACKEND"])
application = counted(server_with(issuer).wsgi(path="/mcp"))
