"""The token for one MCP server, which all threads of all its clients share."""

import contextlib
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Iterator, List, Mapping, Optional, Set, Tuple

from ...errors import AuthError
from ...net.exchange import Exchange, Stopped
from ...protocol.http.challenges import Challenge, find, parse
from ...protocol.http.wellknown import canonical, check_url
from ...protocol.show import shown
from ...revisions import NEWEST_LEGACY
from .discovery import AuthorizationServer, choose_issuer, find_resource, find_server
from .flow import Flow
from .stepup import choose_scopes
from .token_endpoint import Credentials
from .web import Web

if TYPE_CHECKING:
    from .grant import Grant
    from .keys import Proofs


if TYPE_CHECKING:
    from ...net.link import Reply

__all__ = ["Access", "Attempt"]

_log = logging.getLogger(__name__)
_SLICE = 0.25
#: Seconds that another process may take for a login or a refresh: twice what a user has by default.
_PATIENCE = 600.0
#: Seconds in which a user is not asked again for what did not help (AUC-44).
_REMEMBERED = 600.0
#: How often more scopes are asked for in that time by a server that is not content with them then (AUTH-29).
_MOST_STEPS = 3
#: What an authorization server says of a refresh token that is good no more, or of a client that it has forgotten.
_SPENT = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})


class Access:
    """The way to a token for one MCP server.

    :param grant: how tokens are got.
    :param url: of the server's endpoint.
    :param verify: as for ``requests``, and used for authorization servers as well; so is *proxies*.
    :raises ValueError: a token would travel in the clear to that URL.
    """

    def __init__(self, grant: "Grant", url: str, *, verify: Any = None, proxies: Optional[Dict[str, str]] = None) -> None:
        self._grant = grant
        self.url = check_url(url.partition("#")[0], "the MCP server")
        self.name = shown(self.url)
        self.key = f"token {canonical(self.url)}"
        self._options: Dict[str, Any] = {"verify": verify, "proxies": proxies}
        #: Held by the thread that gets a token, also while it asks a user; the others wait for it in slices.
        self._turn = threading.Lock()
        #: The process whose turns these are: in one that is forked during a login nobody would give the turn back.
        self._pid = os.getpid()
        #: The four below change under ``_turn``; they are read without it.
        self._current: Optional[Credentials] = None
        self._loaded = False
        #: How many attempts have failed, and the last one since there was a token: what it was for, and why.
        self.failed = 0
        self._failure: Optional[Tuple[object, Exception]] = None
        #: Which scopes were asked for in vain, and when.
        self._in_vain: Dict[FrozenSet[str], float] = {}
        #: When more was granted, and was not enough.
        self._not_enough: List[float] = []
        #: When tokens were refused that a login had just given, and whether the server has taken one since.
        self._useless: List[float] = []
        self._taken = False
        self._server: Optional[AuthorizationServer] = None
        self._proofs: "Optional[Proofs]" = None

    @property
    def schemes(self) -> Tuple[str, ...]:
        """The schemes of challenges that say what is wanted here, the one that is used first."""
        return ("dpop", "bearer") if self._grant.dpop else ("bearer", "dpop")

    def use(self, verify: Any, proxies: Optional[Dict[str, str]]) -> None:
        """Go by these from now on: what was given last is what works."""
        self._options = {"verify": verify, "proxies": proxies}

    def _web(self, exchange: Exchange, address: Optional[str] = None) -> Web:
        return Web(self.url, address=address, given=self._grant.given_urls, left=exchange.left, **self._options)

    def attempt(self) -> "Attempt":
        """Return what deals with the refusals of one request."""
        return Attempt(self)

    # --- each request -----------------------------------------------------------------------------------

    def credentials(self, method: str, url: str, exchange: Exchange) -> Tuple[Optional[str], Dict[str, str]]:
        """Return the token for a request, and the headers that it travels in; a token that has expired is replaced first.

        :raises AuthError: it could not be replaced.
        :raises Stopped: nobody waits any more.
        """
        current = self._current
        if current is None and not self._loaded:
            current = self._load()
        if current is not None and current.expired and current.refresh_token is not None:
            current = self._refreshed(current, exchange)
        if current is None:
            return None, {}
        headers = {"Authorization": f"{current.scheme} {current.access_token}"}
        proofs = self._proofs_for(current)
        if current.scheme == "DPoP" and proofs is not None:
            headers["DPoP"] = proofs.proof(method, url, current.access_token)
        return current.access_token, headers

    def token(self, exchange: Exchange) -> Optional[str]:
        """Return the token as it would be sent now; None when there is none that is still good.

        :raises AuthError: it has expired and could not be replaced.
        """
        self.credentials("POST", self.url, exchange)
        current = self._current
        return None if current is None or current.expired else current.access_token

    def heard(self, url: str, headers: Mapping[str, str], taken: bool) -> None:
        """Note what a response says for the next request.

        :param taken: whether the request had a token, and was not refused for it.
        """
        if taken:
            self._taken = True
        if self._proofs is not None:
            self._proofs.learn(url, headers)

    def _load(self) -> Optional[Credentials]:
        current = Credentials.read(self._grant.store.load(self.key))
        if current is not None and not self._grant.takes(current):
            current = None
        self._current, self._loaded = current, True
        return current

    def _proofs_for(self, current: Optional[Credentials]) -> "Optional[Proofs]":
        """Return what proves the possession of a token's key; a new key's when there is no token."""
        pem = None if current is None else current.key
        if pem is None and not self._grant.dpop:
            return None
        proofs = self._proofs
        if proofs is None or (pem is not None and proofs.key.pem != pem):
            from .keys import Proofs, SigningKey

            proofs = self._proofs = Proofs(SigningKey.generate() if pem is None else SigningKey.load(pem))
        return proofs

    # --- a new token ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _my_turn(self, exchange: Exchange, aim: object = None, since: Optional[int] = None) -> Iterator[None]:
        """Wait until no other thread and no other process gets a token for this server, and keep them from it.

        :param aim: what it is for. Those who wait for the same fail together; None is any token.
        :param since: of how many failures the caller knows; by default all until now.
        :raises AuthError: the one before us has failed; a user is not asked by each thread anew (AUTH-46).
        """
        failed = self.failed if since is None else since
        if not exchange.may_ask:
            aim = exchange  # what it cannot have, others may
        with contextlib.ExitStack() as waiting:
            waiting.enter_context(exchange.standing())  # others may be asking a person
            if self._pid != os.getpid():
                self._pid, self._turn = os.getpid(), threading.Lock()
            while not self._turn.acquire(timeout=_SLICE):
                exchange.left()
            try:
                failure = self._failure
                if self.failed != failed and failure is not None and failure[0] == aim:
                    raise AuthError(str(failure[1]), error=getattr(failure[1], "error", "")) from failure[1]
                try:
                    with self._grant.store.held(self.key, self._patient(exchange)):
                        waiting.close()  # what servers take is the call's own time
                        yield
                except Stopped:
                    raise  # the next one takes over
                except Exception as error:  # a store's or a user agent's own as well
                    self.failed, self._failure = self.failed + 1, (aim, error)
                    raise
            finally:
                self._turn.release()

    def _patient(self, exchange: Exchange) -> Callable[[], None]:
        """Return what is called while another process has its turn, which may be one that was stopped in the middle."""
        end = time.monotonic() + _PATIENCE

        def wait() -> None:
            exchange.left()
            if time.monotonic() > end:
                raise AuthError(f"another process has been getting a token for {self.name} for {_PATIENCE:g} s; look for one that"
                                " is stopped, or in the middle of a login")

        return wait

    def _keep(self, credentials: Credentials) -> Credentials:
        # Before it is used: what a server has rotated must not be lost (AUTH-34).
        self._grant.store.save(self.key, credentials.record())
        self._current, self._loaded, self._failure = credentials, True, None
        return credentials

    def _refreshed(self, old: Credentials, exchange: Exchange) -> Optional[Credentials]:
        """Return a token in place of one that has expired; the old one when that is not good for another any more."""
        with self._my_turn(exchange):
            current = self._load()
            if current is None or current.access_token != old.access_token or current.refresh_token is None:
                return current
            with self._web(exchange) as web:
                server = self._server
                if server is None or server.issuer != current.issuer:
                    server = find_server(web, current.issuer, current.described, {})
                try:
                    new = self._grant.endpoint(web, server, self._proofs_for(current)).refresh(current)
                except AuthError as error:
                    self._server = None  # it may have moved (AUC-55)
                    if error.error not in _SPENT:
                        raise
                    return self._spent(current, error)
                self._server = server
                return self._keep(new)

    def replace(self, refused: Optional[str], challenge: Optional[Challenge], headers: Mapping[str, str], exchange: Exchange, *,
                refresh: bool, more: bool = False, address: Optional[str] = None, since: Optional[int] = None) -> str:
        """Get a token that is not *refused*, which the server has just refused.

        :param headers: of the request, which may name the protocol's version.
        :param since: how many attempts had failed when the request began; later ones count for it.
        :param refresh: whether a refresh may do, or only a login.
        :param more: whether the token is refused for its scopes only.
        :param address: of the server, if it is known.
        :returns: how: "adopted" when somebody else had it already, "refreshed" or "obtained".
        :raises AuthError: there is none to be had.
        """
        aim = frozenset((challenge and challenge.scopes) or ()) if more else None
        with self._my_turn(exchange, aim, since):
            current = self._load()
            if current is not None and current.access_token != refused:
                return "adopted"
            with self._web(exchange, address) as web:
                how, credentials = self._obtained(web, current, challenge, headers, exchange, refresh, more)
                self._keep(credentials)
            return how

    def _obtained(self, web: Web, current: Optional[Credentials], challenge: Optional[Challenge], headers: Mapping[str, str],
                  exchange: Exchange, refresh: bool, more: bool) -> Tuple[str, Credentials]:
        grant = self._grant
        versions = {"MCP-Protocol-Version": headers.get("MCP-Protocol-Version") or NEWEST_LEGACY.name}  # AUM-03
        resource = find_resource(web, self.url, challenge, versions)
        issuer = choose_issuer(resource, grant.issuer, None if current is None else current.issuer)
        server = self._server = find_server(web, issuer, resource.described, versions)
        if current is not None and (current.issuer != server.issuer or current.resource != resource.resource):
            # AUC-33: what one server has given is nothing to the other.
            _log.info("%s asks for tokens of %s now; what %s had given is dropped", self.name, server.issuer, current.issuer)
            self._grant.store.delete(self.key)
            current = None
        proofs = self._proofs_for(current)
        if refresh and current is not None and current.refresh_token is not None:
            try:
                return "refreshed", grant.endpoint(web, server, proofs).refresh(current)
            except AuthError as error:
                if error.error not in _SPENT:
                    raise
                self._spent(current, error)
        if grant.interactive and not exchange.may_ask:
            raise AuthError(f"{self.name} wants a login, for which nobody is asked now")
        if grant.interactive and not more and self._is_useless():
            raise AuthError(f"{self.name} does not accept the token that a login has just given, so nobody is asked again so soon;"
                            f" its operator has to see why it refuses tokens of {server.issuer} for {resource.resource}")
        before = [] if current is None else current.scopes
        scopes = choose_scopes(challenge, resource, server, grant.scopes, before, grant.interactive)
        if more:
            self._note(scopes, challenge)
        flow = Flow(web, resource, server, scopes, exchange, proofs)
        try:
            with exchange.standing() if grant.interactive else contextlib.nullcontext():
                return "obtained", grant.obtain(flow)
        except BaseException as error:
            if flow.agreed or not isinstance(error, AuthError):
                self._in_vain.pop(frozenset(scopes), None)  # nobody has said no
            raise

    def _spent(self, current: Credentials, error: AuthError) -> Credentials:
        """Note that a token cannot be refreshed any more, so that nobody tries again."""
        _log.info("the login at %s has ended: %s", current.issuer, error.error)
        self._grant.spent(error.error, current.issuer)
        current.refresh_token = None
        return self._keep(current)

    def _note(self, scopes: List[str], challenge: Optional[Challenge]) -> None:
        """Note that a user is asked for more.

        :raises AuthError: that was in vain just now (AUC-44).
        """
        wanted, now = frozenset(scopes), time.monotonic()
        if now - self._in_vain.get(wanted, now - _REMEMBERED) < _REMEMBERED:
            asked = " ".join((challenge and challenge.scopes) or scopes)
            raise AuthError(f"{self.name} wants the scopes {asked}, which were asked for already, but not granted or not enough")
        self._in_vain = {asked: at for asked, at in self._in_vain.items() if now - at < _REMEMBERED}
        self._in_vain[wanted] = now

    def log_in(self, challenge: Optional[Challenge], exchange: Exchange, address: Optional[str] = None) -> Credentials:
        """Get a token from the beginning, whatever there is.

        :param address: of the server, if it is known.
        :raises AuthError: there is none to be had.
        """
        with self._my_turn(exchange), self._web(exchange, address) as web:
            self._in_vain, self._not_enough, self._useless = {}, [], []  # somebody wants to be asked
            return self._keep(self._obtained(web, None, challenge, {}, exchange, False, False)[1])

    def fresh_was_refused(self) -> None:
        """Note that a login was of no use, so that not every call begins one (AUTH-48)."""
        self._useless, self._taken = [*self._useless, time.monotonic()][-_MOST_STEPS:], False

    def _is_useless(self) -> bool:
        """Whether logins have not helped lately: none since, or too few of them."""
        since = time.monotonic() - _REMEMBERED
        recent = sum(at > since for at in self._useless)
        return recent >= _MOST_STEPS or bool(recent and not self._taken)

    def insufficient(self, refused: Optional[str], challenge: Challenge) -> Optional[str]:
        """Return why it is no use to ask for more than the *refused* token has; None when it may be."""
        current, wanted = self._current, challenge.scopes
        if not self._grant.interactive:
            return "nobody can be asked for more; what is needed later is to be named in scopes="
        if wanted is None:
            return "it does not say which"
        since = time.monotonic() - _REMEMBERED
        if sum(at > since for at in self._not_enough) >= _MOST_STEPS:
            return f"to ask for more has not helped {_MOST_STEPS} times"
        if current is not None and current.access_token == refused and set(wanted) <= set(current.scopes):
            return "all of them were granted"
        return None

    def stepped_in_vain(self) -> None:
        """Note that a server has refused what it had asked for (AUTH-29)."""
        self._not_enough = [*self._not_enough, time.monotonic()][-_MOST_STEPS:]

    def forget(self, exchange: Exchange) -> bool:
        """Drop the credentials, and tell the authorization server once that they are needed no more (AUTH-50).

        :returns: whether there were any.
        :raises AuthError: the server could not be told; they are dropped all the same.
        """
        with self._my_turn(exchange, exchange):
            current = self._load()
            self._grant.store.delete(self.key)
            self._current = None
            if current is None:
                return False
            with self._web(exchange) as web:
                server = find_server(web, current.issuer, current.described, {})
                self._grant.endpoint(web, server, None).revoke(current)
            return True


#: How often one request is sent again because another thread has got a new token, or for a nonce.
_REPEATS = 3


class Attempt:
    """One request.

    :param access: the way to a token.
    """

    def __init__(self, access: "Access") -> None:
        self._access = access
        self._since = access.failed
        self._done: Set[str] = set()
        self._repeats = 0

    def answers(self, reply: "Reply", headers: Mapping[str, str], exchange: Exchange) -> bool:
        """Deal with a refusal; return whether the request is to be sent again.

        :param headers: those of the request that are its own.
        :raises AuthError: the server wants what cannot be had.
        :raises Stopped: nobody waits any more.
        """
        header = reply.headers.get("WWW-Authenticate") or ""
        challenge = find(parse(header), *self._access.schemes)
        code = None if challenge is None else challenge.get("error")
        if reply.status == 401 or code == "insufficient_scope":
            reply.excerpt()  # its connection is free for others, however long a login takes
        if reply.status == 401 and code == "use_dpop_nonce" and reply.headers.get("DPoP-Nonce"):
            return self._again()  # RFC 9449, section 9: the token is as good as it was
        if reply.status == 401:
            if "obtained" in self._done:
                self._access.fresh_was_refused()
                return False
            may_refresh = "refreshed" not in self._done
            return self._did(self._access.replace(reply.token, challenge, headers, exchange, refresh=may_refresh,
                                                  address=reply.address, since=self._since))
        if code != "insufficient_scope" or challenge is None:
            return False
        if "stepped up" in self._done:
            self._access.stepped_in_vain()
        reason = ("it was given more just now" if "stepped up" in self._done
                  else self._access.insufficient(reply.token, challenge))
        if reason is not None:
            wanted = " ".join(challenge.scopes or ["not said"])
            raise AuthError(f"{self._access.name} refuses, because the token lacks scopes ({wanted}), and {reason}",
                            challenge=header, error=code)
        how = self._access.replace(reply.token, challenge, headers, exchange, refresh=False, more=True, address=reply.address,
                                   since=self._since)
        return self._did("stepped up" if how == "obtained" else how)

    def _did(self, what: str) -> bool:
        self._done.add(what)
        return what != "adopted" or self._again()

    def _again(self) -> bool:
        self._repeats += 1
        return self._repeats <= _REPEATS
