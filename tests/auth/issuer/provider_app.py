"""A server whose users log in at a stand-in, for workers of gunicorn; ISSUER, DOMAIN and MCPLITE_BACKEND say where all is."""

import os

import mcplite
from tests.support.marks import counted
from tests.support.provider_logins import ask_provider, whoami
from tests.support.providers import CLIENT, SECRET

okta = mcplite.auth.upstream("okta", domain=os.environ["DOMAIN"], client_id=CLIENT, client_secret=SECRET)
server = mcplite.Server("notes", auth=mcplite.auth.Issuer(os.environ["ISSUER"], upstream=okta, access_seconds=5), fleet=True)
server.tool()(whoami)
server.tool()(ask_provider)
application = counted(server.wsgi(path="/mcp"))
