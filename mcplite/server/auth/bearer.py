"""Bearer tokens in, principals out: what a token must be for this server, whoever verifies its signature.

A verifier tells whose a token is. Whether it is meant for this server, comes from one of its authorization
servers and is still good is checked here, so that no verifier can forget it (AUTH-03, AUTH-05).
"""

import logging
import re
import time
import traceback
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlsplit

from ...protocol.http.wellknown import canonical, check_url
from ...rpc.tracing import RateLog
from .principals import ISSUED_HERE, Principal, all_scopes, checked_scopes

__all__ = ["BearerAuth", "Refused", "Verifier", "bearer_token", "is_token"]

_log = logging.getLogger(__name__)
Verifier = Callable[[str], Optional[Principal]]
#: RFC 6750, section 2.1; there is one blank or more before it.
_TOKEN = re.compile(r" +([A-Za-z0-9\-._~+/]+=*)")
#: Characters of an ``Authorization`` header; our own host takes lines that are little longer.
_MOST = 8000
#: A piece of a token that is long enough to be worth anything to somebody.
_TELLING = 12


class Refused(Exception):
    """A request is not let in.

    :param status: of the response.
    :param error: the code of RFC 6750; empty when no token was sent, or when the fault is not the client's.
    :param description: what is wrong, for people; without anything that the client has sent.
    """

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.error = error
        self.description = description


def bearer_token(values: Sequence[str]) -> Optional[str]:
    """Return the token in the ``Authorization`` headers of a request; None when they hold none (AUTH-02).

    :raises Refused: there is something that is meant to be one and is not.
    """
    if not values:
        return None
    if len(values) > 1:
        raise Refused(400, "invalid_request", "there are several Authorization headers")
    value = values[0]
    if value[:6].lower() != "bearer" or value[6:7] not in ("", " "):
        return None
    match = _TOKEN.fullmatch(value, 6) if len(value) <= _MOST else None
    if match is None:
        raise Refused(400, "invalid_request", "the Authorization header must be 'Bearer' and one token")
    return match.group(1)


def is_token(text: str) -> bool:
    """Whether a text can be sent as a bearer token."""
    return _TOKEN.fullmatch(" " + text) is not None and len(text) < _MOST - 10


class BearerAuth:
    """How a server knows its callers over HTTP: by bearer tokens of OAuth 2.1.

    :param verify: takes a token and returns whose it is, or None when it is not valid; see :class:`StaticTokens`,
        :class:`JWTVerifier` and :class:`Introspection`. It is called for each request, on that request's thread, and bounds
        its own time. When it raises, nobody is let in: an ``OSError`` is answered with 503, anything else with 500.
    :param issuer: the authorization server that issues the tokens, by its issuer identifier, or several; by default the
        ``issuer`` of the verifier, if it has one. With it clients find out by themselves where to get a token; without it
        they must have been given one.
    :param resource: the URL that clients know the endpoint by, such as ``https://mcp.example.com/mcp``. It is needed with
        *issuer*, unless the server answers to the loopback names alone, where it is the URL that was asked.
    :param audience: what tokens are issued for besides the resource, one identifier or several.
    :param scopes: what each request needs.
    :param implies: what a scope includes besides itself, such as ``{"admin": ["read", "write"]}`` (AUS-21).
    :param scopes_supported: what clients may ask for at first, by default the scopes of all requests and of everything that
        is registered.
    :param realm: named in challenges.
    :param documentation: the URL of a page for the developers of clients.
    :param repeat_granted: whether a challenge for more scopes names those again that the token has and this server knows.
        None, the default, does what the client's revision advises: up to November 2025 they are named, since such a client
        may lose them otherwise; from July 2026 on a client keeps them by itself, and only what the request needs is named.
    :param clock: returns seconds since 1970.
    :raises ValueError: an option is not written right.
    """

    def __init__(self, verify: Verifier, *, issuer: Union[None, str, Iterable[str]] = None, resource: Optional[str] = None,
                 audience: Union[None, str, Iterable[str]] = None, scopes: Union[str, Iterable[str]] = (),
                 implies: Optional[Mapping[str, Iterable[str]]] = None,
                 scopes_supported: Union[None, str, Iterable[str]] = None, realm: Optional[str] = None,
                 documentation: Optional[str] = None, repeat_granted: Optional[bool] = None,
                 clock: Callable[[], float] = time.time) -> None:
        if not callable(verify):
            raise ValueError(f"a verifier is called with a token and returns a Principal or None; {type(verify).__name__} cannot"
                             " be called (for tokens themselves, say StaticTokens(...))")
        self._verify = verify
        self.issuers = _texts(getattr(verify, "issuer", None) if issuer is None else issuer, "issuer")
        for one in self.issuers:
            parts = urlsplit(check_url(one, "issuer="))
            if parts.query or parts.fragment:
                raise ValueError(f"issuer= is {one[:200]!r}; an issuer identifier has no query and no fragment")
        self.resource = resource
        if resource is not None and "#" in check_url(resource, "resource="):
            raise ValueError(f"resource= is {resource[:200]!r}; the URL of an endpoint has no fragment")
        self._audiences = _texts(audience, "audience")
        self.scopes = checked_scopes(scopes, "scopes=")
        checked_scopes(implies or (), "implies=")
        self.implies: Dict[str, Tuple[str, ...]] = {
            scope: checked_scopes(included, f"implies[{scope!r}]") for scope, included in (implies or {}).items()}
        self.scopes_supported = None if scopes_supported is None else checked_scopes(scopes_supported, "scopes_supported=")
        self.realm = realm
        self.documentation = documentation
        self.repeat_granted = repeat_granted
        self._clock = clock
        self._warn = RateLog(_log)

    def __repr__(self) -> str:
        return f"<BearerAuth of {type(self._verify).__name__}, issuers {list(self.issuers)}, resource {self.resource!r}>"

    def identify(self, token: str, resource: Optional[str]) -> Principal:
        """Return whose a token is, with all the scopes that it has.

        :param resource: the URL of the endpoint; None when it is not known.
        :raises Refused: the token is not good here; the text says nothing that its sender does not know.
        """
        principal = self._verified(token)
        self._check_audience(principal, resource)
        if self.issuers and principal.issuer and principal.issuer not in self.issuers:
            _log.info("a token of the issuer %.200r was refused; known are %s", principal.issuer, list(self.issuers))
            raise _invalid("the token is of another authorization server")
        if principal.expires_at is not None and principal.expires_at <= self._clock():
            raise _invalid("the token has expired")
        scopes = all_scopes(principal.scopes, self.implies) if self.implies else principal.scopes
        if scopes == principal.scopes:
            return principal
        return Principal(principal.subject, audience=principal.audience, issuer=principal.issuer, scopes=scopes,
                         client_id=principal.client_id, expires_at=principal.expires_at, claims=principal.claims)

    def _verified(self, token: str) -> Principal:
        try:
            found: Any = self._verify(token)
        except Exception as error:
            # A verifier that fails lets nobody in (AUTH-17), and its error may quote what it was given (AUTH-19).
            if isinstance(error, OSError):
                self._warn.warning("a token could not be verified: %s", _without(token, f"{type(error).__name__}: {error}"))
                raise Refused(503, "", "the token cannot be verified now; try again later") from None
            _log.error("a token could not be verified:\n%s", _without(token, traceback.format_exc()))
            raise Refused(500, "", "Internal error") from None
        if found is None:
            raise _invalid("the token is not valid")
        if not isinstance(found, Principal):
            _log.error("the verifier %s returned %s instead of a Principal or None", type(self._verify).__name__,
                       type(found).__name__)
            raise Refused(500, "", "Internal error")
        return found

    def _check_audience(self, principal: Principal, resource: Optional[str]) -> None:
        if principal.audience is ISSUED_HERE:
            return
        if not principal.audience:
            self._warn.warning("a token that says nothing of its audience was refused, since it may be meant for any server;"
                               " have the authorization server issue tokens for %s, or name ISSUED_HERE as the audience of"
                               " tokens that this server has made itself", resource or self._audiences or "this server")
            raise _invalid("the token does not say what it is for")
        ours = None if resource is None else canonical(resource)
        if any(one in self._audiences or ours is not None and _canonical(one) == ours for one in principal.audience):
            return
        if ours is None and not self._audiences:
            self._warn.warning("a token for %.300s was refused, since this server does not know its own URL: say"
                               " BearerAuth(..., resource='https://...') or audience=", list(principal.audience))
        else:
            _log.info("a token for %.300s was refused; this server is %s", list(principal.audience),
                      [*self._audiences, *filter(None, [resource])])
        raise _invalid("the token is for another server")


def _invalid(description: str) -> Refused:
    return Refused(401, "invalid_token", description)


def _texts(given: Union[None, str, Iterable[str]], what: str) -> Tuple[str, ...]:
    texts = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(text, str) and text for text in texts) or given is not None and not texts:
        raise ValueError(f"{what}= is one text, or several")
    return texts


def _canonical(audience: str) -> str:
    try:
        return canonical(audience) if "#" not in audience else ""
    except ValueError:
        return ""  # an identifier that is no URL


def _without(token: str, text: str) -> str:
    # As it was sent, as it stands in a URL (whose errors say all of that), and the pieces of either.
    for piece in [token, quote(token, safe=""), *re.split(r"[^A-Za-z0-9_\-]", token)]:
        if len(piece) >= _TELLING:
            text = text.replace(piece, "***")
    return text
