"""RecordingSession: a ``requests`` session that tells the heads of each HTTP request and response, with secrets masked.

The client of a server behind a URL sends through it, as through any session of a user's (``connect(session=...)``).
"""

import re
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Callable, Dict, Mapping

import requests

from ..rpc.tracing import get_logger

__all__ = ["RecordingSession", "masked_headers", "masked_url"]

_log = get_logger(__name__)
#: Parts of the names of secrets, in upper or lower case: names of header fields, and names of URL parameters.
_SECRET_HEADER = re.compile(r"authorization|cookie|token|secret|password|api-?key|credential|dpop", re.IGNORECASE)
_SECRET_PARAMETER = re.compile(r"token|secret|password|key|code|sig|auth|credential|assertion", re.IGNORECASE)
#: Header fields, in lower case, whose names look like those of secrets, but whose values are none.
_HARMLESS = frozenset({"proxy-authentication-info", "mcp-param-token-type"})


def masked_headers(headers: Mapping[str, str]) -> Dict[str, str]:
    """Return header fields with the values of secrets replaced; the scheme of credentials stays."""
    return {name: _masked(name, value) for name, value in headers.items()}


def _masked(name: str, value: str) -> str:
    if not _SECRET_HEADER.search(name) or name.lower() in _HARMLESS:
        return value
    scheme, blank, _ = value.partition(" ")
    return f"{scheme} ***" if blank and name.lower().endswith("authorization") else "***"


def masked_url(url: str) -> str:
    """Return a URL with its password and the secrets of its query replaced."""
    base, *parameters = re.split("([?&;#])", re.sub(r"(://)[^/@?#]*@", r"\1***@", url))
    for at, text in enumerate(parameters):
        name, equals, _ = text.partition("=")
        if equals and _SECRET_PARAMETER.search(name):
            parameters[at] = f"{name}=***"
    return base + "".join(parameters)


class RecordingSession(requests.Session):
    """A session that passes the heads of each request and response to a function.

    :param record: gets the body of the request, and both heads as the page shows them; on the thread that sends.
    """

    def __init__(self, record: Callable[[Any, Dict[str, Any]], object]) -> None:
        super().__init__()
        self._record = record
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # no cookies, as in a session of the client's own

    def send(self, request: Any, **options: Any) -> Any:
        response = super().send(request, **options)
        try:
            sent = {"method": request.method, "url": masked_url(request.url), "headers": masked_headers(request.headers)}
            came = {"status": response.status_code, "headers": masked_headers(response.headers)}
            self._record(request.body, {"request": sent, "response": came})
        except Exception:  # a failure here must not fail the request
            _log.exception("the heads of a request were not recorded")
        return response
