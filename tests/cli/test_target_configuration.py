"""A configuration file as the target: what it asks its user for."""

import json
import sys
from pathlib import Path

import pytest

import mcplite

SERVER = """
import os
import mcplite

mcp = mcplite.Server("colors")

@mcp.tool()
def color() -> str:
    return os.environ["COLOR"]
"""


@pytest.fixture
def asking(tmp_path):
    (tmp_path / "colors.py").write_text(SERVER)
    document = {"inputs": [{"id": "color", "description": "Secret color", "password": True},
                           {"id": "way", "type": "pickString", "description": "Way", "options": ["x", "-B"]}],
                "servers": {"colors": {"command": sys.executable,
                                       "args": ["${input:way}", "-m", "mcplite.server", str(tmp_path / "colors.py")],
                                       "env": {"PYTHONPATH": str(Path(mcplite.__file__).resolve().parent.parent),
                                               "COLOR": "${input:color}"}},
                            "other": {"command": "${input:unused}"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    return f"{tmp_path / 'mcp.json'}:colors"


def test_inputs_are_asked_for_and_a_secret_one_is_not_shown(asking, terminal):
    terminal.run("call", asking, "color")
    terminal.answer("1. x\\n +2. -B\\nWay: $", "3")
    terminal.answer("choose one of these\\n(.*\\n)*Way: $", "2")
    terminal.answer("Secret color: $", "ultraviolet")
    assert terminal.status() == 0
    assert terminal.screen.count("ultraviolet") == 1 and terminal.screen.endswith("ultraviolet\n")


def test_2_a_user_who_cancels(asking, terminal):
    terminal.run("call", asking, "color")
    terminal.answer("Way: $", "!cancel")
    assert terminal.status() == 2
    assert "no value for ${input:way} was given" in terminal.screen


def test_2_without_a_terminal(asking, cli):
    status, out, err = cli("call", asking, "color")
    assert (status, out) == (2, "") and "would ask the user" in err
