"""Base64 in the alphabet of URLs, without padding (RFC 4648, section 5).

For cursors, sealed states, and the keys and hashes of OAuth.
"""

import base64

__all__ = ["base64url_decode", "base64url_encode"]


def base64url_encode(data: bytes) -> str:
    """Return bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def base64url_decode(text: str) -> bytes:
    """Return the bytes of base64url without padding; ``+`` and ``/`` are read as well, for ``-`` and ``_``.

    :raises ValueError: it is not base64url.
    """
    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
