"""A client that ``mcplite stub`` writes for a server of the official SDK does what the plain calls do."""

import importlib.util
import shlex
from pathlib import Path

import pytest

from mcplite import connect
from mcplite.__main__ import main

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize("environment", ["mcp2", "mcp1"])
def test_a_written_client_calls_a_server_of_the_official_sdk(installed, environment, tmp_path):
    command = [installed.python(environment), str(HERE / "official_server.py"), "stdio"]
    path = tmp_path / "official_client.py"
    assert main(["stub", shlex.join(command), "-o", str(path), "--env", "PYTHONWARNINGS=ignore"]) == 0
    spec = importlib.util.spec_from_file_location("official_client", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with connect(command, env={"PYTHONWARNINGS": "ignore"}) as client:
        made = next(one for name, one in vars(module).items() if hasattr(one, "weather"))
        server = made(client)
        assert server.add(2) == client.call_tool("add", {"a": 2}).data == 3 and server.add(2, b=5) == 7
        plain = client.call_tool("weather", {"city": "Rome", "unit": "kelvin"})
        assert server.weather("Rome", unit="kelvin") == plain.structured_content
        assert server.read_settings() == client.read_resource("config://settings")
