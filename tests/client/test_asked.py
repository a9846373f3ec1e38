"""What handlers get, which is loaded with the first question, and found where it always was."""

import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite.client import asked, handlers

ROOT = Path(mcplite.__file__).resolve().parent.parent


@pytest.mark.parametrize("name", asked.__all__)
def test_the_names_are_found_beside_the_handlers(name):
    assert getattr(handlers, name) is getattr(asked, name)


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="module 'mcplite.client.handlers' has no attribute 'Nothing'"):
        handlers.Nothing


def test_an_argument_is_the_servers_question():
    assert issubclass(asked.AskedElicitation, mcplite.ElicitRequest)
    assert issubclass(asked.AskedSampling, mcplite.types.CreateMessageRequest)


def test_a_client_without_questions_does_not_load_their_classes():
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import mcplite.client; print(' '.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, timeout=60, check=True)
    assert not {"mcplite.client.asked", "mcplite.types.asking"} & set(ran.stdout.decode().split())
