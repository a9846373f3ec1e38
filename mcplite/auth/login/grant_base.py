"""The base of all grants, the ways to obtain tokens (``connect(..., auth=)`` takes any of them), and the token of each server.

A :class:`Grant` keeps one :class:`ServerTokens` for each MCP server, which all threads of all its clients share: it is the
token source of an :class:`~mcplite.net.origin_client.OriginClient`. It loads, refreshes and keeps the token, and has the grant
obtain another for a :class:`TokenRequest`. One thread of all processes obtains it; the others wait, and share its failure.
:class:`TokenRecovery` serves one request: it decides from each refusal whether to refresh the token, to obtain another or to
give up.

``login``, ``logout`` and ``token`` of the command line use a grant without an MCP client, so the probe that shows whether a
server requires a token stands here too.
"""

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ...errors import AuthError, TransportError
from ...net.exchange import Exchange, Reply, Stopped
from ...net.origin_client import OriginClient
from ...net.settings import HTTPSettings, Recovery, TokenProvider, TokenSource, Verify
from ...protocol.error_text import OptionText, shown
from ...protocol.http.headers import POST_HEADERS
from ...protocol.http.oauth import Challenge, canonical, check_url, find_challenge, parse_challenges
from ...revisions import NEWEST_LEGACY
from ...rpc.deadline import Deadline
from ...rpc.tracing import get_logger
from .discovery import (
    AuthorizationServer,
    LoginHistory,
    ProtectedResource,
    choose_issuer,
    choose_scopes,
    find_resource,
    find_server,
    same_issuer,
)
from .jwt_signing import Proofs, SigningKey
from .stores import MemoryStore, Store
from .token_endpoint import ClientIdentity, Credentials, TokenEndpoint, client_unknown, ends_login
from .web import Web

__all__ = ["Grant", "ServerTokens", "TokenRequest", "find_authorization"]

_log = get_logger(__name__)


@dataclass
class TokenRequest:
    """The description of one request for a token."""

    web: Web
    resource: ProtectedResource
    issuer_server: AuthorizationServer
    scopes: List[str]
    #: Makes the proofs of possession that the token is bound to; None for a bearer token.
    proofs: Optional[Proofs]
    #: To be called at least every quarter of a second; raises when the caller no longer waits for the token.
    check: Callable[[], object]
    #: The client that a user was asked for; None before that.
    client: Optional[ClientIdentity] = None
    #: Set when a user has agreed; a failure from then on is not a refusal of the user's.
    user_agreed: bool = False


#: Seconds that a thread blocks at most before it checks whether its caller still waits.
_SLICE_SECONDS = 0.25
#: Seconds that another process may take for a login or a refresh: twice what a user has by default.
_MOST_SECONDS = 600.0


#: How often one request is sent again because another thread has obtained a token, or for a nonce.
_MOST_REPEATS = 3


@dataclass(frozen=True)
class TokenRefusal:
    """A response that refuses a request, and what it says about the token that it wants."""

    #: The token that was refused; None for a request without.
    token: Optional[str] = field(default=None, repr=False)
    challenge: Optional[Challenge] = None
    #: Of the request, which may name the protocol's version.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: Where the server was met, if it is known.
    address: Optional[str] = None
    #: How many attempts had failed when the request began; later failures are its own as well.
    failures: Optional[int] = None

    @property
    def scopes(self) -> List[str]:
        """The scopes that the challenge names."""
        return list((self.challenge and self.challenge.scopes) or ())


class ServerTokens(TokenSource):
    """The token for one MCP server.

    :param grant: how tokens are obtained.
    :param url: of the server's endpoint.
    :param settings: how the authorization servers are reached.
    :raises ValueError: a token would travel in the clear to that URL.
    """

    def __init__(self, grant: "Grant", url: str, settings: HTTPSettings) -> None:
        self._grant = grant
        self.url = check_url(url.partition("#")[0], "the MCP server")
        self.name = shown(self.url)
        self.key = f"token {canonical(self.url)}"
        #: Those of the client that was opened last.
        self.settings = settings
        #: Held by the thread that obtains a token, also while it asks a user; the others wait for it in slices. The lock of the
        #: store keeps other processes out.
        self._lock = threading.Lock()
        #: The process whose threads hold the lock.
        self._process = os.getpid()
        #: How many attempts to obtain a token have failed, and the last one since there was a token: its aim, and its error.
        #: They change under the lock, and are read without it.
        self.failures = 0
        self._failure: Optional[Tuple[object, Exception]] = None
        self.history = LoginHistory(self.name)
        #: Why the last login has ended, until an error has said so; used under the token lock.
        self._ended = ""
        #: The four below change under the token lock; they are read without it. ``issuer_server`` is the one used last.
        self._current: Optional[Credentials] = None
        self._loaded = False
        self.issuer_server: Optional[AuthorizationServer] = None
        self._proofs: Optional[Proofs] = None

    @property
    def schemes(self) -> Tuple[str, ...]:
        """The authentication schemes whose challenges are read, the preferred one first."""
        return ("dpop", "bearer") if self._grant.dpop else ("bearer", "dpop")

    def new_recovery(self) -> Recovery:
        return TokenRecovery(self)

    def _web(self, exchange: Exchange, address: Optional[str] = None) -> Web:
        return Web(self.url, self.settings, address=address, given=self._grant.given_urls, check=exchange.next_timeout)

    # --- each request -----------------------------------------------------------------------------------

    def authorization_headers(self, method: str, url: str, exchange: Exchange) -> Tuple[Optional[str], Dict[str, str]]:
        current = self._current
        if current is None and not self._loaded:
            current = self._load()
        if current is not None and current.expired and current.refresh_token is not None:
            current = self._refresh_expired(current, exchange)
        if current is None:
            return None, {}
        headers = {"Authorization": f"{current.scheme} {current.access_token}"}
        proofs = self._proofs_for(current)
        if current.scheme == "DPoP" and proofs is not None:
            headers["DPoP"] = proofs.proof(method, url, current.access_token)
        return current.access_token, headers

    def token(self, exchange: Exchange) -> Optional[str]:
        """Return the token as it would be sent now; None when there is no valid one.

        :raises AuthError: it has expired and could not be replaced.
        """
        self.authorization_headers("POST", self.url, exchange)
        current = self._current
        return None if current is None or current.expired else current.access_token

    def on_response(self, url: str, headers: Mapping[str, str], accepted: bool) -> None:
        if accepted:
            self.history.on_token_accepted()
        if self._proofs is not None:
            self._proofs.learn(url, headers)

    # --- the store --------------------------------------------------------------------------------------

    def _load(self) -> Optional[Credentials]:
        current = Credentials.read(self._grant.store.load(self.key))
        if current is not None and not self._grant.accepts(current):
            current = None
        self._current, self._loaded = current, True
        return current

    def _save(self, credentials: Credentials) -> Credentials:
        # Before it is used: a refresh token that the server has rotated must not be lost (AUTH-34).
        self._grant.store.save(self.key, credentials.record())
        self._current, self._loaded, self._ended = credentials, True, ""
        self._failure = None
        return credentials

    def _proofs_for(self, current: Optional[Credentials]) -> Optional[Proofs]:
        """Return what proves the possession of a token's key; a new key's when there is no token."""
        pem = None if current is None else current.key
        if pem is None and not self._grant.dpop:
            return None
        proofs = self._proofs
        if proofs is None or (pem is not None and proofs.key.pem != pem):
            proofs = self._proofs = Proofs(SigningKey.generate() if pem is None else SigningKey.load(pem))
        return proofs

    # --- a new token ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _hold(self, exchange: Exchange, aim: object = None, since: Optional[int] = None) -> Iterator[None]:
        """Wait for the right to obtain a token, and hold it for the block.

        :param aim: what the token is for. Threads that wait for the same one fail together; None is any token.
        :param since: the value of :attr:`failures` that the caller knows of; by default the present one.
        :raises AuthError: an attempt with the same aim has failed meanwhile; each thread would ask the user again (AUTH-46).
        :raises Stopped: the caller no longer waits.
        """
        failures = self.failures if since is None else since
        if not exchange.may_log_in:
            aim = exchange  # its failure is its own: others may ask a user
        with contextlib.ExitStack() as waiting:
            waiting.enter_context(exchange.paused())  # another thread may be asking a person
            if self._process != os.getpid():  # in a process that was forked during a login, no thread would release it
                self._lock, self._process = threading.Lock(), os.getpid()
            lock = self._lock
            while not lock.acquire(timeout=_SLICE_SECONDS):
                exchange.next_timeout()
            try:
                failure = self._failure
                if self.failures != failures and failure is not None and failure[0] == aim:
                    raise AuthError(str(failure[1]), error=getattr(failure[1], "error", ""),
                                    status=getattr(failure[1], "status", 0)) from failure[1]
                end = time.monotonic() + _MOST_SECONDS

                def check() -> None:
                    exchange.next_timeout()
                    if time.monotonic() > end:
                        raise AuthError(f"another process has been getting a token for {self.name} for {_MOST_SECONDS:g} s;"
                                        " look for one that is stopped, or in the middle of a login")

                try:
                    with self._grant.store.lock(self.key, check):
                        waiting.close()  # From here on the call's clock runs again.
                        yield
                except Stopped:
                    raise  # the next thread takes over
                except Exception as error:  # a store's or a user agent's own as well
                    self.failures, self._failure = self.failures + 1, (aim, error)
                    raise
            finally:
                lock.release()

    def _refresh_expired(self, old: Credentials, exchange: Exchange) -> Optional[Credentials]:
        """Return a token in place of one that has expired; the old one when its refresh token was refused for good."""
        with self._hold(exchange):
            current = self._load()
            if current is None or current.access_token != old.access_token or current.refresh_token is None:
                return current
            with self._web(exchange) as web:
                issuer_server = self.issuer_server
                if issuer_server is None or issuer_server.issuer != current.issuer:
                    issuer_server = find_server(web, current.issuer, current.described, {})
                try:
                    new = TokenEndpoint(web, issuer_server, self._proofs_for(current), self._grant.signing_key).refresh(current)
                except AuthError as error:
                    self.issuer_server = None  # it may have moved (AUC-55)
                    return self._drop_refresh_token(current, error)
                self.issuer_server = issuer_server
                return self._save(new)

    def _drop_refresh_token(self, current: Credentials, error: AuthError) -> Credentials:
        """Note that a token cannot be refreshed any more, so that it is not tried again.

        :raises AuthError: the error itself, if a refresh may succeed later.
        """
        if not ends_login(error):
            raise error
        _log.info("the login at %s has ended: %s", current.issuer, error)
        if client_unknown(error):
            self._grant.on_client_unknown(current.client)
        current.refresh_token = None
        self._save(current)
        self._ended = f"the login at {current.issuer} has ended ({error})"
        return current

    def renew(self, refusal: TokenRefusal, exchange: Exchange, *, may_refresh: bool, step_up: bool = False) -> str:
        """Get a token in place of the refused one.

        :param may_refresh: whether a refresh may help, or only a new token.
        :param step_up: whether the token is refused for its scopes alone.
        :returns: "adopted" when another thread or process has obtained one meanwhile, "refreshed" or "obtained".
        :raises AuthError: no token could be obtained.
        :raises Stopped: the caller no longer waits.
        """
        aim = frozenset(refusal.scopes) if step_up else None
        with self._hold(exchange, aim, refusal.failures):
            current = self._load()
            if current is not None and current.access_token != refusal.token:
                return "adopted"
            with self._web(exchange, refusal.address) as web:
                try:
                    how, credentials = self._obtain(web, current, refusal, exchange, may_refresh, step_up)
                except AuthError as error:
                    ended, self._ended = self._ended, ""
                    if not ended:
                        raise
                    raise AuthError(OptionText(f"{ended}: ", error.args[0]), challenge=error.challenge,
                                    error=error.error, status=error.status) from error
                self._save(credentials)
            return how

    def log_in(self, challenge: Optional[Challenge], exchange: Exchange, address: Optional[str] = None) -> Credentials:
        """Obtain a token from the beginning, whatever is stored.

        :param address: where the server was met, if it is known.
        :raises AuthError: no token could be obtained.
        """
        with self._hold(exchange), self._web(exchange, address) as web:
            self.history.clear()
            return self._save(self._obtain(web, None, TokenRefusal(challenge=challenge), exchange, False, False)[1])

    def forget(self, exchange: Exchange) -> bool:
        """Drop the credentials, and have the authorization server revoke them (AUTH-50).

        :returns: whether there were any.
        :raises AuthError: they could not be revoked; they are dropped all the same.
        """
        with self._hold(exchange, exchange):
            current = self._load()
            self._grant.store.delete(self.key)
            self._current = None
            if current is None:
                return False
            with self._web(exchange) as web:
                self.issuer_server = find_server(web, current.issuer, current.described, {})
                try:
                    TokenEndpoint(web, self.issuer_server, None, self._grant.signing_key).revoke(current)
                except AuthError as error:
                    if client_unknown(error):
                        self._grant.on_client_unknown(current.client)
                    raise
            return True

    def _obtain(self, web: Web, current: Optional[Credentials], refusal: TokenRefusal, exchange: Exchange, may_refresh: bool,
                step_up: bool) -> Tuple[str, Credentials]:
        """Find the authorization server, and get a token from it: by a refresh if that is possible, else by the grant."""
        grant = self._grant
        versions = {"MCP-Protocol-Version": refusal.headers.get("MCP-Protocol-Version") or NEWEST_LEGACY.name}  # AUM-03
        resource = find_resource(web, self.url, refusal.challenge, versions)
        issuer = choose_issuer(resource, grant.issuer, None if current is None else current.issuer)
        issuer_server = self.issuer_server = find_server(web, issuer, resource.described, versions)
        if current is not None and (current.issuer != issuer_server.issuer or current.resource != resource.resource):
            # AUC-33: credentials of one authorization server are never shown to another.
            _log.info("%s asks for tokens of %s now; those of %s are dropped", self.name, issuer_server.issuer, current.issuer)
            grant.store.delete(self.key)
            current = None
        proofs = self._proofs_for(current)
        if may_refresh and current is not None and current.refresh_token is not None:
            try:
                return "refreshed", TokenEndpoint(web, issuer_server, proofs, grant.signing_key).refresh(current)
            except AuthError as error:
                self._drop_refresh_token(current, error)
        if grant.interactive:
            self._check_login(exchange, resource.resource, issuer_server.issuer, step_up)
        granted = [] if current is None else current.scopes
        scopes = choose_scopes(refusal.challenge, resource, issuer_server, grant.scopes, granted, grant.interactive)
        if step_up:
            self.history.on_step_up(scopes, refusal.challenge)
        request = TokenRequest(web, resource, issuer_server, scopes, proofs, exchange.next_timeout)
        counts = False  # whether the step up is one that was granted or refused
        try:
            with exchange.paused() if grant.interactive else contextlib.nullcontext():
                obtained = grant.obtain(request)
            counts = True
        except AuthError:
            counts = not request.user_agreed
            raise
        finally:
            if not counts:
                self.history.forget_step_up(scopes)
        return "obtained", obtained

    def _check_login(self, exchange: Exchange, resource: str, issuer: str, step_up: bool) -> None:
        """Return when a user may be asked to log in.

        :raises AuthError: the request is not worth a login, or logins have not helped lately (AUTH-48).
        """
        if not exchange.may_log_in:
            raise AuthError(f"{self.name} requires a login, but this request runs in the background and asks no user for one")
        if not step_up and self.history.useless:
            raise AuthError(f"{self.name} does not accept the token that a login has just given, so that the user is not asked"
                            f" again so soon; its operator has to see why it refuses tokens of {issuer} for {resource}")

    def insufficient_reason(self, refusal: TokenRefusal) -> Optional[str]:
        """Return why it is useless to ask for more scopes than the refused token has; None when it may help."""
        current, challenge = self._current, refusal.challenge
        if not self._grant.interactive:
            return "there is no user to ask for more; what is needed later has to be named in scopes="
        if challenge is None or challenge.scopes is None:
            return "it does not say which"
        if self.history.exhausted:
            return "to ask for more has not helped several times"
        if current is not None and current.access_token == refusal.token and set(challenge.scopes) <= set(current.scopes):
            return "all of them were granted"
        return None


class TokenRecovery(Recovery):
    """The recovery of one request from 401 and 403: remembers what was tried.

    :param tokens: of the server that refuses.
    """

    def __init__(self, tokens: ServerTokens) -> None:
        self._tokens = tokens
        self._failures = tokens.failures
        #: What was done for this request: "adopted", "refreshed", "obtained", "stepped up".
        self._done: Set[str] = set()
        self._repeats = 0

    def recover(self, reply: Reply, headers: Mapping[str, str], exchange: Exchange) -> bool:
        header = reply.headers.get("www-authenticate") or ""
        challenge = find_challenge(parse_challenges(header), *self._tokens.schemes)
        code = None if challenge is None else challenge.get("error")
        if reply.status == 401 or code == "insufficient_scope":
            reply.excerpt()  # frees its connection for other requests, however long a login takes
        refusal = TokenRefusal(reply.token, challenge, headers, reply.address, self._failures)
        if reply.status == 401:
            if code == "use_dpop_nonce" and reply.headers.get("dpop-nonce"):
                return self._may_repeat()  # RFC 9449, section 9: the token itself is valid
            return self._renew(refusal, exchange)
        return code == "insufficient_scope" and self._step_up(refusal, header, exchange)

    def _renew(self, refusal: TokenRefusal, exchange: Exchange) -> bool:
        if "obtained" in self._done:
            self._tokens.history.on_token_refused()
            return False
        return self._record(self._tokens.renew(refusal, exchange, may_refresh="refreshed" not in self._done))

    def _step_up(self, refusal: TokenRefusal, header: str, exchange: Exchange) -> bool:
        if "stepped up" in self._done:
            self._tokens.history.on_insufficient()
            reason: Optional[str] = "more was granted just now"
        else:
            reason = self._tokens.insufficient_reason(refusal)
        if reason is not None:
            wanted = " ".join(refusal.scopes or ["not named"])
            raise AuthError(f"{self._tokens.name} refuses, because the token lacks scopes ({wanted}), and {reason}",
                            challenge=header, error="insufficient_scope")
        how = self._tokens.renew(refusal, exchange, may_refresh=False, step_up=True)
        return self._record("stepped up" if how == "obtained" else how)

    def _record(self, how: str) -> bool:
        """Record what was done; return whether to send the request again."""
        self._done.add(how)
        return how != "adopted" or self._may_repeat()

    def _may_repeat(self) -> bool:
        self._repeats += 1
        return self._repeats <= _MOST_REPEATS


#: Seconds for the request that finds out whether a server wants a token.
_PROBE_SECONDS = 30.0
#: Servers that one grant remembers, the one that was used last at the end (AUTH-45); the store has more.
_MOST_SERVERS = 1000
#: The request that shows whether a server requires a token.
_PING = b'{"jsonrpc":"2.0","id":0,"method":"ping"}'


class Grant(TokenProvider):
    """A way to get tokens; one object serves any number of servers and clients, from any thread.

    :param issuer: the only authorization server that is trusted; None for the one that the MCP server names.
    :param scopes: to ask for, besides those that the server's refusal names, and in place of those of its metadata; a list,
        or one text with blanks.
    :param store: where tokens are kept; by default in memory.
    :param dpop: binds tokens to a key of this client's (RFC 9449).
    :raises ValueError: an option cannot be used.
    """

    #: Whether a user takes part, so that more scopes can be asked for.
    interactive = False
    #: The key by which the client authenticates; None for a client with a secret, or without any.
    signing_key: Optional[SigningKey] = None

    def __init__(self, *, issuer: Optional[str] = None, scopes: Union[str, Sequence[str]] = (), store: Optional[Store] = None,
                 dpop: bool = False) -> None:
        if store is not None and (isinstance(store, type) or not hasattr(store, "lock")):
            raise ValueError(f"store= is a Store such as FileStore('tokens.json'), not {store!r:.100}")
        self.issuer = issuer
        self.scopes = scopes.split() if isinstance(scopes, str) else list(scopes)
        self.store = MemoryStore() if store is None else store
        self.dpop = dpop
        #: Guards ``_servers``; held for dictionary work.
        self._lock = threading.Lock()
        self._servers: Dict[str, ServerTokens] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{'' if self.issuer is None else f' at {self.issuer}'}>"

    def tokens_for(self, url: str, settings: HTTPSettings = HTTPSettings()) -> ServerTokens:
        """Return the token source of one server, which is the same for all of its clients.

        :param settings: how authorization servers are reached, from now on by all of those clients.
        :raises ValueError: a token would travel in the clear to that URL.
        """
        name = canonical(url)
        with self._lock:
            known = self._servers.pop(name) if name in self._servers else ServerTokens(self, url, settings)
            self._servers[name] = known
            if len(self._servers) > _MOST_SERVERS:
                del self._servers[next(iter(self._servers))]
            # The latest settings win: earlier ones may be outdated.
            known.settings = settings
            return known

    @property
    def given_urls(self) -> Sequence[str]:
        """The URLs that the caller has given, which no server has chosen."""
        return [self.issuer] if self.issuer else []

    def accepts(self, credentials: Credentials) -> bool:
        """Return whether stored credentials are such as this grant obtains."""
        return self.issuer is None or same_issuer(self.issuer, credentials.issuer)

    def obtain(self, request: TokenRequest) -> Credentials:
        """Obtain a token, from the beginning.

        ``OAuth`` (:mod:`.code_flow`) and each grant of :mod:`.service_grants` do it in their own way.

        :raises AuthError: no token could be obtained.
        """
        raise NotImplementedError

    def _request_token(self, request: TokenRequest, client: ClientIdentity, fields: Mapping[str, Optional[str]]) -> Credentials:
        """Ask the token endpoint for a token, with the form fields of this grant."""
        endpoint = TokenEndpoint(request.web, request.issuer_server, request.proofs, self.signing_key)
        return endpoint.request(client, request.resource.resource, fields, request.scopes, request.resource.described)

    def on_client_unknown(self, client: ClientIdentity) -> None:
        """Do nothing when an authorization server does not know a client any more: most are registered by hand."""

    # --- without an MCP client --------------------------------------------------------------------------

    def login(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> Credentials:
        """Obtain a token for a server now, whatever is stored; return it.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: no token could be obtained, or the server wants none.
        :raises TransportError: the server cannot be reached.
        """
        settings = HTTPSettings(verify=verify, proxies=proxies)
        tokens = self.tokens_for(url, settings)
        status, challenge, address = _probe(url, settings)
        # Some servers require a token for a few operations only; their metadata says that there is something to log in to.
        if status not in (401, 403) and not find_authorization(url, verify=verify, proxies=proxies).described:
            raise AuthError(f"{shown(url)} wants no authorization (it answered {status} to a request without)")
        return tokens.log_in(challenge, Exchange(lambda: _SLICE_SECONDS), address)

    def logout(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> bool:
        """Drop the tokens for a server, and have them revoked; return whether there were any.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: they are dropped, but could not be revoked.
        """
        return self.tokens_for(url, HTTPSettings(verify=verify, proxies=proxies)).forget(Exchange(lambda: _SLICE_SECONDS))

    def token(self, url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> Optional[str]:
        """Return the stored token for a server, refreshed if it has expired; None when there is no valid one.

        :param verify: as for :func:`connect`; so is *proxies*.
        :raises AuthError: it could not be refreshed.
        """
        return self.tokens_for(url, HTTPSettings(verify=verify, proxies=proxies)).token(Exchange(lambda: _SLICE_SECONDS))


def find_authorization(url: str, *, verify: Verify = None, proxies: Optional[Dict[str, str]] = None) -> ProtectedResource:
    """Return what the MCP server at *url* says of its authorization: its resource, its authorization servers, its scopes.

    For people who want to know which ``issuer=`` to trust; a program that trusts the result unseen gains nothing by it.

    :param verify: as for :func:`connect`; so is *proxies*.
    :raises AuthError: the server says nothing that can be used.
    :raises TransportError: it cannot be reached.
    """
    settings = HTTPSettings(verify=verify, proxies=proxies)
    _, challenge, address = _probe(url, settings)
    with Web(url, settings, address=address) as web:
        return find_resource(web, url, challenge, {})


def _probe(url: str, settings: HTTPSettings) -> Tuple[int, Optional[Challenge], Optional[str]]:
    """Return status and challenge of a server's answer to a request without a token, and the address that it came from.

    :raises TransportError: it cannot be reached, or does not answer.
    """
    deadline = Deadline(_PROBE_SECONDS)

    def next_timeout() -> float:
        if deadline.expired:
            raise TransportError(f"{shown(url)} did not answer within {_PROBE_SECONDS:g} s")
        return _SLICE_SECONDS

    client, exchange = OriginClient(url, settings), Exchange(next_timeout, deadline.remaining)
    exchange.records_address = True
    try:
        reply = client.send(exchange, "POST", None, POST_HEADERS, _PING)
        reply.close()
        challenges = parse_challenges(reply.headers.get("www-authenticate") or "")
        return reply.status, find_challenge(challenges, "dpop", "bearer"), reply.address
    finally:
        client.close()
