"""A Python whose library is loaded starts programs as any Python does."""

import os
import signal
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.skipif(os.name != "posix", reason="POSIX only")]
LIMIT = 60


@pytest.fixture(params=["loaded", "plain"])
def python(request, installed):
    """Each test says what any Python does, too."""
    return installed.python("mcp1") if request.param == "loaded" else sys.executable


@pytest.mark.parametrize("words, status, out, err", [
    (["-c", "import sys; print(sys.argv, __name__, input())", "a", "b c"], 0, "['-c', 'a', 'b c'] __main__ given\n", ""),
    (["-c", "import sys; sys.exit(3)"], 3, "", ""),
    (["-c", "import sys; sys.exit('no')"], 1, "", "no\n"),
    (["-c", "import atexit; atexit.register(print, 'the end'); 1 / 0"], 1, "the end\n", "ZeroDivisionError"),
    (["-c", "import threading, time\nthreading.Thread(target=lambda: [time.sleep(0.2), print('late')]).start()"], 0, "late\n",
     ""),
    (["-m", "json.tool", "--no-indent"], 0, '"given"\n', ""),
    (["-W", "ignore", "-c", "import warnings; warnings.warn('careful')"], 0, "", ""),
    (["-c", "import warnings; warnings.warn('careful')"], 0, "", "UserWarning: careful"),
    (["-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"], -signal.SIGTERM, "", ""),
    (["-I", "-c", "import sys; print(sys.flags.isolated)"], 0, "1\n", ""),
])
def test_a_program_has_what_it_was_given_and_its_end_is_told(python, words, status, out, err):
    ran = subprocess.run([python, *words], input='"given"' if "-m" in words else "given\n", stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, timeout=LIMIT, encoding="utf-8")
    assert (ran.returncode, ran.stdout) == (status, out) and err in ran.stderr and bool(err) == bool(ran.stderr)


def test_a_script_has_its_folder_environment_and_module(python, tmp_path):
    (tmp_path / "beside.py").write_text("value = 5\n", "utf-8")
    script = tmp_path / "script.py"
    script.write_text("import os, sys, beside\nfrom dataclasses import dataclass\n@dataclass\nclass One:\n    n: int\n"
                      "print(os.getcwd(), sorted(os.environ)[:1], One(beside.value), sys.argv[1:], __file__)\n", "utf-8")
    ran = subprocess.run([python, str(script), "x"], stdout=subprocess.PIPE, timeout=LIMIT, encoding="utf-8", cwd=tmp_path,
                         env={"A_NAME": "1"})
    assert ran.stdout == f"{tmp_path} ['A_NAME'] One(n=5) ['x'] {script}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_reaches_the_program(python, number):
    code = "import time; print('begun', flush=True); time.sleep(600)"
    with subprocess.Popen([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        assert process.stdout.read() == b""  # the program, which has the pipe, has ended
        assert process.wait(LIMIT) == -number
