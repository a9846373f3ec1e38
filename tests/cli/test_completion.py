"""``completion``: what Tab offers, in real shells, and that it is silent when anything fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcplite.__main__ import main

ROOT = Path(__file__).resolve().parent.parent.parent
HELLO, NOTES = str(ROOT / "examples" / "hello.py"), str(ROOT / "examples" / "notes.py")

#: By shell: prints what is offered for the line in $LINE, a word a line.
SHELLS = {
    "bash": 'eval "$(mcplite completion bash)"; COMP_LINE=$LINE; COMP_POINT=${#LINE}; _mcplite_complete;'
            ' printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": 'compdef() { : }; compadd() { shift 2; print -l -- "$@" }; _files() { print files };'
           ' eval "$(mcplite completion zsh)"; LBUFFER=$LINE; _mcplite_complete',
    "fish": 'mcplite completion fish | source; complete -C "$LINE"',
}


def offered(line, capsys, shell="zsh"):
    assert main(["__complete", shell, line]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


@pytest.mark.parametrize("line, wanted", [
    ("mcplite ca", ["call"]), (f"mcplite call {HELLO} ", ["top_words"]), (f"mcplite call {HELLO} top_words co", ["count="]),
    ("mcplite --rev", []), (f"mcplite call {HELLO} --time", ["--timeout="]), (f"mcplite {HELLO} to", ["top_words"]),
    (f"mcplite call --timeout 5 {HELLO} to", ["top_words"]), (f"mcplite call '{sys.executable} {HELLO}' t", ["top_words"]),
    ("mcplite completion ", ["bash", "zsh", "fish"]), ("mcplite task w", ["wait"]),
    ("mcplite install claude-d", ["claude-desktop"]),
    ("mcplite call nothing.py ", []), ("mcplite call http://127.0.0.1:9/mcp ", []), ("mcplite call 'open", []), ("", []),
    ("mcplite call x.py --no-such-option ", []), (f"mcplite watch {NOTES} note:", ["note://all"]),
    ("mcplite users ch", ["change"])])
def test_what_can_stand_at_the_end_of_a_line(line, wanted, capsys):
    found = offered(line, capsys)
    assert found == wanted if line else True


def test_bash_gets_what_stands_behind_a_colon(capsys):
    assert offered(f"mcplite read {NOTES} note:", capsys, "bash") == ["//all"]
    assert offered(f"mcplite read {NOTES} note:", capsys) == ["note://all"]


@pytest.mark.parametrize("typed, in_bash, in_zsh", [
    ("x=", [r"a\&b", r"it\'s"], [r"x=a\&b", r"x=it\'s"]), ("'x=", ["x=a&b", r"x=it'\''s"], ["x=a&b", r"x=it'\''s"]),
    ("x='a&", ["a&b"], ["x=a&b"]), ('x="it', ["it's"], ["x=it's"]), (r"x=a\&", [r"a\&b"], [r"x=a\&b"])])
def test_a_value_with_characters_of_the_shell_is_completed_behind_what_is_typed(typed, in_bash, in_zsh, tmp_path, capsys):
    path = tmp_path / "values.py"
    path.write_text("from typing import Literal\nimport mcplite\nmcp = mcplite.Server('values')\n@mcp.prompt()\n"
                    "def show(x: Literal['a&b', \"it's\"]) -> str:\n    return x\n")
    for shell, wanted in (("bash", in_bash), ("zsh", in_zsh)):
        assert offered(f"mcplite prompt {path} show {typed}", capsys, shell) == wanted


@pytest.mark.one_python
@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_real_shell_completes(shell, tmp_path):
    if shutil.which(shell) is None or os.name != "posix":
        pytest.skip(f"there is no {shell} here")
    program = tmp_path / "mcplite"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcplite "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
                   "HOME": str(tmp_path)}

    def complete(line):
        ran = subprocess.run([shell, "-c", SHELLS[shell]], env={**environment, "LINE": line}, capture_output=True, timeout=120,
                             cwd=str(tmp_path))
        assert ran.stderr == b""
        return ran.stdout.decode().split()

    assert complete("mcplite compl") == ["complete", "completion"]
    assert complete(f"mcplite call {HELLO} to") == ["top_words"]
    assert complete(f"mcplite call {HELLO} top_words p") == ["path="]
