"""What handlers get, which is loaded with the first question."""

import subprocess
import sys
from pathlib import Path

import mcplite
from mcplite.client import handler_types

ROOT = Path(mcplite.__file__).resolve().parent.parent


def test_an_argument_is_the_servers_question():
    assert issubclass(handler_types.AskedElicitation, mcplite.types.ElicitRequest)
    assert issubclass(handler_types.AskedSampling, mcplite.types.CreateMessageRequest)


def test_a_client_without_questions_does_not_load_their_classes():
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import mcplite.client; print(' '.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, timeout=60, check=True)
    assert not {"mcplite.client.handler_types", "mcplite.types.client_requests"} & set(ran.stdout.decode().split())
