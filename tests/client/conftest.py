"""What tests of a client that logs in begin with."""

from tests.support.credentials import auth, grant, path, script, user  # noqa: F401
