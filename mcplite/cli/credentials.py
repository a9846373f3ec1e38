"""The stored login of one server, and how the user is asked when it needs to be repeated.

Used by every command on a URL, and by ``login``, ``logout`` and ``token``.
"""

import shlex
from typing import Any, Callable, ContextManager, Dict, Optional
from urllib.parse import urlsplit

from ..auth.login.browser import Browser
from ..auth.login.code_flow import OAuth
from ..auth.login.default import default_user_agent
from ..auth.login.file_store import FileStore
from ..auth.login.stores import Store
from ..auth.login.terminal import Terminal
from ..auth.login.token_endpoint import Credentials
from ..auth.login.user_agent import UserAgent, Visit
from .arguments import UsageError

__all__ = ["Stored", "choose_agent", "how_to_log_in"]

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

    def grant(self, alone: Optional[Callable[[], ContextManager[object]]] = None) -> Optional[OAuth]:
        """Return a grant that uses and renews the credentials; None if there are none.

        It is bound to their authorization server and client; only ``login`` chooses others.

        :param alone: a context manager that keeps other output from the terminal while the user is asked.
        """
        credentials = self.credentials
        if credentials is None:
            return None
        kept = self.store.load(self._options_key) or {}
        options = {name: kept[name] for name, kind in _STORED_OPTIONS.items() if isinstance(kept.get(name), kind)}
        client = credentials.client
        if not client.redirect_uris:  # registered by hand
            options.update(client_id=client.client_id, client_secret=client.secret)
        agent = choose_agent(options.get("redirect_uri"))
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
    return f"python -m {package} login {'URL' if query or '@' in base else shlex.quote(url)}"


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

    def ask(self, url: str, state: str, wait: Callable[[], object]) -> str:
        with self._alone():
            return self._visit.ask(url, state, wait)

    def succeeded(self) -> None:
        self._visit.succeeded()

    def failed(self, text: str) -> None:
        self._visit.failed(text)

    def close(self) -> None:
        self._visit.close()
