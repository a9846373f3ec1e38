"""Many threads of two processes find the same token expired: it is renewed once."""

import json
import time

import pytest
import requests

import mcplite

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
LIMIT = 60
THREADS = 16
READER = "ada with mcp:read"


@pytest.mark.parametrize("why", ["expired", "withdrawn"])
def test_two_processes_with_sixteen_threads_each_refresh_once(why, authorization_server, protected, visiting,
                                                                      user, tmp_path):
    at = authorization_server(FORMAT="opaque", FIRST="1" if why == "expired" else "3600")
    server = protected(at, asks=True)
    path = tmp_path / "tokens.json"
    tmp_path.chmod(0o700)
    had = mcplite.OAuth(ask=mcplite.auth.Browser(open=user.open), store=mcplite.auth.FileStore(str(path))).login(server.url)
    assert len(user.pages()) == 1
    visitors = [visiting(server, path, THREADS) for _ in range(2)]
    if why == "expired":
        while time.time() <= had.expires_at:
            time.sleep(0.05)
    else:
        assert requests.post(at.issuer + "/withdraw", data=had.access_token, timeout=LIMIT).status_code == 204
    for visitor in visitors:
        visitor.tell("go")
    for visitor in visitors:
        assert json.loads(visitor.line(1)) == [READER] * THREADS
        assert visitor.leave() == 0
    assert [(event["grant"], event["status"]) for event in at.events("token")] == [
        ("authorization_code", 200), ("refresh_token", 200)]
    assert len(at.events("authorization")) == 1
