"""Certificates for servers over TLS, and the settings of a client that trusts them."""

import ssl
from types import SimpleNamespace

import pytest

from mcplite.server.transports.tls import Certificates
from tests.support.secure import folder  # noqa: F401 - a fixture


@pytest.fixture(scope="session")
def tls(folder):  # noqa: F811
    """A server's ``certificates`` and ``files``, and the context of a ``client``."""
    files = {"certfile": str(folder / "server.pem"), "keyfile": str(folder / "server.key")}
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    return SimpleNamespace(folder=folder, files=files, certificates=Certificates(**files), client=client)
