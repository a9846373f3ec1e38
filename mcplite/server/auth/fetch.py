"""Asking an authorization server for something: bounded in time and size, over https, and never sent elsewhere."""

import json
import queue
import threading
import time
from typing import Any, Mapping, Optional, Tuple, Union

from ...protocol.http.wellknown import check_url

__all__ = ["FetchError", "deadline", "fetch_json", "shown"]

#: Seconds for all of it, and for one read.
_SECONDS = 10.0
_READ_SECONDS = 5.0
#: Bytes of a response (AUTH-07, AUTH-38).
_MOST = 1 << 20
_PIECE = 8192
Outcome = Union[Tuple[int, Any], Exception]


class FetchError(OSError):
    """An authorization server could not be asked; the text says which and why."""


def deadline() -> float:
    """Return when something that begins now has to be over, by the monotonic clock."""
    return time.monotonic() + _SECONDS


def fetch_json(url: str, what: str, form: Optional[Mapping[str, str]] = None, basic: Optional[Tuple[str, str]] = None,
               until: Optional[float] = None) -> Tuple[int, Any]:
    """Return the status of a response, and its body decoded; None in place of the body of an error.

    :param what: is asked, for errors.
    :param form: is posted; without one it is a GET.
    :param basic: name and password; without them none are sent, whatever the machine's ``.netrc`` says.
    :param until: the :func:`deadline` of something that asks several times.
    :raises FetchError: there is no usable response.
    """
    try:
        check_url(url, what)
    except ValueError as error:
        raise FetchError(str(error)) from error
    # A thread of its own: no timeout of a socket bounds a response that comes byte by byte. It is started here, blocks
    # on the network, and ends with the response, or with its next read when nobody waits for it any more.
    done: "queue.SimpleQueue[Outcome]" = queue.SimpleQueue()
    end = deadline() if until is None else until
    try:
        threading.Thread(target=lambda: done.put(_fetch(url, what, form, basic, end)), name="mcplite fetch", daemon=True).start()
        outcome = done.get(timeout=max(0.0, end - time.monotonic()))
    except queue.Empty:
        raise FetchError(f"{what} at {shown(url)} did not answer within {_SECONDS:g} s") from None
    except RuntimeError as error:
        raise FetchError(f"{what} cannot be asked: {error}") from error  # the system gives no more threads
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def shown(url: str) -> str:
    """Return a URL as it may be shown: a query may hold a secret."""
    return url.partition("?")[0]


def _fetch(url: str, what: str, form: Optional[Mapping[str, str]], basic: Optional[Tuple[str, str]], until: float) -> Outcome:
    try:
        return _ask(url, what, form, basic, until)
    except FetchError as error:
        return error
    except Exception as error:
        # Its text may quote what was sent; its class says what went wrong.
        return FetchError(f"{what} at {shown(url)} could not be asked: {type(error).__name__}")


def _ask(url: str, what: str, form: Optional[Mapping[str, str]], basic: Optional[Tuple[str, str]],
         until: float) -> Tuple[int, Any]:
    import requests

    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    credentials: Any = basic or (lambda request: request)
    with requests.Session() as session:
        with session.request("GET" if form is None else "POST", url, data=form, headers=headers, auth=credentials, stream=True,
                             allow_redirects=False, timeout=_READ_SECONDS) as response:
            if 300 <= response.status_code < 400:
                raise FetchError(f"{what} at {shown(url)} redirects, which is not followed; give the URL where it really is")
            if response.status_code != 200:
                return response.status_code, None
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise FetchError(f"{what} at {shown(url)} sent a compressed response, which is not read")
            content = b""
            for piece in response.iter_content(_PIECE):
                content += piece
                if len(content) > _MOST:
                    raise FetchError(f"{what} at {shown(url)} sent more than {_MOST} bytes")
                if time.monotonic() > until:
                    raise FetchError(f"{what} at {shown(url)} did not answer within {_SECONDS:g} s")
    try:
        return 200, json.loads(content)
    except (ValueError, RecursionError):
        raise FetchError(f"{what} at {shown(url)} sent something that is no JSON") from None
