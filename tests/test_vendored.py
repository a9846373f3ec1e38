"""The package works when its folder is copied into another project, under whatever name."""

import shutil
import subprocess
import sys
from pathlib import Path

import mcplite

PACKAGE = Path(mcplite.__file__).resolve().parent

SERVER = """
from ours.vendored import Server

mcp = Server("vendored")

@mcp.tool()
def add(a: int, b: int) -> int:
    return a + b

mcp.run()
"""

CLIENT = """
import sys

for name in ("mcplite", "requests", "jsonschema"):
    try:
        __import__(name)
    except ImportError:
        pass
    else:
        raise SystemExit(f"{name} can be imported, so this would prove nothing")

from ours import vendored

with vendored.connect([sys.executable, "-S", "server.py"], env={"PYTHONPATH": "."}, timeout=30) as client:
    assert client.server_info.name == "vendored"
    print(client.call_tool("add", {"a": 2, "b": 3}).text)
    try:
        client.call_tool("nothing", {}).raise_for_error()
    except vendored.MCPError as error:
        print(type(error).__module__)

print(sorted(name for name in sys.modules if "mcplite" in name))
print(vendored.errors.MCPError.__module__)
"""


def test_a_copy_under_another_name_serves_and_calls_over_stdio(tmp_path):
    home = tmp_path / "ours"
    home.mkdir()
    (home / "__init__.py").write_text("")
    shutil.copytree(PACKAGE, home / "vendored", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    # -S leaves site-packages out: neither mcplite nor its dependencies can be found, only the copy.
    ran = subprocess.run([sys.executable, "-S", "client.py"], cwd=str(tmp_path), env={"PYTHONPATH": "."},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    output = ran.stdout.decode().splitlines()
    assert ran.returncode == 0, ran.stderr.decode()
    assert output[0] == "5"
    assert output[1] == "ours.vendored.errors"
    assert output[2] == "[]"
    assert output[3] == "ours.vendored.errors"
