"""Servers that issue their own tokens, and the people and clients who ask for them."""

import base64
import contextlib
import hashlib
import html
import re
import secrets
import threading
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import requests

import mcplite
from mcplite.auth import Issuer, User, Users

from .processes import free_port, listens, wait_until

REDIRECT = "http://127.0.0.1:3/callback"
ANN = User("ann", "Ann Example", "ann@example.com")
#: May not grant the scope "secret".
BOB = User("bob", scopes=frozenset({"notes"}))


class TestUsers(Users):
    """Users whose password is their subject, and whom a test can change."""

    __test__ = False

    def __init__(self, *users):
        self.known = {user.subject: user for user in users or (ANN, BOB)}
        self.away = False

    def check(self, name, password):
        if self.away:
            raise OSError("the directory is away")
        return self.known.get(name) if name == password else None

    def find(self, subject):
        if self.away:
            raise OSError("the directory is away")
        return self.known.get(subject)


def server_with(auth, name="notes"):
    """Return a server with a tool for all who have logged in, and one with a scope of its own."""
    mcp = mcplite.Server(name, auth=auth)

    @mcp.tool()
    def hello(ctx: mcplite.Context) -> str:
        principal = ctx.principal
        return f"{principal.subject} {principal.claims.get('email', '')} {' '.join(sorted(principal.scopes))}"

    @mcp.tool(scopes="secret")
    def secret() -> str:
        return "42"

    return mcp


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        import time

        self.ahead = 0.0
        self._time = time.time

    def __call__(self):
        return self._time() + self.ahead


@contextlib.contextmanager
def serving(users=None, **options):
    """Serve such a server over HTTP; give its issuer, with ``url`` and ``endpoint``."""
    port = free_port()
    options.setdefault("scopes", "notes")
    if "upstream" not in options:
        options["users"] = TestUsers() if users is None else users
    issuer = Issuer(f"http://127.0.0.1:{port}", **options)
    with mcplite.serve(server_with(issuer), port=port) as server:
        issuer.endpoint = server.url
        yield issuer
    issuer.close()


class _Browser(requests.Session):
    """Keeps no connection, so that none stays open when a test ends."""

    def send(self, *request, **options):
        response = super().send(*request, **options)
        pools = self.get_adapter(response.url).poolmanager.pools
        for key in pools.keys():  # closing the session leaves those open that a response still refers to
            pools[key].close()
        pools.clear()
        return response


class Person:
    """A person at a browser without scripts, who logs in and agrees.

    :param decision: at the consent page.
    """

    def __init__(self, name="ann", password=None, decision="allow"):
        self.name, self.password, self.decision = name, name if password is None else password, decision
        self.browser = _Browser()
        self.browser.trust_env = False
        self.pages = []

    @property
    def forms(self):
        """How many forms were shown."""
        return sum("<form" in page.text for page in self.pages)

    def get(self, url):
        return self._noted(self.browser.get(url, allow_redirects=False, timeout=30))

    def _noted(self, page):
        self.pages.append(page)
        return page

    def submit(self, page, **fields):
        """Post the form of a page."""
        form = {html.unescape(name): html.unescape(value) for name, value in
                re.findall(r'<input[^>]* name="([^"]*)"[^>]* value="([^"]*)"', page.text)}
        form.update(fields)
        action = html.unescape(re.search(r'<form[^>]* action="([^"]*)"', page.text)[1])
        return self._noted(self.browser.post(
            urljoin(page.url, action), form, allow_redirects=False, timeout=30,
            headers={"Origin": "{0.scheme}://{0.netloc}".format(urlsplit(page.url))}))

    def visit(self, url, stop_at=None):
        """Go through the pages from a URL on; return where the client is told the outcome, or the last page.

        :param stop_at: what is not opened, without a query: where the client waits, or another page of the way there.
        """
        self.stop_at = stop_at or self.stop_at
        page = self.get(url)
        for _ in range(10):
            if page.is_redirect:
                url = urljoin(page.url, page.headers["location"])
                known = urlsplit(url)._replace(query="").geturl()
                if known == self.stop_at or not url.startswith("http"):
                    return url
                page = self.get(url)
            elif 'name="password"' in page.text and page.status_code == 200:
                page = self.submit(page, username=self.name, password=self.password)
            elif page.status_code == 200 and ('value="allow"' in page.text or urlsplit(page.url).path == "/grants"):
                page = self.submit(page, decision=self.decision)
            else:
                return page
        raise AssertionError("the pages lead in a circle")

    stop_at = REDIRECT

    def follow(self, url):
        """Visit a URL of ``/authorize``; return where the client is told the outcome, which is not opened."""
        return self.visit(url, urlsplit(parse_qs(urlsplit(url).query)["redirect_uri"][0])._replace(query="").geturl())

    def __call__(self, url):
        """Log in as the browser of a client that waits at its redirect URI; return the thread that does."""
        def run():
            end = self.follow(url)
            if isinstance(end, str):
                wait_until(lambda: listens(urlsplit(end).port))  # some clients open the browser before they listen
                with contextlib.suppress(requests.ConnectionError):  # it has ended without an answer
                    requests.get(end, timeout=30)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


class RawClient:
    """A client as the documents describe it, each of whose requests a test can spoil."""

    def __init__(self, issuer, redirect_uri=REDIRECT, **metadata):
        self.url, self.redirect_uri = issuer.url, redirect_uri
        self.issuer = issuer
        answer = self.register(**{"redirect_uris": [redirect_uri], "token_endpoint_auth_method": "none",
                                  "grant_types": ["authorization_code", "refresh_token"], **metadata})
        assert answer.status_code == 201, answer.text
        self.id, self.secret = answer.json()["client_id"], answer.json().get("client_secret")
        self.verifier = secrets.token_urlsafe(48)

    def register(self, **metadata):
        return requests.post(f"{self.url}/register", json=metadata, timeout=30)

    def request(self, **changed):
        """Return the parameters of a request for a code; a parameter that is None is left out."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")
        asked = {"response_type": "code", "client_id": self.id, "redirect_uri": self.redirect_uri, "state": "st4te",
                 "code_challenge": challenge, "code_challenge_method": "S256", **changed}
        return f"{self.url}/authorize?" + urlencode({name: value for name, value in asked.items() if value is not None})

    def code(self, person=None, **changed):
        """Return the parameters of the redirect after a login."""
        person = person or Person()
        person.stop_at = urlsplit(changed.get("redirect_uri") or self.redirect_uri)._replace(query="").geturl()
        end = person.visit(self.request(**changed))
        assert isinstance(end, str), end.text
        return {name: value for name, (value,) in parse_qs(urlsplit(end).query).items()}

    def redeem(self, code, **changed):
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.redirect_uri, "client_id": self.id,
                "code_verifier": self.verifier, "client_secret": self.secret, **changed}
        return self.post("/token", **form)

    def refresh(self, token, **changed):
        return self.post("/token", **{"grant_type": "refresh_token", "refresh_token": token, "client_id": self.id,
                                      "client_secret": self.secret, **changed})

    def post(self, path, **form):
        auth = form.pop("auth", None)
        return requests.post(self.url + path, {name: value for name, value in form.items() if value is not None}, auth=auth,
                             timeout=30)

    def tokens(self, person=None, **changed):
        return self.redeem(self.code(person, **changed)["code"]).json()

    def call(self, token, tool="hello"):
        """Return the status and text of a call with an access token."""
        try:
            with mcplite.connect(self.issuer.endpoint, auth=mcplite.Bearer(token)) as client:
                return client.call_tool(tool).text
        except mcplite.errors.AuthError as error:
            return error.error or "refused"
