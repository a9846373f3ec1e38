"""The commands ``login``, ``logout`` and ``token``, and the stored login of one server, which every command on a URL uses.
"""

import argparse
import os
import shlex
import sys
import time
from typing import Any, Callable, ContextManager, Dict, List, Optional
from urllib.parse import urlsplit

from ..auth.login.code_flow import OAuth
from ..auth.login.file_store import FileStore
from ..auth.login.grant_base import find_authorization
from ..auth.login.stores import Store
from ..auth.login.token_endpoint import Credentials
from ..auth.login.user_agent import Browser, Terminal, UserAgent, Visit, default_user_agent
from ..errors import AuthError
from ..protocol.error_text import shown, worded
from .parser import NAMES, STATUS, UsageError, program_of
from .printing import as_json, clean, clean_line

__all__ = ["HELP", "Stored", "add_arguments", "choose_agent", "how_to_log_in", "run"]

#: Options of a login that are stored for the next one; the client's identity is part of the credentials.
_STORED_OPTIONS = {"client_name": str, "dpop": bool, "redirect_uri": str, "scopes": list}


class Stored:
    """The stored login of the server at a URL.

    :param store: where it is stored; by default the user's file.
    :raises AuthError: the store cannot be read.
    :raises ValueError: tokens would be sent to that URL unencrypted.
    """

    def __init__(self, url: str, store: Optional[Store] = None) -> None:
        self.url = url
        self.store = FileStore() if store is None else store
        self._key = OAuth(store=self.store).tokens_for(url).key
        self._options_key = "login " + self._key.partition(" ")[2]

    @property
    def credentials(self) -> Optional[Credentials]:
        """The stored credentials; None if there are none.

        :raises AuthError: the store cannot be read.
        """
        return Credentials.read(self.store.load(self._key))

    def save_options(self, options: Dict[str, Any]) -> None:
        """Store the options of a login, for a login that becomes necessary during another command."""
        self.store.save(self._options_key, {name: options[name] for name in _STORED_OPTIONS if options.get(name)})

    def forget_options(self) -> None:
        """Delete the options of the login."""
        self.store.delete(self._options_key)

    def grant(self, alone: Optional[Callable[[], ContextManager[object]]] = None,
              agent: Optional[UserAgent] = None) -> Optional[OAuth]:
        """Return a grant that uses and renews the credentials; None if there are none.

        The grant is bound to the authorization server and to the client of the credentials; only ``login`` chooses others.

        :param alone: returns a context manager that keeps other output from the terminal while the user is asked.
        :param agent: how the user is asked; by default it is chosen by the stored options.
        """
        credentials = self.credentials
        if credentials is None:
            return None
        kept = self.store.load(self._options_key) or {}
        options = {name: kept[name] for name, kind in _STORED_OPTIONS.items() if isinstance(kept.get(name), kind)}
        client = credentials.client
        if not client.redirect_uris:  # the client was registered by hand
            options.update(client_id=client.client_id, client_secret=client.secret)
        agent = agent or choose_agent(options.get("redirect_uri"))
        return OAuth(issuer=credentials.issuer, store=self.store, ask=agent if alone is None else _Alone(agent, alone),
                     **options)


def choose_agent(redirect_uri: Optional[str] = None, *, browser: bool = True, command: bool = False) -> UserAgent:
    """Return the user agent: a browser, the terminal, or one that cannot ask.

    :param redirect_uri: the URI that the browser returns to.
    :param browser: False for the terminal, even if a browser is available.
    :param command: whether to print the URL and wait for a browser elsewhere, if neither is available.
    :raises UsageError: this machine cannot listen at that URI.
    """
    place: Dict[str, Any] = {} if redirect_uri is None else _place(redirect_uri)
    if not browser:
        return Terminal(**place)
    agent = default_user_agent()
    if isinstance(agent, Browser):
        return type(agent)(**place)
    return Browser(lambda url: False, **place) if command else agent


def _place(uri: str) -> Dict[str, Any]:
    try:
        parts = urlsplit(uri)
        host, port, path = str(parts.hostname), parts.port, parts.path or "/"
        Browser(host=host, port=port or 0, path=path)
        again = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    except ValueError as error:
        raise UsageError(f"--redirect-uri {uri}: {error}") from error
    if again != uri or not port:
        raise UsageError(f"--redirect-uri {uri}: write it as http://127.0.0.1:8765/callback, with a loopback host and a port")
    return {"host": host, "port": port, "path": path}


def how_to_log_in(url: str, package: str) -> str:
    """Return the command that logs in to a server.

    :param package: the name after ``python -m``.
    """
    base, query, _ = url.partition("?")
    # A query and a user name in the URL may be secret.
    return f"{program_of(package)} login {'URL' if query or '@' in base else shlex.quote(url)}"


class _Alone(UserAgent):
    """Asks as another user agent does, while nothing else uses the terminal."""

    def __init__(self, agent: UserAgent, alone: Callable[[], ContextManager[object]]) -> None:
        self._agent, self._alone = agent, alone

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        return _AloneVisit(self._agent.begin(preferred, server), self._alone)


class _AloneVisit(Visit):
    def __init__(self, visit: Visit, alone: Callable[[], ContextManager[object]]) -> None:
        super().__init__(visit.redirect_uri)
        self._visit, self._alone = visit, alone

    def ask(self, url: str, state: str, check: Callable[[], object]) -> str:
        with self._alone():
            return self._visit.ask(url, state, check)

    def succeeded(self) -> None:
        self._visit.succeeded()

    def failed(self, text: str) -> None:
        self._visit.failed(text)

    def close(self) -> None:
        self._visit.close()


HELP = """\
URL is that of an MCP server. The login is stored in a file that only you can read: the one that
the variable MCPLITE_CREDENTIALS names, or one in your system's folder for data of programs. All
other commands use it for the same URL, and renew it automatically.

examples:
  %(prog)s login https://example.com/mcp
  %(prog)s login https://example.com/mcp --scope mcp:read --scope mcp:write
  %(prog)s login https://example.com/mcp --no-browser
  %(prog)s login https://example.com/mcp --issuer https://login.example.com \\
      --client-id mine --client-secret-env SECRET --redirect-uri http://127.0.0.1:8765/callback
  %(prog)s call https://example.com/mcp search query=rain
  %(prog)s token https://example.com/mcp --header | curl -H @- https://example.com/files
  %(prog)s logout https://example.com/mcp

""" + STATUS


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of a command about logins to its parser."""
    if command == "token":
        one.add_argument("--header", action="store_true", help="print the whole header, 'Authorization: Bearer ...'")
    if command != "login":
        return
    one.add_argument("--scope", action="append", default=[], metavar="SCOPE",
                     help="a scope to request besides those that the server needs; repeatable")
    one.add_argument("--no-browser", action="store_true",
                     help="print the URL to visit, and read the URL that the browser ended at")
    one.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="time limit of the login; default 300")
    one.add_argument("--issuer", metavar="URL", help="the only authorization server to trust, exactly as it writes its own URL")
    one.add_argument("--client-id", metavar="ID", help="id of a client that you registered by hand; needs --issuer")
    one.add_argument("--client-secret-env", metavar="NAME", help="the environment variable with that client's secret")
    one.add_argument("--client-metadata-url", metavar="URL",
                     help="URL of a document that describes this client, in place of --client-id")
    one.add_argument("--client-name", metavar="NAME", help="the name that the login page shows for this program")
    one.add_argument("--redirect-uri", metavar="URI",
                     help="the registered URI that the browser returns to on this machine; by default any free port")
    one.add_argument("--dpop", action="store_true", help="bind the tokens to a key that stays here (needs PyJWT)")
    one.add_argument("--json", action="store_true", help="print the result as JSON, without tokens")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Run the command of the options for the server at a URL; return the exit status.

    :raises UsageError: the word is not a URL, or the options do not fit together.
    :raises AuthError: no token could be obtained, or none is stored.
    :raises TransportError: the server cannot be reached.
    """
    url = words[0]
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
    grant = OAuth(store=stored.store)
    try:
        grant.logout(url)
    except AuthError as error:
        if stored.credentials is not None:
            raise
        raise AuthError(f"the login to {shown(url)} is deleted here, but its tokens could not be revoked and stay valid"
                        f" until they expire: {error}", error=error.error) from error
    server = grant.tokens_for(url).issuer_server
    how = (f"its tokens are revoked at {credentials.issuer}" if server is not None and server.revocation_endpoint else
           f"its tokens stay valid until they expire, as {credentials.issuer} has no endpoint to revoke them")
    print(clean_line(f"logged out of {shown(url)}: the login is deleted here; {how}"))
    return 0


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
    credentials = stored.credentials  # read again: they may have been renewed; if that failed, the old ones are still stored
    if credentials is None or credentials.expired:
        raise AuthError(f"the login to {shown(url)} has expired; log in again with `{command}`")
    if credentials.scheme != "Bearer":
        print(clean(f"the token is bound to a key ({credentials.scheme}): requests also need proofs that are made"
                    " with this key"), file=sys.stderr)
    print(f"Authorization: {credentials.scheme} {credentials.access_token}" if options.header else credentials.access_token)
    return 0


_ACTIONS: Dict[str, Callable[[str, argparse.Namespace], int]] = {"login": _login, "logout": _logout, "token": _token}
