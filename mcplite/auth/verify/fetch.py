"""HTTPS requests to authorization servers, bounded in time and size; redirects are not followed.

This is a module of its own because its rules are stricter than those of :mod:`mcplite.net`, which sends the requests: no
redirects at all, one time limit that also covers looking up the name, and errors that quote nothing of the exchange.
"""

import contextlib
import json
import threading
import time
from typing import Any, List, Mapping, Optional, Tuple, Union
from urllib.parse import parse_qsl, urlencode

from ...protocol.error_text import shown
from ...protocol.http.oauth import check_url
from ...rpc.deadline import WakeSignal

__all__ = ["FetchError", "deadline", "fetch_json"]

#: Seconds for the whole exchange.
_SECONDS = 10.0
#: Bytes of a response (AUTH-07, AUTH-38).
_MAX_BYTES = 1 << 20
#: The most fields of an answer that is a form.
_MOST_FIELDS = 100
Outcome = Union[Tuple[int, Any], Exception]


class FetchError(OSError):
    """A request to an authorization server failed; the text says which and why."""


def deadline() -> float:
    """Return the deadline of an exchange that begins now, by the monotonic clock."""
    return time.monotonic() + _SECONDS


def fetch_json(url: str, what: str, form: Optional[Mapping[str, str]] = None, auth: Union[None, str, Tuple[str, str]] = None,
               until: Optional[float] = None, answers: bool = False) -> Tuple[int, Any]:
    """Return the status of a response and its decoded body; the body is None unless the status is 200.

    :param what: names the thing at *url* in errors.
    :param form: is sent with POST; without it the request is a GET.
    :param auth: a bearer token, or user name and password. Without them none are sent, even if ``.netrc`` has some.
    :param until: the :func:`deadline` of several requests together.
    :param answers: whether this is a token endpoint: the body of an error is decoded as well, if it can be, and an answer may
        be a form, as before RFC 6749.
    :raises FetchError: there is no usable response.
    """
    try:
        check_url(url, what)
    except ValueError as error:
        raise FetchError(str(error)) from error
    # The request has a thread of its own: a socket's timeout bounds neither the lookup of the name nor a response that comes
    # byte by byte. The thread blocks on the network, and ends with the response, or with the next read after the deadline.
    outcomes: List[Outcome] = []
    # No SimpleQueue: up to Python 3.10 its get() may wait for ever if time is short.
    done, end = WakeSignal(), deadline() if until is None else until

    def run() -> None:
        outcomes.append(_fetch(url, what, form, auth, end, answers))
        done.set()

    try:
        threading.Thread(target=run, name="mcplite fetch", daemon=True).start()
    except RuntimeError as error:
        raise FetchError(f"{what} cannot be fetched: {error}") from error  # no more threads can be started
    if not done.wait(max(0.0, end - time.monotonic())):
        raise _late(url, what)
    outcome = outcomes[0]
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _late(url: str, what: str) -> FetchError:
    return FetchError(f"{what} at {shown(url)} did not answer within {_SECONDS:g} s")


def _fetch(url: str, what: str, form: Optional[Mapping[str, str]], auth: Union[None, str, Tuple[str, str]], until: float,
           answers: bool) -> Outcome:
    from ...net.exchange import Stopped

    try:
        return _exchange(url, what, form, auth, until, answers)
    except FetchError as error:
        return error
    except Stopped:
        return _late(url, what)
    except Exception as error:
        # The text of the error can quote what was sent, so only the class of its cause is shown.
        return FetchError(f"{what} at {shown(url)} could not be fetched: {type(error.__cause__ or error).__name__}")


def _exchange(url: str, what: str, form: Optional[Mapping[str, str]], auth: Union[None, str, Tuple[str, str]],
              until: float, answers: bool) -> Tuple[int, Any]:
    from ...net.exchange import Exchange, Stopped
    from ...net.origin_client import OriginClient
    from ...net.settings import HTTPSettings

    def remaining() -> float:
        return until - time.monotonic()

    def next_timeout() -> float:
        left = remaining()
        if left <= 0:
            raise Stopped
        return left

    headers, body = {"Accept": "application/json"}, None
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(form).encode("ascii")
    client = OriginClient(url, HTTPSettings(auth=auth))
    try:
        reply = client.send_once(Exchange(next_timeout, remaining), "GET" if form is None else "POST", None, headers, body)
        with contextlib.closing(reply):
            if 300 <= reply.status < 400:
                raise FetchError(f"{what} at {shown(url)} redirects, which is not followed; give the URL that it redirects to")
            if reply.status != 200 and not answers:
                return reply.status, None
            if reply.headers.get("content-encoding", "identity").lower() != "identity":
                raise FetchError(f"{what} at {shown(url)} sent a compressed response, which is not accepted")
            content, piece = b"", reply.read1()
            while piece:
                content += piece
                if len(content) > _MAX_BYTES:
                    raise FetchError(f"{what} at {shown(url)} sent more than {_MAX_BYTES} bytes")
                piece = reply.read1()
            status, kind = reply.status, reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    finally:
        client.close()
    try:
        if answers and kind == "application/x-www-form-urlencoded":
            return status, dict(parse_qsl(content.decode("utf-8"), max_num_fields=_MOST_FIELDS))
        return status, json.loads(content)
    except (ValueError, RecursionError):
        if status != 200:
            return status, None
        raise FetchError(f"{what} at {shown(url)} sent a response that is not JSON") from None
