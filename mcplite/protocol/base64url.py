"""Base64 in the alphabet of URLs, without padding (RFC 4648, section 5).

For cursors, sealed states, and the keys and hashes of OAuth.
"""

__all__ = ["base64url_decode", "base64url_encode"]


def base64url_encode(data: bytes) -> str:
    """Return bytes as base64url without padding."""
    import base64  # for few requests

    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def base64url_decode(text: str) -> bytes:
    """Return the bytes of base64url without padding; ``+`` and ``/`` are read as well, for ``-`` and ``_``.

    :raises ValueError: it is not base64url.
    """
    import base64

    return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
