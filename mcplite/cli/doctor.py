"""The command ``doctor``: walk a server behind a URL step by step, and say in words what is wrong with it.

The steps are those of a client: reach it, be refused without a token, find its metadata and that of its authorization servers,
register, log in, call, refresh. :mod:`.metadata_review` is the part of the metadata; :mod:`.doctor_rules` says of each finding
which rule it breaks and what clients make of it. Registration and login change something at the server, so each has an option.
"""

import argparse
import json
import socket
import ssl
import sys
import time
from typing import Any, Callable, List, Mapping, Optional

from ..auth.login.code_flow import OAuth, client_metadata, register
from ..auth.login.discovery import AuthorizationServer, ProtectedResource
from ..auth.login.stores import MemoryStore, Store
from ..auth.login.user_agent import NoUserAgent, UserAgent
from ..auth.login.web import Web
from ..errors import AuthError, MCPError
from ..net.exchange import Exchange, Reply
from ..net.origin_client import OriginClient
from ..net.settings import TLS, HTTPSettings, merged_settings, proxy_for
from ..protocol.error_text import one_line, shown, worded
from ..protocol.http.headers import POST_HEADERS
from ..protocol.http.oauth import is_loopback, origin_of
from ..revisions import DEFAULT_HTTP, NEWEST_LEGACY, REVISIONS
from ..rpc.deadline import Deadline
from ..rpc.stdio.descriptors import is_terminal
from ..version import __version__
from .doctor_rules import RULES, SEVERITIES, Finding
from .metadata_review import MetadataReview
from .parser import NAMES, UsageError, parse_header
from .printing import as_json, clean_line, wrapped

__all__ = ["HELP", "add_arguments", "examine", "run"]

#: Seconds that one request of the doctor's own may take, and seconds after which a wait checks that limit.
_SECONDS, _SLICE_SECONDS = 30.0, 0.25
#: A certificate that ends within this many days is reported.
_CERTIFICATE_DAYS = 21
_REDIRECT_URI = "http://127.0.0.1/callback"


class _Walk:
    """One walk through a server.

    :param found: called with each finding, as soon as it is known.
    :param agent: how the user is asked to log in; None to choose it by the options.
    :param store: where the login is kept; None to keep it in memory only.
    """

    def __init__(self, url: str, options: argparse.Namespace, found: Callable[[Finding], object],
                 agent: Optional[UserAgent] = None, store: Optional[Store] = None) -> None:
        self.url, self._options, self._found = url, options, found
        self._agent = agent
        self._store = MemoryStore() if store is None else store
        self._step = ""
        self._settings = HTTPSettings(headers=dict(map(parse_header, options.header)) or None)
        self._given_token = any(name.lower() == "authorization" for name in self._settings.headers or {})

    def begin(self, step: str) -> None:
        self._step = step

    def say(self, text: str, code: str = "") -> None:
        self._found(Finding(self._step, code, one_line(text, 600)))

    def go(self) -> None:
        """Take the steps in order. If a step fails, the steps that need its result are left out."""
        self._step = "connection"
        if not self._connection():
            return
        self._step = "server"
        reply = self._ask({})
        if reply is None:
            return
        if reply.status == 401 and not self._given_token:
            self.say("initialize without a token was answered with 401")
            self._bad_token()
            resource, server = MetadataReview(self.url, self.begin, self.say).read(reply)
            if server is not None:
                self._change(resource, server)
            return
        if self._answered(reply):
            self._revisions(None)

    # --- connection and server --------------------------------------------------------------------------------

    def _connection(self) -> bool:
        import requests

        scheme, host, port = origin_of(self.url)
        if scheme == "http" and not is_loopback(host):
            self.say(f"{shown(self.url)} has no https", "not-https")
        with requests.Session() as session:
            merged = merged_settings(self.url, HTTPSettings(), True, session)
        if proxy_for(self.url, merged) is not None:
            self.say(f"{host} is reached through a proxy, so that its name and certificate are not looked at")
            return True
        try:
            addresses = list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM)))
        except OSError as error:
            self.say(f"the name {host} is not known: {error.strerror or error}", "unreachable")
            return False
        if scheme == "http":
            self.say(f"{host} is at {', '.join(addresses[:4])}")
            return True
        try:
            with socket.create_connection((host, port), _SECONDS) as plain, \
                    TLS(merged["verify"], merged["cert"]).begin(plain, host) as secure:
                certificate = secure.getpeercert() or {}
        except ssl.SSLCertVerificationError as error:
            self.say(f"the certificate of {host} is not accepted: {error.verify_message}", "certificate")
            return False
        except OSError as error:
            self.say(f"{host}, port {port}, cannot be reached: {error.strerror or error}", "unreachable")
            return False
        end = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
        days = (end - time.time()) / 86_400
        text = f"{host} is at {', '.join(addresses[:4])}; its certificate is valid until {_day(end)}"
        self.say(text, "certificate-ends" if days < _CERTIFICATE_DAYS else "")
        return True

    def _ask(self, headers: Mapping[str, str]) -> Optional[Reply]:
        """Return the answer to an ``initialize``; None if none came."""
        deadline = Deadline(_SECONDS)

        def next_timeout() -> float:
            if deadline.expired:
                raise AuthError(f"{shown(self.url)} did not answer within {_SECONDS:g} s")
            return _SLICE_SECONDS

        try:
            client, exchange = OriginClient(self.url, self._settings), Exchange(next_timeout, deadline.remaining)
            exchange.records_address = True
            try:
                reply = client.send_once(exchange, "POST", None, {**POST_HEADERS, **headers}, _initialize())
                reply.close()
                session = reply.headers.get("mcp-session-id")
                if session:  # the session is not needed any more
                    client.send_once(exchange, "DELETE", None, {**headers, "Mcp-Session-Id": session}).close()
                return reply
            finally:
                client.close()
        except MCPError as error:
            self.say(worded(error, NAMES), "unreachable")
            return None

    def _answered(self, reply: Reply) -> bool:
        """Report an answer to ``initialize`` after which no login is tried; return whether the server may work."""
        came = f"initialize was answered with {reply.status}{f' {reply.kind}' if reply.kind else ''}"
        if 300 <= reply.status < 400:
            self.say(f"{came}, and leads to {reply.headers.get('location', 'nowhere')}", "redirects")
        elif reply.status in (404, 405):
            self.say(came, "not-found")
            return False
        elif reply.status == 403:
            self.say(came, "forbidden-without-token")
            return False
        elif reply.status == 401:
            self.say(f"{came}, with the Authorization header that was given", "token-refused")
            return False
        elif reply.status == 200 and reply.kind not in ("application/json", "text/event-stream"):
            self.say(came, "no-mcp")
            return False
        elif reply.status >= 400 and reply.kind != "application/json":
            self.say(came, "no-mcp")
            return False
        else:
            self.say(f"{came}; it needs no token" if not self._given_token else came)
        return True

    def _bad_token(self) -> None:
        reply = self._ask({"Authorization": "Bearer not-a-token-of-this-server"})
        if reply is None:
            return
        came = f"a token that is not valid was answered with {reply.status}"
        if reply.status < 300:
            self.say(came, "any-token")
        elif reply.status != 401:
            self.say(came, "bad-token-status")
        elif "invalid_token" not in reply.headers.get("www-authenticate", ""):
            self.say(f"{came}, without error=\"invalid_token\"", "bad-token-error")

    # --- what changes something at the server -----------------------------------------------------------------

    def _change(self, resource: Optional[ProtectedResource], server: AuthorizationServer) -> None:
        if self._options.register:
            self._step = "registration"
            self._register(server, resource)
        if self._options.login:
            self._step = "login"
            self._log_in()

    def _register(self, server: AuthorizationServer, resource: Optional[ProtectedResource]) -> None:
        if not _agreed(f"Register a client with {server.issuer}? It stays there. [y/N] "):
            self.say("nothing was registered, as you have not agreed")
            return
        metadata = client_metadata("mcplite doctor", [_REDIRECT_URI])
        try:
            with Web(self.url, HTTPSettings()) as web:
                client = register(web, server, metadata, MemoryStore())
        except AuthError as error:
            self.say(worded(error, NAMES), "register-refused")
            return
        self.say(f"a client was registered, {client.client_id}, which authenticates by {client.method}")

    def _log_in(self) -> None:
        from .login import choose_agent

        store = self._store
        grant = OAuth(store=store, timeout=self._options.timeout,
                      ask=self._agent or choose_agent(browser=not self._options.no_browser, command=True))
        try:
            credentials = grant.login(self.url)
        except MCPError as error:
            self.say(worded(error, NAMES), "login-failed")
            return
        scopes = f", with the scopes {' '.join(credentials.scopes)}" if credentials.scopes else ""
        self.say(f"{credentials.issuer} gave a token to {credentials.client.client_id}{scopes}")
        self._step = "server with the token"
        token = credentials.access_token
        altered = token[:-1] + ("A" if token[-1:] != "A" else "B") if credentials.scheme == "Bearer" else ""
        # The last character of a signature can have bits that do not count, so an earlier one is changed, too.
        altered = altered[:-5] + ("a" if altered[-5:-4] != "a" else "b") + altered[-4:] if len(altered) > 5 else ""
        reply = self._ask({"Authorization": f"Bearer {altered}"}) if altered else None
        if reply is not None and reply.status < 300:
            self.say(f"a token with two other characters was answered with {reply.status}", "altered-token")
        self._revisions(grant)
        self._step = "refresh"
        if credentials.refresh_token is None:
            self.say(f"{credentials.issuer} gave no refresh token", "no-refresh")
            return
        key = grant.tokens_for(self.url).key
        kept = store.load(key) or {}
        store.save(key, {**kept, "expires_at": 1.0})
        try:
            refreshed = OAuth(store=store, ask=NoUserAgent(), issuer=credentials.issuer).token(self.url)
        except MCPError as error:
            refreshed = None
            self.say(worded(error, NAMES), "refresh-failed")
        else:
            if refreshed is None:
                self.say(f"{credentials.issuer} has refused the refresh token that it gave a moment ago", "refresh-failed")
            else:
                self.say("the refresh token got another access token")
        if refreshed is None:
            store.save(key, kept)  # the old login as it was: its access token is valid until it expires

    def _revisions(self, auth: Any) -> None:
        """Say which revisions the server speaks, and what it offers."""
        from ..client import connect

        spoken, problem = [], ""
        headers = {} if auth is not None else dict(self._settings.headers or {})
        for revision in REVISIONS:
            if revision.rank < DEFAULT_HTTP.rank:
                continue  # this revision has another transport
            try:
                with connect(self.url, revision=revision.name, timeout=_SECONDS, auth=auth, headers=headers) as client:
                    tools = len(client.list_tools()) if client.server_capabilities.tools is not None else 0
                    name = client.server_info.display_name
                    spoken.append(revision.name)
            except AuthError as error:
                self.say(worded(error, NAMES), "token-refused")
                return
            except MCPError as error:
                problem = problem or worded(error, NAMES)
        if spoken:
            self.say(f"{name} speaks {', '.join(spoken)}, and has {tools} tool{'' if tools == 1 else 's'}")
        else:
            self.say(problem, "no-revision")


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _initialize() -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": NEWEST_LEGACY.name, "capabilities": {}, "clientInfo": {"name": "doctor", "version": __version__}}}
                      ).encode("ascii")


def _agreed(question: str) -> bool:
    """Ask the user at a terminal, and return whether they agree. Without a terminal, the option ``--register`` is enough."""
    if not is_terminal(sys.stdin):
        return True
    print(clean_line(question), end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def examine(url: str, options: argparse.Namespace, found: Callable[[Finding], object], agent: Optional[UserAgent] = None,
            store: Optional[Store] = None) -> List[Finding]:
    """Walk the server at a URL; return all findings.

    :param options: those of the command.
    :param found: called with each finding as soon as it is known.
    :param agent: how the user is asked to log in; None to choose it by the options.
    :param store: where the login is kept; None to keep it in memory only.
    :raises UsageError: *url* is not a URL.
    """
    try:
        origin_of(url)
    except ValueError as error:
        raise UsageError(f"doctor: {error}; a server that is started here has no steps to walk, list it instead") from error
    findings: List[Finding] = []

    def note(finding: Finding) -> None:
        findings.append(finding)
        found(finding)

    _Walk(url, options, note, agent, store).go()
    return findings


HELP = """\
URL is that of an MCP server. The doctor connects, asks without a token, and reads the metadata of the server
and of its authorization servers. For each finding it says what came, the rule, and what mcplite and the
official SDKs for Python and TypeScript make of it. Nothing changes at the server, but with
--register, which registers a client after asking you, and
--login, which logs you in with a browser, calls, and refreshes the token; the login is not stored.

examples:
  %(prog)s doctor https://example.com/mcp
  %(prog)s doctor https://example.com/mcp --login --no-browser
  %(prog)s doctor https://example.com/mcp --json --fail-on warning
  %(prog)s doctor https://example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

exit status: 0 no finding as grave as --fail-on, 1 one or more, 2 wrong usage.
"""


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of the command to its parser."""
    one.add_argument("--register", action="store_true", help="register a client as well, after asking you")
    one.add_argument("--login", action="store_true", help="log in as well, call, and refresh the token")
    one.add_argument("--no-browser", action="store_true",
                     help="with --login: print the URL to visit, and read the URL that the browser ended at")
    one.add_argument("--header", action="append", default=[], metavar="'NAME: VALUE'",
                     help="sent with every request to the server; ${VAR} is a variable of the environment; repeatable")
    one.add_argument("--fail-on", choices=["error", "warning", "note"], default="error",
                     help="the least grave finding that makes the exit status 1; default error")
    one.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="time limit of the login; default 300")
    one.add_argument("--json", action="store_true", help="print all findings as JSON")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Run the command; return the exit status, 1 if a finding is as grave as ``--fail-on`` says.

    :raises UsageError: the word is not a URL.
    """
    url, step = words[0], ""

    def show(finding: Finding) -> None:
        nonlocal step
        if finding.step != step:
            step = finding.step
            print(clean_line(step))
        _print(finding)

    findings = examine(url, options, (lambda finding: None) if options.json else show)
    counts = {one: sum(finding.severity == one for finding in findings) for one in SEVERITIES[:-1]}
    if options.json:
        print(as_json({"url": shown(url), "findings": [finding.record() for finding in findings], "counts": counts}))
    else:
        print(", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items()))
    grave = SEVERITIES[:SEVERITIES.index(options.fail_on) + 1]
    return 1 if any(finding.severity in grave for finding in findings) else 0


def _print(finding: Finding) -> None:
    rule = RULES.get(finding.code)
    lines = wrapped(clean_line(finding.text), 100, 400)
    print(f"  {finding.severity:<8} {lines[0]}", flush=True)
    for line in lines[1:]:
        print(f"           {line}")
    if rule is None:
        return
    clients = [("mcplite", rule.mcplite), ("Python SDK", rule.python), ("TypeScript SDK", rule.typescript)]
    if rule.mcplite == rule.python == rule.typescript:
        clients = [("All clients", rule.mcplite)]
    for line in [*wrapped(rule.rule, 100), *(f"{name}: {text}" for name, text in clients if text)]:
        print(f"           {line}")
