"""What tests of a login and of its verification begin with."""

from tests.support.credentials import auth, grant, mint, path, script, user  # noqa: F401
