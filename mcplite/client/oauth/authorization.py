"""One authorization request: the URL that the user visits, and the answer that comes back."""

import base64
import hashlib
import hmac
import secrets
from typing import Dict, List, Optional, Sequence
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from ...errors import AuthError
from .discovery import OFFLINE_ACCESS, AuthorizationServer
from .token_endpoint import ClientIdentity
from .web import plain

__all__ = ["AuthorizationRequest"]

_SHOWN = 200


class AuthorizationRequest:
    """What has to be known again when the user comes back (AUC-35).

    :param server: whose issuer its answer has to name.
    :param redirect_uri: to the letter as it was registered (AUTH-42).
    :param resource: the MCP server, as its metadata writes it.
    :param prompt: as for :class:`OAuth`.
    """

    def __init__(self, server: AuthorizationServer, client: ClientIdentity, redirect_uri: str, resource: str,
                 scopes: Sequence[str], prompt: Optional[str] = None) -> None:
        self._server = server
        self._redirect_uri = redirect_uri
        #: 32 random bytes each (AUTH-20, AUTH-21).
        self._verifier = secrets.token_urlsafe(32)
        self.state = secrets.token_urlsafe(32)
        digest = hashlib.sha256(self._verifier.encode("ascii")).digest()
        parameters = {
            "response_type": "code", "client_id": client.client_id, "redirect_uri": redirect_uri, "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"), "code_challenge_method": "S256",
            "resource": resource,
        }
        if scopes:
            parameters["scope"] = " ".join(scopes)
        if prompt is None and OFFLINE_ACCESS in scopes:
            prompt = "consent"  # without it OpenID providers pass over the wish
        if prompt:
            parameters["prompt"] = prompt
        #: Where the user is sent.
        self.url = _joined(server.authorization_endpoint or "", parameters)

    def __repr__(self) -> str:
        return f"<AuthorizationRequest to {self._server.issuer}>"

    def code(self, answer: str) -> str:
        """Return the code in the URL by which the user came back.

        :raises AuthError: it is no answer to this request, not from this server, or says no; ``error`` has the code of the
            authorization server.
        """
        try:
            given = parse_qs(urlsplit(answer).query, keep_blank_values=True)
        except ValueError:
            given = {}
        state = _single(given, "state")
        if state is None or not hmac.compare_digest(state.encode("utf-8", "replace"), self.state.encode("utf-8")):
            raise AuthError("the answer to the login belongs to another one (its state is not ours), so it is not used")
        self._check_issuer(given.get("iss", []))
        error = _single(given, "error")
        if error is not None or "error" in given:
            text = plain(_single(given, "error_description") or "")[:_SHOWN]
            said = plain(error or "error")[:100] + (f": {text}" if text else "")
            raise AuthError(f"{self._server.issuer} did not authorize: {said}", error=(error or "")[:100])
        code = _single(given, "code")
        if not code:
            raise AuthError(f"the answer of {self._server.issuer} to the login has neither a code nor an error")
        return code

    def _check_issuer(self, named: List[str]) -> None:
        """Refuse the answer of another server, with nothing of what it says (AUC-36 to AUC-38)."""
        issuer = self._server.issuer
        if not named and not self._server.names_itself:
            return
        if not named:
            raise AuthError(f"the answer to the login does not name its authorization server, although {issuer} says that its"
                            " answers do; it is not used")
        if named != [issuer]:
            raise AuthError(f"the answer to the login is not from {issuer}, which was asked; it is not used")

    def fields(self, code: str) -> Dict[str, str]:
        """Return what the token endpoint is asked with."""
        return {"grant_type": "authorization_code", "code": code, "redirect_uri": self._redirect_uri,
                "code_verifier": self._verifier}


def _single(given: Dict[str, List[str]], name: str) -> Optional[str]:
    """Return a parameter that comes once; None for one that is missing, or comes more often (RFC 6749, section 3.1)."""
    values = given.get(name, ())
    return values[0] if len(values) == 1 else None


def _joined(url: str, parameters: Dict[str, str]) -> str:
    parts = urlsplit(url)
    kept = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in parameters]
    return urlunsplit(parts._replace(query=urlencode([*kept, *parameters.items()])))
