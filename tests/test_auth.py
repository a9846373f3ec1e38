"""The names of authorization behind the front door."""

import subprocess
import sys

import mcplite


def test_a_name_is_loaded_with_its_first_use():
    code = ("import sys, mcplite; mcplite.auth.MemoryStore(); "
            "print([name for name in sys.modules if name.endswith(('.keyring', '.browser', '.jwt', '.unattended'))])")
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60, check=True)
    assert ran.stdout.decode().strip() == "[]"


def test_the_names_are_the_list():
    assert dir(mcplite.auth) == mcplite.auth.__all__ == sorted(set(mcplite.auth.__all__))
    assert isinstance(mcplite.auth.MemoryStore(), mcplite.auth.Store)
