"""WSGI applications as tools, seen from outside: two users with the official client over HTTP."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import HERE, ROOT
from .wsgi_tools import ADA, BOB

pytestmark = [pytest.mark.interop, pytest.mark.one_python]
NEEDS = {"plain": "json", "flask": "flask", "django": "drf_spectacular"}


@pytest.mark.parametrize("sdk", ["mcp1", "mcp2"])
@pytest.mark.parametrize("kind", list(NEEDS))
def test_an_application_sees_its_caller_as_the_program_chooses(kind, sdk, installed, serving):
    pytest.importorskip(NEEDS[kind])
    python = installed.python(sdk)
    calls = [("write_note", {"number": 7, "text": "n\u00e9"}), ("write_note", {"number": 7})]
    with serving([sys.executable, str(HERE / "wsgi_tools.py"), kind], PYTHONPATH=str(ROOT)) as server:
        for name, token in (("ada", ADA), ("bob", BOB)):
            headers = {"Authorization": f"Bearer {token}", "X-Tenant": f"tenant of {name}", "X-Other": "not chosen"}
            ran = subprocess.run([python, str(Path(__file__).with_name("official_openapi.py")), server.url, json.dumps(headers),
                                  json.dumps(calls)], stdout=subprocess.PIPE, timeout=120, cwd=ROOT)
            seen = json.loads(ran.stdout)
            assert list(seen["tools"]) == ["write_note"]
            schema = seen["tools"]["write_note"]["inputSchema"]
            assert sorted(schema["properties"]) == ["number", "text"] and sorted(schema["required"]) == ["number", "text"]
            right, wrong = seen["results"]
            assert right["structuredContent"] == {"user": name, "tenant": f"tenant of {name}", "text": "n\u00e9", "number": 7,
                                                  "host": "localhost", "other": None, "token": None}
            assert wrong["isError"] and "text" in wrong["content"][0]["text"]
