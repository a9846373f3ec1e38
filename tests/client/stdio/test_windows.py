import os

import pytest

from mcplite.client.stdio.windows import check_batch_arguments, resolve
from mcplite.errors import TransportError


@pytest.mark.parametrize("argument", ["a&calc", "a|b", "%PATH%", 'say "hi"', "x^y", "a\nb", "<in", "!x!", "(x)"])
@pytest.mark.parametrize("program", [r"C:\tools\npx.cmd", r"C:\tools\run.BAT", "npx.cmd. ", "npx.CMD"])
def test_batch_files_get_no_argument_that_cmd_would_interpret(program, argument):
    with pytest.raises(TransportError, match="argument 2") as caught:
        check_batch_arguments(program, ["-y", argument])
    assert argument not in str(caught.value)


def test_plain_arguments_pass():
    check_batch_arguments("npx.cmd", ["-y", "@scope/server", r"C:\Users\me", "--port=80", ""])
    check_batch_arguments("node.exe", ["a & b"])


def test_the_program_is_looked_for_on_the_childs_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATHEXT", ".EXE;.CMD")
    program = tmp_path / ("tool.exe" if os.name == "nt" else "tool")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found, argument = resolve(["tool", "x"], {"PATH": str(tmp_path)})
    assert (found.lower(), argument) == (str(program).lower(), "x")
    assert resolve(["tool", "x"], {"PATH": "/nowhere"}) == ["tool", "x"]


def test_a_batch_file_that_is_found_is_checked(tmp_path):
    program = tmp_path / "tool.cmd"
    program.write_text("")
    program.chmod(0o755)
    with pytest.raises(TransportError, match="'&'"):
        resolve(["tool.cmd", "a&b"], {"PATH": str(tmp_path)})
