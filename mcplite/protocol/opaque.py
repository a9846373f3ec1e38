"""Texts that a client gives back as it got them: cursors of pages, and the ``requestState`` of an unfinished call.

A cursor names the last entry of its page, so that entries which are added or removed between two requests do not
shift the others (PAGE-08).

A state holds the replay log of the answers so far. The client can read it; the seal, a keyed signature bound to a context,
tells a server that it wrote the text itself (MRTR-12, MRTR-13). The seal also serves for session ids.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar

from ..errors import InvalidParams


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


_DIGEST = 32


def seal(content: bytes, key: bytes, context: str) -> str:
    """Return *content* with its signature, in visible ASCII.

    :param key: the secret key.
    :param context: the context that the value is bound to; it is not part of the result.
    """
    return base64url_encode(seal_bytes(content, key, context))


def seal_bytes(content: bytes, key: bytes, context: str) -> bytes:
    """Return *content* with its signature; see :func:`seal`."""
    return _sign(content, key, context) + content


def open_sealed(text: str, keys: Sequence[bytes], context: str) -> Optional[bytes]:
    """Return the content that was sealed with one of *keys* in the same context; None for any other text."""
    try:
        data = base64url_decode(text)
    except ValueError:
        return None
    if base64url_encode(data) != text:
        return None  # base64 can spell a value in several ways: a value that may be used once must have only one
    return open_bytes(data, keys, context)


def open_bytes(data: bytes, keys: Sequence[bytes], context: str) -> Optional[bytes]:
    """Return the content that was sealed with one of *keys* in the same context; None for any other bytes."""
    signature, content = data[:_DIGEST], data[_DIGEST:]
    import hmac  # it loads OpenSSL, which few servers need

    if any([hmac.compare_digest(signature, _sign(content, key, context)) for key in keys]):
        return content
    return None


def _sign(content: bytes, key: bytes, context: str) -> bytes:
    import hashlib
    import hmac

    bound = context.encode("utf-8")
    return hmac.new(key, b"%d:%b%b" % (len(bound), bound, content), hashlib.sha256).digest()


#: The params of a retry that the original request does not have (MRTR-27).
_RETRY_PARAMS = frozenset({"_meta", "inputResponses", "requestState"})


def digest(value: Any) -> str:
    """Return a short digest of a JSON value; equal values have equal digests."""
    import hashlib  # it loads OpenSSL

    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def bound_to(server: str, principal: Optional[str], method: str, params: Mapping[str, Any]) -> str:
    """Return the context that a state is bound to: server, principal, method and params (MRTR-14, MRTR-16)."""
    return digest([server, principal, method, request_params(params)])


def request_params(params: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the params that a request and its retries have in common."""
    return {name: value for name, value in params.items() if name not in _RETRY_PARAMS}


class ReplayLog:
    """The record of one call whose handler starts again with each answer.

    ``rounds`` has one entry for each round of questions: a digest of the questions, and the raw answers by key. The
    last entry may lack answers. ``once_results`` has the results of actions that run once; ``entered`` counts how often the
    handler was entered.
    """

    def __init__(self) -> None:
        self.rounds: List[Tuple[str, Dict[str, Any]]] = []
        self.once_results: Dict[str, Any] = {}
        self.entered = 0
        #: The handle under which the log was stored when the client's latest answers came; it is not part of the record.
        self.answered = ""
        #: The handle that ``answered`` had when a step was noted last, and by key the states of the steps that followed these
        #: answers; not part of the record either.
        self.noted: Tuple[str, Dict[str, str]] = ("", {})

    def dump(self, expires: float) -> bytes:
        """Return the log as bytes.

        :param expires: the end of its validity, in seconds of the wall clock.
        :raises TypeError, ValueError: a result of ``once`` is not JSON.
        """
        content = {"e": int(expires), "r": self.rounds, "o": self.once_results, "n": self.entered}
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")

    @classmethod
    def load(cls, data: bytes, now: float) -> "Optional[ReplayLog]":
        """Return the log in *data*, whose seal was checked; None if it has expired."""
        content = json.loads(data)
        if content["e"] < now:
            return None
        log = cls()
        log.rounds = [(asked, answers) for asked, answers, *_ in content["r"]]
        log.once_results, log.entered = content["o"], content["n"]
        return log


T = TypeVar("T")
_MAX_CURSOR = 8192
_MAX_NAME = 256


def page(items: Sequence[T], cursor: Optional[str], size: int, list_name: str, *,
         key: Callable[[T], str]) -> Tuple[List[T], Optional[str]]:
    """Return one page of *items* and the cursor of the next page; None for the last page.

    :param cursor: the cursor of an earlier call; None for the first page.
    :param size: entries of a page.
    :param list_name: the name of the list, which is part of the cursor, so that cursors of other lists are refused.
    :param key: returns an entry's unique name.
    :raises InvalidParams: the cursor is not one of this list (PAGE-09, PAGE-10).
    """
    start = 0
    if cursor is not None:
        position, last = _decode(cursor, list_name)
        names = [_mark(key(item)) for item in items]
        if last in names:
            start = names.index(last) + 1
        else:
            # The entry was removed; the entries behind it have moved up by at least one.
            start = min(position, len(items))
    chosen = list(items[start:start + size])
    if start + size >= len(items):
        return chosen, None
    text = json.dumps([list_name, start + size - 1, _mark(key(chosen[-1]))], separators=(",", ":"))
    return chosen, base64url_encode(text.encode("utf-8"))


def _mark(name: str) -> str:
    """Return the mark of an entry in a cursor: its name, or a hash of a long name."""
    if len(name) <= _MAX_NAME:
        return name
    import hashlib  # loads OpenSSL, and such names are rare

    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _decode(cursor: str, list_name: str) -> Tuple[int, str]:
    try:
        if not isinstance(cursor, str) or len(cursor) > _MAX_CURSOR:
            raise ValueError("not a text, or too long")
        named, position, last = json.loads(base64url_decode(cursor))
        if named != list_name or type(position) is not int or position < 0 or type(last) is not str:
            raise ValueError("of another list")
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidParams(f"Invalid cursor: {str(cursor)[:100]!r}") from error
    return position, last
