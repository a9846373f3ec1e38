"""What holds for every backend."""

import threading

import pytest

from mcplite.backend.from_url import SealedBackend
from mcplite.backend.memory import MemoryBackend
from mcplite.errors import BackendError
from mcplite.testing import check_backend

from .conftest import KINDS

every_kind = pytest.mark.parametrize("store_url", KINDS, indirect=True, scope="session")
shared_kinds = pytest.mark.parametrize("store_url", KINDS[1:], indirect=True, scope="session")


@every_kind
def test_it_keeps_its_promises(backends):
    check_backend(backends)


@shared_kinds
def test_it_keeps_its_promises_when_sealed(backends):
    check_backend(lambda: SealedBackend(backends(), [b"new key of 16 by", b"old key of 16 by"]))


@every_kind
def test_close_ends_a_wait(backends, group):
    backend = backends()
    found = []
    waiting = threading.Thread(target=lambda: found.append(backend.wait({f"{group}/log": 0}, 60)))
    waiting.start()
    while not (backend._watch.logs if hasattr(backend, "_watch") else backend._waiting):
        waiting.join(0.01)
    backend.close()
    waiting.join(30)
    assert found == [set()]
    backend.close()


@shared_kinds
@pytest.mark.slow
def test_a_closed_backend_says_so(backends, group):
    backend = backends()
    backend.put(f"{group}/a", b"1", 60)
    backend.close()
    with pytest.raises(BackendError, match="closed"):
        backend.get(f"{group}/a")


class Forgetful(MemoryBackend):
    def take(self, key):
        return self.get(key)


class Uncounted(MemoryBackend):
    def append(self, log, value, seconds, keep):
        return super().append(log, value, seconds, keep) + 1


class Deaf(MemoryBackend):
    def wait(self, logs, timeout):
        return set()


@pytest.mark.parametrize("wrong, text", [(Forgetful, "take"), (Uncounted, "append"), (Deaf, "wait")])
def test_a_broken_promise_is_found(wrong, text):
    with pytest.raises(AssertionError, match=text):
        check_backend(wrong)
