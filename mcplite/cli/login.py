"""The commands ``login``, ``logout`` and ``token``, which manage the stored login of a protected server."""

import argparse
import os
import sys
import time
from typing import Any, Callable, Dict

from ..auth.login.code_flow import OAuth
from ..auth.login.grant_base import find_authorization
from ..auth.login.token_endpoint import Credentials
from ..errors import AuthError
from ..protocol.error_text import shown, worded
from .arguments import UsageError
from .credentials import Stored, choose_agent, how_to_log_in
from .parser import NAMES
from .printing import as_json, clean, clean_line

__all__ = ["run"]


def run(url: str, options: argparse.Namespace) -> int:
    """Run the command of the options for the server at a URL; return the exit status.

    :raises UsageError: it is not a URL, or the options do not fit together.
    :raises AuthError: no token could be obtained, or none is stored.
    :raises TransportError: the server cannot be reached.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{options.command}: {url!r} is not a URL; a server that is started here needs no login")
    return _ACTIONS[options.command](url, options)


def _login(url: str, options: argparse.Namespace) -> int:
    stored = Stored(url)
    _ = stored.credentials  # reports an unreadable file before the user logs in
    stored_options: Dict[str, Any] = {
        "client_name": options.client_name or "", "dpop": options.dpop, "redirect_uri": options.redirect_uri,
        "scopes": [scope for item in options.scope for scope in item.split()]}
    grant = OAuth(issuer=options.issuer, store=stored.store, timeout=options.timeout, **_client(url, options), **stored_options,
                  ask=choose_agent(options.redirect_uri, browser=not options.no_browser, command=True))
    credentials = grant.login(url)
    stored.save_options(stored_options)
    print(as_json(_facts(url, credentials)) if options.json else _text(url, credentials))
    return 0


def _client(url: str, options: argparse.Namespace) -> Dict[str, Any]:
    """Return the client's identity, as far as the options name it."""
    name = options.client_secret_env
    if options.client_id is None:
        if name is not None:
            raise UsageError("--client-secret-env needs --client-id, the client that the secret belongs to")
        return {"client_metadata_url": options.client_metadata_url}
    if options.client_metadata_url is not None:
        raise UsageError("--client-id and --client-metadata-url both identify the client: give one of them")
    if options.issuer is None:
        found = find_authorization(url)
        named = f"; {shown(url)} names {' and '.join(found.issuers)}" if found.described else ""
        raise UsageError(f"--client-id needs --issuer, the authorization server that registered this client{named}")
    if name is not None and not os.environ.get(name):
        raise UsageError(f"--client-secret-env: the environment has no variable {name}")
    return {"client_id": options.client_id, "client_secret": None if name is None else os.environ[name]}


def _facts(url: str, credentials: Credentials) -> Dict[str, Any]:
    """Return the part of credentials that is not secret."""
    end = credentials.expires_at
    return {
        "server": shown(url), "resource": credentials.resource, "issuer": credentials.issuer,
        "client_id": credentials.client.client_id, "scopes": credentials.scopes, "token_type": credentials.scheme,
        "expires_at": None if end is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)),
        "renewable": credentials.refresh_token is not None}


def _text(url: str, credentials: Credentials) -> str:
    scopes = f", with the scopes {' '.join(credentials.scopes)}" if credentials.scopes else ""
    end = "the server did not say when the token expires" if credentials.expires_at is None else (
        "the token expires at " + time.strftime("%Y-%m-%d %H:%M", time.localtime(credentials.expires_at)))
    then = "it is renewed automatically" if credentials.refresh_token is not None else "it cannot be renewed: log in again then"
    return f"{clean_line(f'logged in to {shown(url)} at {credentials.issuer}{scopes}')}\n{end}; {then}"


def _logout(url: str, options: argparse.Namespace) -> int:
    stored = Stored(url)
    credentials = stored.credentials
    stored.forget_options()
    if credentials is None:
        print(clean_line(f"no login to {shown(url)} is stored"))
        return 0
    grant = _Logout(store=stored.store)
    try:
        grant.logout(url)
    except AuthError as error:
        if stored.credentials is not None:
            raise
        raise AuthError(f"the login to {shown(url)} is deleted here, but its tokens could not be revoked and stay valid"
                        f" until they expire: {error}", error=error.error) from error
    how = (f"its tokens are revoked at {credentials.issuer}" if grant.revokes else
           f"its tokens stay valid until they expire, as {credentials.issuer} has no endpoint to revoke them")
    print(clean_line(f"logged out of {shown(url)}: the login is deleted here; {how}"))
    return 0


class _Logout(OAuth):
    """Notes whether the authorization server has an endpoint to revoke tokens."""

    revokes = False

    def endpoint(self, web: Any, server: Any, proofs: Any) -> Any:
        self.revokes = server.revocation_endpoint is not None
        return super().endpoint(web, server, proofs)


def _token(url: str, options: argparse.Namespace) -> int:
    stored = Stored(url)
    grant = stored.grant()
    command = how_to_log_in(url, __name__.rpartition(".cli.")[0])
    if grant is None:
        raise AuthError(f"no login to {shown(url)} is stored; log in with `{command}`")
    try:
        grant.token(url)
    except AuthError as error:
        raise AuthError(f"{worded(error, NAMES)}\nTo log in again: {command}", error=error.error) from error
    credentials = stored.credentials  # read again: credentials that could not be renewed are kept
    if credentials is None or credentials.expired:
        raise AuthError(f"the login to {shown(url)} has expired; log in again with `{command}`")
    if credentials.scheme != "Bearer":
        print(clean(f"the token is bound to a key ({credentials.scheme}): requests also need proofs that are made"
                    " with this key"), file=sys.stderr)
    print(f"Authorization: {credentials.scheme} {credentials.access_token}" if options.header else credentials.access_token)
    return 0


_ACTIONS: Dict[str, Callable[[str, argparse.Namespace], int]] = {"login": _login, "logout": _logout, "token": _token}
