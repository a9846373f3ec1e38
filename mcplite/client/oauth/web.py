"""Requests to authorization servers: bounded in size and time, and never where they must not go.
Metadata comes from whoever the MCP server names, so nothing of it is believed before it is looked at: only https (or
this machine), no private networks, a megabyte, half a minute (AUTH-35 to AUTH-38).
"""

import contextlib
import json
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Type
from urllib.parse import urlencode, urlsplit

from ...errors import AuthError, MCPError, TransportError
from ...protocol.http.wellknown import base_of, check_url, origin_of
from ...net.link import Link, Reply, shown
from ...net.adapter import Exchange, Stopped
from ..stdio.stderr import printable
from .addresses import is_address, make_guard

__all__ = ["Answer", "Web", "plain"]

_BYTES = 1 << 20
_SECONDS = 30.0
_SLICE = 0.25
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}
_SHOWN = 200
#: Fields of a form that nobody else may see.
_SECRETS = frozenset({"assertion", "client_assertion", "client_secret", "code", "code_verifier", "refresh_token", "subject_token",
                      "token"})


@dataclass
class Answer:
    """What an authorization server has answered."""

    status: int
    #: The JSON object of the body; empty when there is none.
    document: Dict[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    @property
    def error(self) -> str:
        """The code of an OAuth error, or nothing."""
        code = self.document.get("error")
        return code[:100] if isinstance(code, str) else ""

    def explain(self) -> str:
        """Return what it said of an error, for people."""
        text = self.document.get("error_description")
        parts = [plain(self.error), plain(text)[:_SHOWN] if isinstance(text, str) else ""]
        return ": ".join(filter(None, parts)) or f"status {self.status}"


def plain(text: str) -> str:
    """Return what another said in one line that steers no terminal."""
    return printable(" ".join(text.split()))


class Web:
    """The requests of one attempt to get a token; connections last as long as the ``with`` block.

    :param server: URL of the MCP server for whose sake all this is done.
    :param verify: as for ``requests``.
    :param proxies: as for ``requests``.
    :param address: of that server, if it is known.
    :param given: URLs that the caller has given, which may be at private addresses.
    :param left: raises when nobody waits for the outcome any more.
    """

    def __init__(self, server: str, *, verify: Any = None, proxies: Optional[Dict[str, str]] = None,
                 address: Optional[str] = None, given: Sequence[str] = (), left: Callable[[], object] = bool) -> None:
        self._guard = make_guard(server, address, given)
        self._options: Dict[str, Any] = {"verify": verify, "proxies": proxies, "guard": self._guard}
        self._left = left
        self._links: Dict[str, Link] = {}

    def __enter__(self) -> "Web":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        for link in self._links.values():
            link.close()

    @contextlib.contextmanager
    def to_the_end(self) -> Iterator[None]:
        """Let requests in the block end, within their own time, also when nobody waits any more.

        A refresh token is used up by the request, whoever hears the answer (AUTH-34).
        """
        left, self._left = self._left, bool
        try:
            yield
        finally:
            self._left = left

    def get(self, url: str, what: str, headers: Optional[Mapping[str, str]] = None) -> Optional[Dict[str, Any]]:
        """Return the JSON object at *url*; None when there is nothing (any status of 4xx).

        :param what: whose it is, for errors.
        :raises AuthError: it cannot be fetched, or is no JSON object.
        """
        reply = self._send("GET", url, what, {"Accept": "application/json", **(headers or {})}, None)
        if 400 <= reply.status < 500:
            reply.close()
            return None
        if reply.status != 200:
            reply.close()
            raise AuthError(f"{what}, {shown(url)}, was answered with {reply.status}")
        document = self._document(reply, what)
        if document is None:
            raise AuthError(f"{what}, {shown(url)}, is no JSON object")
        return document

    def post_form(self, url: str, what: str, fields: Mapping[str, Optional[str]],
                  headers: Optional[Mapping[str, str]] = None) -> Answer:
        """Post a form, without the fields that are None, and return the answer, whatever its status.

        :raises AuthError: there is none.
        """
        body = urlencode({name: value for name, value in fields.items() if value is not None}).encode("ascii")
        answer = self._post(url, what, {**_FORM, **(headers or {})}, body)
        said = answer.document.get("error_description")
        if isinstance(said, str):  # some say what they have got, and it goes into an error (AUTH-19)
            for name in _SECRETS & fields.keys():
                said = said.replace(fields[name] or "***", "***")
            answer.document["error_description"] = said
        return answer

    def post_json(self, url: str, what: str, document: Dict[str, Any]) -> Answer:
        """Post a JSON object and return the answer, whatever its status.

        :raises AuthError: there is none.
        """
        return self._post(url, what, _JSON, json.dumps(document).encode("utf-8"))

    def _post(self, url: str, what: str, headers: Mapping[str, str], body: bytes) -> Answer:
        reply = self._send("POST", url, what, headers, body)
        return Answer(reply.status, self._document(reply, what) or {}, reply.headers)

    def _send(self, method: str, url: str, what: str, headers: Mapping[str, str], body: Optional[bytes]) -> Reply:
        try:
            check_url(url, what)
        except ValueError as error:
            raise AuthError(str(error)) from error
        try:
            return self._link(url).fetch(self._exchange(url, what), method, url, headers, body)
        except AuthError:
            raise
        except (TransportError, OSError, ValueError) as error:  # requests has its own idea of which hosts there are
            raise AuthError(f"{what} could not be reached: {error}") from error

    def _document(self, reply: Reply, what: str) -> Optional[Dict[str, Any]]:
        try:
            data = reply.read(_BYTES)
        except (AuthError, Stopped):
            raise
        except MCPError as error:
            raise AuthError(f"{what} could not be read: {error}") from error
        finally:
            reply.close()
        try:
            document = json.loads(data)
            # Lone surrogates could not be sent on: as a scope, or a client's id.
            json.dumps(document, ensure_ascii=False).encode("utf-8")
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    def _exchange(self, url: str, what: str) -> Exchange:
        end = time.monotonic() + _SECONDS

        def in_all() -> float:
            return end - time.monotonic()

        def left() -> float:
            self._left()
            remaining = in_all()
            if remaining <= 0:
                raise AuthError(f"{what}, {shown(url)}, was not answered within {_SECONDS:g} s")
            return min(remaining, _SLICE)

        return Exchange(left, in_all)

    def _link(self, url: str) -> Link:
        base, (_, host, port) = base_of(url), origin_of(url)
        link = self._links.get(base)
        if link is None:
            if is_address(host):
                self._guard(host, port)  # also where a proxy connects, and would find it
            # A path: requests writes one for a bare origin, and each request says its own.
            link = self._links[base] = Link(base + (urlsplit(url).path or "/"), **self._options)
        return link
