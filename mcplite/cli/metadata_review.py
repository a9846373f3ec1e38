"""The challenge of a server, its metadata and that of its authorization servers: the part of ``doctor`` that reads documents.

The documents are found by :mod:`..auth.login.discovery`. Each answer that it gets is examined. The well-known URLs of the
server's metadata that it did not need are requested and examined, too. :mod:`.doctor_rules` says of each finding which rule it
breaks.
"""

from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from ..auth.login.discovery import AuthorizationServer, ProtectedResource, find_resource, find_server, same_issuer
from ..auth.login.web import Web
from ..errors import AuthError
from ..net.exchange import Reply
from ..net.settings import HTTPSettings
from ..protocol.error_text import one_line, shown, worded
from ..protocol.http.oauth import (
    Challenge,
    check_url,
    covers,
    find_challenge,
    issuer_metadata_urls,
    parse_challenges,
    resource_metadata_urls,
)
from .parser import NAMES

__all__ = ["MetadataReview"]

#: Authorization servers that are looked at.
_MOST_ISSUERS = 3
#: The origin of a web page that reads metadata; this is the one of the MCP Inspector.
_PAGE = "http://localhost:6274"


class _Seen(NamedTuple):
    """The answer from a URL; if there was none, the status is 0."""

    status: int
    kind: str
    document: Optional[Dict[str, Any]]
    #: Why there is no document.
    problem: str

    @property
    def said(self) -> str:
        return f"{self.status} {self.kind}".strip() if self.status else self.problem


class _LookingWeb(Web):
    """Requests metadata, and keeps each answer by its URL."""

    def __init__(self, server: str, settings: HTTPSettings, address: Optional[str]) -> None:
        super().__init__(server, settings, address=address)
        self.seen: Dict[str, _Seen] = {}
        self._reply: Optional[Reply] = None

    def get(self, url: str, what: str, headers: Optional[Mapping[str, str]] = None) -> Optional[Dict[str, Any]]:
        document, problem, self._reply, status = None, "", None, 0
        try:
            document = super().get(url, what, headers)
            return document
        except AuthError as error:
            problem, status = worded(error, NAMES), error.status or 0
            raise
        finally:
            reply = self._reply
            self.seen[url] = (_Seen(status, "", None, problem) if reply is None else
                              _Seen(reply.status, reply.kind, document, problem))

    def _send(self, method: str, url: str, what: str, headers: Mapping[str, str], body: Optional[bytes]) -> Reply:
        self._reply = super()._send(method, url, what, headers, body)
        return self._reply

    def is_readable(self, url: str, what: str) -> bool:
        """Return whether a web page of another origin can read what is at a URL."""
        try:
            reply = self._send("GET", url, what, {"Accept": "application/json", "Origin": _PAGE}, None)
        except AuthError:
            return False
        reply.close()
        return reply.headers.get("access-control-allow-origin") in ("*", _PAGE)

    def look(self, urls: Sequence[str], what: str) -> None:
        """Request each of the URLs that was not requested yet."""
        for url in urls:
            if url not in self.seen:
                try:
                    self.get(url, what)
                except AuthError:
                    continue  # get() has kept the reason


class MetadataReview:
    """Reads the challenge and the metadata of one server.

    :param begin: called with the name of each step.
    :param say: called with each thing that is found: a text, and the code of its rule, which is empty if all is well.
    """

    def __init__(self, url: str, begin: Callable[[str], None], say: Callable[..., None]) -> None:
        self._url, self._begin, self._say = url, begin, say

    def read(self, reply: Reply) -> "Tuple[Optional[ProtectedResource], Optional[AuthorizationServer]]":
        """Review all metadata; return that of the server and of its first authorization server, None for what is not known.

        :param reply: the 401 of the server, whose challenge may name the place of the metadata.
        """
        challenge = self._challenge(reply)
        try:
            check_url(self._url, "the server")
        except ValueError:
            return None, None  # the walk has reported it; a client of this package refuses to log in at such a URL
        web = _LookingWeb(self._url, HTTPSettings(), reply.address)
        with web:
            self._begin("metadata of the server")
            resource = self._resource(web, challenge)
            if resource is None:
                return None, None
            first: Optional[AuthorizationServer] = None
            for number, issuer in enumerate(resource.issuers[:_MOST_ISSUERS]):
                self._begin(f"authorization server {one_line(issuer, 200)}")
                server = self._server(web, issuer, resource.described)
                first = server if number == 0 else first
            return resource, first

    def _challenge(self, reply: Reply) -> Optional[Challenge]:
        self._begin("challenge")
        header = reply.headers.get("www-authenticate", "")
        if not header:
            self._say("the 401 has no WWW-Authenticate", "no-challenge")
            return None
        came = f"WWW-Authenticate: {header}"
        challenges = parse_challenges(header)
        challenge = find_challenge(challenges, "bearer", "dpop")
        if challenge is None:
            self._say(came, "challenge-malformed" if "bearer" in header.lower() else "challenge-scheme")
            return None
        if challenges[0] is not challenge:
            self._say(came, "challenge-order")
        named = challenge.get("resource_metadata")
        if named is None:
            self._say(came, "challenge-malformed" if "resource_metadata" in header else "challenge-no-metadata")
            return challenge
        try:
            check_url(named, "resource_metadata")
        except ValueError as error:
            self._say(f"{came}: {error}", "challenge-metadata-url")
            return challenge
        self._say(came)
        return challenge

    def _resource(self, web: _LookingWeb, challenge: Optional[Challenge]) -> Optional[ProtectedResource]:
        what = "the metadata of the server"
        problem, resource = "", None
        try:
            resource = find_resource(web, self._url, challenge, {})
        except AuthError as error:
            problem = worded(error, NAMES)
        known = resource_metadata_urls(self._url)
        web.look(known, what)
        before, good = len(web.seen), []
        for url, seen in list(web.seen.items())[:before]:
            self._looked(url, seen, "resource")
            if seen.document is not None:
                good.append(url)
                self._resource_document(url, seen.document)
        if good:
            self._page(web, good[0], what)
        if good and not set(good) & set(known):
            self._say(f"it is at {good[0]}, and not at {' or '.join(known)}", "resource-well-known")
        if resource is not None and not resource.described and not good:
            self._say(f"there is none at {' or '.join(web.seen)}", "resource-none")
        elif resource is None and not any(seen.document for seen in web.seen.values()):
            self._say(problem, "resource-fails")
        elif resource is not None and resource.described:
            scopes = f"; its scopes are {' '.join(resource.scopes)}" if resource.scopes else ""
            self._say(f"{resource.resource} trusts {' and '.join(resource.issuers)}{scopes}")
        return resource

    def _page(self, web: _LookingWeb, url: str, what: str) -> None:
        if not web.is_readable(url, what):
            self._say(f"GET {url} with the Origin {_PAGE} was answered without Access-Control-Allow-Origin", "no-cors")

    def _looked(self, url: str, seen: _Seen, kind: str) -> None:
        """Report an answer whose status or type is wrong, whatever its document says."""
        came = f"GET {url} was answered with {seen.said}"
        if seen.document is not None:
            if seen.kind != "application/json":
                self._say(came, "metadata-kind")
        elif 200 <= seen.status < 400:
            self._say(came, f"{kind}-not-json")
        elif seen.status >= 500 or seen.status == 0:
            self._say(came, f"{kind}-fails")

    def _resource_document(self, url: str, document: Mapping[str, Any]) -> None:
        resource, issuers = document.get("resource"), document.get("authorization_servers")
        if "resource" not in document:
            self._say(f"{url} has no member resource", "resource-member")
        elif not isinstance(resource, str) or not covers(resource, self._url):
            self._say(f"{url} is about {resource!r}, and not about {shown(self._url)}", "resource-other")
        if not issuers:
            self._say(f"{url} has {'no authorization_servers' if issuers is None else f'authorization_servers {issuers!r}'}",
                     "issuers-none")
        elif not isinstance(issuers, list) or not all(isinstance(one, str) and one for one in issuers):
            self._say(f"{url} has authorization_servers {issuers!r}", "issuers-malformed")
        methods = document.get("bearer_methods_supported")
        if isinstance(methods, list) and "header" not in methods:
            self._say(f"{url} has bearer_methods_supported {methods!r}", "bearer-methods")

    def _server(self, web: _LookingWeb, issuer: str, described: bool) -> Optional[AuthorizationServer]:
        problem, server = "", None
        try:
            check_url(issuer, "the issuer")
            if urlsplit(issuer).query or urlsplit(issuer).fragment:
                raise ValueError(f"{issuer} has a query or a fragment")
        except ValueError as error:
            self._say(str(error), "issuer-url")
            return None
        try:
            server = find_server(web, issuer, described, {})
        except AuthError as error:
            problem = worded(error, NAMES)
        known = issuer_metadata_urls(issuer)
        seen = {url: web.seen[url] for url in known if url in web.seen}
        for url, one in seen.items():
            self._looked(url, one, "server")
            if one.document is not None:
                self._server_document(url, one.document, issuer)
                self._page(web, url, "the metadata of the authorization server")
        if not any(one.document for one in seen.values()):
            if all(one.status < 500 and one.status for one in seen.values()):
                self._say(problem or f"there is no metadata at {' or '.join(seen)}", "server-none")
        elif server is not None:
            self._say(f"logins at {server.authorization_endpoint}, tokens at {server.token_endpoint}")
        return server

    def _server_document(self, url: str, document: Mapping[str, Any], issuer: str) -> None:
        named = document.get("issuer")
        if not isinstance(named, str) or not same_issuer(named, issuer):
            self._say(f"{url} is of the issuer {named!r}, and not of {issuer!r}", "issuer-other")
            return
        if named != issuer:
            self._say(f"{url} is of {named!r}; the server names {issuer!r}", "issuer-slash")
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"):
            endpoint = document.get(name)
            if not endpoint:
                if name in ("authorization_endpoint", "token_endpoint"):
                    self._say(f"{url} has no {name}", "endpoint-missing")
                continue
            try:
                check_url(endpoint, name)
                if "#" in endpoint:
                    raise ValueError(f"{name} {endpoint!r} has a fragment")
            except ValueError as error:
                self._say(f"{url}: {error}", "endpoint-url")
        for code, text in _missing(document):
            self._say(f"{url}: {text}", code)


def _missing(document: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """Yield a code and a text for each thing that the metadata of an authorization server lacks."""
    def listed(name: str) -> Optional[List[Any]]:
        value = document.get(name)
        return value if isinstance(value, list) else None

    for code, name, wanted, absent in (
            ("no-s256", "code_challenge_methods_supported", "S256", True),
            ("no-code", "response_types_supported", "code", True),
            ("no-public-clients", "token_endpoint_auth_methods_supported", "none", False),
            ("no-refresh", "grant_types_supported", "refresh_token", False)):
        values = listed(name)
        if values is None and (absent or name in document) or values is not None and wanted not in values:
            yield code, f"{name} is {document.get(name)!r}" if name in document else f"it has no {name}"
    if not document.get("registration_endpoint") and document.get("client_id_metadata_document_supported") is not True:
        yield "no-registration", "it has neither a registration_endpoint nor client_id_metadata_document_supported"
    if document.get("authorization_response_iss_parameter_supported") is not True:
        yield "no-iss", "authorization_response_iss_parameter_supported is not true"
