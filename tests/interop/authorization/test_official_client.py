"""The official SDK for Python gets tokens in its own way, and uses our protected server with them."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
SCRIPT = Path(__file__).resolve().parent.parent / "official_oauth_client.py"
SECONDS = 180
NOVEMBER, JULY = "2025-11-25", "2026-07-28"
MODES = [("auto", JULY), ("legacy", NOVEMBER)]
TOOLS = ["grow", "read", "whoami", "write"]
BOTH = "mcp:read mcp:write"


@pytest.fixture
def visit(installed):
    """Run the SDK through some steps; return its report."""

    def visit(url, mode, *steps, **env):
        ran = subprocess.run([installed.python("mcp2"), str(SCRIPT), url, mode, *steps], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=SECONDS, encoding="utf-8",
                             env={**os.environ, **env, "PYTHONWARNINGS": "ignore", "PYTHONPATH": ""})
        assert ran.returncode == 0, f"the client failed:\n{ran.stderr[-6000:]}"
        return json.loads(ran.stdout)

    return visit


def steps(report):
    return [(step["tool"], step["said"], step["tokens"], step["scope"]) for step in report["steps"]]


@pytest.mark.parametrize("mode, revision", MODES)
def test_a_user_logs_in_and_grants_more_when_a_tool_needs_it(mode, revision, authorization_server, protected, visit):
    at = authorization_server()
    server = protected(at)
    report = visit(server.url, mode, "read", "whoami", "write", "whoami", "leave", "read")
    assert report["revision"] == revision and report["tools"] == TOOLS
    assert steps(report) == [
        ("read", "read", 1, "mcp:read"), ("whoami", "ada with mcp:read", 1, "mcp:read"), ("write", "written", 2, BOTH),
        ("whoami", f"ada with {BOTH}", 2, BOTH), ("read", "read", 2, BOTH)]
    assert report["pages"] == ["login", "consent", "consent"]
    assert {event["parameters"]["resource"] for event in at.events("authorization")} == {server.url}


@pytest.mark.parametrize("mode, revision", MODES)
def test_an_expired_token_is_renewed(mode, revision, authorization_server, protected, visit):
    at = authorization_server(FIRST="2")
    server = protected(at)
    report = visit(server.url, mode, "read", "expire", "whoami")
    assert [step["said"] for step in report["steps"]] == ["read", "ada with mcp:read"]
    assert report["pages"] == ["login", "consent"]
    assert [(event["grant"], event["status"]) for event in at.events("token")] == [
        ("authorization_code", 200), ("refresh_token", 200)]


@pytest.mark.parametrize("mode, revision", MODES)
def test_client_credentials(mode, revision, authorization_server, protected, visit):
    robot = {"client_id": "robot", "client_secret": "a secret of the robot", "redirect_uris": [], "response_types": [],
             "grant_types": ["client_credentials"]}
    at = authorization_server([robot])
    server = protected(at)
    report = visit(server.url, mode, "whoami", CLIENT_ID=robot["client_id"], CLIENT_SECRET=robot["client_secret"],
                   ISSUER=at.issuer)
    assert report["revision"] == revision and report["tools"] == TOOLS
    assert steps(report) == [("whoami", "robot with mcp:read", 1, "mcp:read")]
