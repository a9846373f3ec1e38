"""Values that go out and come back: signed, bound to a context, readable by whoever has them."""

import base64
import binascii
import hashlib
import hmac
from typing import Optional, Sequence

__all__ = ["open_sealed", "seal"]

_DIGEST = 32


def seal(content: bytes, key: bytes, context: str) -> str:
    """Return *content* with its signature, in visible ASCII.

    :param key: a secret.
    :param context: what the value is bound to; it is not part of the result.
    """
    return _text(_sign(content, key, context) + content)


def open_sealed(text: str, keys: Sequence[bytes], context: str) -> Optional[bytes]:
    """Return the content of what one of *keys* sealed in the same context; None for anything else."""
    try:
        data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if _text(data) != text:
        return None  # base64 can say the same in several ways, and a value that is used up must not have another name
    signature, content = data[:_DIGEST], data[_DIGEST:]
    if any([hmac.compare_digest(signature, _sign(content, key, context)) for key in keys]):
        return content
    return None


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _sign(content: bytes, key: bytes, context: str) -> bytes:
    bound = context.encode("utf-8")
    return hmac.new(key, b"%d:%b%b" % (len(bound), bound, content), hashlib.sha256).digest()
