"""The certificates for servers and clients."""

from tests.support.secure import folder

__all__ = ["folder"]
