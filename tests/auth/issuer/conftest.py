"""What tests of the issuer begin with."""

from tests.support.providers import provider  # noqa: F401
