"""What is stored for one server, by a login of before, and how its user is asked when that does not do any more."""

import shlex
from typing import Any, Callable, ContextManager, Dict, Optional
from urllib.parse import urlsplit

from ..client.oauth.code_flow import OAuth
from ..client.oauth.stores.base import Store
from ..client.oauth.stores.file import FileStore
from ..client.oauth.token_endpoint import Credentials
from ..client.oauth.users.agent import UserAgent, Visit
from ..client.oauth.users.browser import Browser
from ..client.oauth.users.default import default_user_agent
from ..client.oauth.users.terminal import Terminal
from .arguments import UsageError

__all__ = ["Stored", "choose_agent", "how_to_log_in"]

#: What a login is told that the next one has to know as well; who the client is stands in the credentials.
_WAYS = {"client_name": str, "dpop": bool, "redirect_uri": str, "scopes": list}


class Stored:
    """What is stored for the server at a URL.

    :param store: where; by default the user's file.
    :raises AuthError: the store cannot be read.
    :raises ValueError: tokens would travel in the clear to that URL.
    """

    def __init__(self, url: str, store: Optional[Store] = None) -> None:
        self.url = url
        self.store = FileStore() if store is None else store
        self._key = OAuth(store=self.store).access(url).key
        self._ways_key = "login " + self._key.partition(" ")[2]

    @property
    def credentials(self) -> Optional[Credentials]:
        """What is stored now; None for nothing.

        :raises AuthError: the store cannot be read.
        """
        return Credentials.read(self.store.load(self._key))

    def remember(self, ways: Dict[str, Any]) -> None:
        """Keep the options of a login, for those that become necessary in the middle of a command."""
        self.store.save(self._ways_key, {name: ways[name] for name in _WAYS if ways.get(name)})

    def forget_ways(self) -> None:
        """Drop the options of the login."""
        self.store.delete(self._ways_key)

    def grant(self, alone: Optional[Callable[[], ContextManager[object]]] = None) -> Optional[OAuth]:
        """Return what uses and renews the credentials; None when there are none.

        It stays with their authorization server and their client: to choose others is what ``login`` is for.

        :param alone: entered while the user is asked; keeps everything else from the terminal.
        """
        credentials = self.credentials
        if credentials is None:
            return None
        kept = self.store.load(self._ways_key) or {}
        ways = {name: kept[name] for name, kind in _WAYS.items() if isinstance(kept.get(name), kind)}
        client = credentials.client
        if not client.redirect_uris:  # it has not registered by itself
            ways.update(client_id=client.client_id, client_secret=client.secret)
        agent = choose_agent(ways.get("redirect_uri"))
        return OAuth(issuer=credentials.issuer, store=self.store, ask=agent if alone is None else _Apart(agent, alone), **ways)


def choose_agent(redirect_uri: Optional[str] = None, *, browser: bool = True, command: bool = False) -> UserAgent:
    """Return how the user is asked: by a browser, by the terminal, or not at all.

    :param redirect_uri: where the browser comes back to.
    :param browser: False for the terminal, whatever else there is.
    :param command: whether to wait for a browser that somebody else opens, when nobody can be asked.
    :raises UsageError: nobody can listen at that URI.
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
        raise UsageError(f"--redirect-uri {uri}: write it like http://127.0.0.1:8765/callback, with a port of this machine")
    return {"host": host, "port": port, "path": path}


def how_to_log_in(url: str, package: str) -> str:
    """Return the command that logs in to a server.

    :param package: by whose name the command line is started.
    """
    base, query, _ = url.partition("?")
    # What stands in a query may be secret, as may be a name before the host.
    return f"python -m {package} login {'URL' if query or '@' in base else shlex.quote(url)}"


class _Apart(UserAgent):
    """Asks as another one does, but alone on the terminal."""

    def __init__(self, agent: UserAgent, alone: Callable[[], ContextManager[object]]) -> None:
        self._agent, self._alone = agent, alone

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        return _ApartVisit(self._agent.begin(preferred, server), self._alone)


class _ApartVisit(Visit):
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
