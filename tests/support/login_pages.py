"""The pages of an issuer as a browser reads them, one of each kind, and an authorizer that serves them."""

import http.client
import re
from html.parser import HTMLParser
from urllib.parse import urlencode

from mcplite.auth.issuer.account import AccountPage, PasswordLogin, UserGrants
from mcplite.auth.issuer.browser_sessions import BrowserSessions
from mcplite.auth.issuer.pages import ClientInfo, GrantInfo, Pages
from mcplite.auth.issuer.users import PasswordLimit, User
from mcplite.backend.memory import MemoryBackend
from mcplite.server.http.access import Authorizer
from mcplite.server.http.messages import HTTPResponse

PASSWORD = "correct horse"

DESK = ClientInfo("c-1", "Desk")
WEB = ClientInfo("https://app.example/client.json", "Web App", "app.example")
ANN = User("ann", "Ann Example")
SCOPES = [("notes:read", "Read your notes"), ("notes:write", "")]
LOOPBACK = "http://127.0.0.1:43121/callback"


class Page(HTMLParser):
    """A page as a browser reads it: its elements, and its text."""

    #: Elements without an end tag.
    VOID = {"meta", "link", "input"}

    def __init__(self, response):
        super().__init__()
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers}
        assert len(self.headers) == len(response.headers)
        self.elements = []
        self.source = response.content.decode("utf-8")
        self._open = []
        self._texts = []
        self.feed(self.source)
        self.close()
        assert self._open == []
        self.text = " ".join("".join(self._texts).split())

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open and "title" not in self._open:
            self._texts.append(data if self._open and self._open[-1] in ("strong", "span") else data + " ")

    def all(self, tag, **attributes):
        return [found for name, found in self.elements if name == tag and found.items() >= attributes.items()]

    def one(self, tag, **attributes):
        found, = self.all(tag, **attributes)
        return found

    @property
    def policy(self):
        return dict(part.strip().partition(" ")[::2] for part in self.headers["content-security-policy"].split(";"))


def login(pages, **options):
    return Page(pages.login(**{"action": "/authorize/login?t=1", "csrf": "token", "client": DESK, **options}))


def consent(pages, **options):
    return Page(pages.consent(**{"action": "/authorize/consent?t=1", "csrf": "token", "client": DESK, "user": ANN,
                                 "scopes": SCOPES, "redirect_uri": LOOPBACK, **options}))


def grants(pages, **options):
    some = [GrantInfo("g-1", DESK, ["notes:read", "notes:write"], 1.79e9, 1.795e9)]
    return Page(pages.grants(**{"action": "/grants", "csrf": "token", "user": ANN, "grants": some, **options}))


def logged_in(pages):
    return Page(pages.logged_in(action="/grants", csrf="token", user=ANN, grants="/grants"))


def provider(pages, **options):
    return Page(pages.provider(**{"action": "/account", "csrf": "token", "upstream": "GitHub", **options}))


def error(pages, title="Wrong link", text="It does not work."):
    return Page(pages.error(400, title, text))


ALL = [login, consent, grants, logged_in, provider, error]


class Grants(UserGrants):
    """The grants of all users, as pairs of user and grant."""

    def __init__(self):
        self.all = [("ann", GrantInfo("g-1", ClientInfo("c-1", "Desk"), ["read"], 1.79e9, 1.79e9)),
                    ("ann", GrantInfo("g-2", ClientInfo("c-2", "Phone"), [], 1.79e9, 1.79e9)),
                    ("bob", GrantInfo("g-3", ClientInfo("c-1", "Desk"), [], 1.79e9, 1.79e9))]

    @property
    def ids(self):
        return [grant.id for _, grant in self.all]

    def grants_of(self, subject):
        return [grant for user, grant in self.all if user == subject]

    def end_grant(self, subject, id):
        before = len(self.all)
        self.all = [(user, grant) for user, grant in self.all if (user, grant.id) != (subject, id)]
        return len(self.all) < before


class Account(Authorizer):
    """Has the page of a user at /account."""

    def __init__(self, users):
        self.users, self.backend, self.store = users, MemoryBackend(), Grants()
        self.pages = Pages()
        self.pages.server = "Notes"
        self.base = ""

    def routes(self, endpoint):
        return {"/account": lambda request: self.account(request)}

    @property
    def login(self):
        return self.users and PasswordLogin(self.pages, self.users, PasswordLimit(self.backend))

    @property
    def sessions(self):
        return BrowserSessions(self.backend, self.base)

    @property
    def account(self):
        return AccountPage(f"{self.base}/account", self.pages, self.sessions, self.store, self.login, "GitHub",
                           lambda request, session: HTTPResponse(303, [("Location", "https://github.com/login?state=1")]))


class FormBrowser:
    """Keeps cookies, and follows redirects of the page."""

    def __init__(self, server):
        self.port = server.port
        self.cookies = {}

    def send(self, method, body=None, path="/account", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            if self.cookies:
                headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            if body is not None:
                headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
                body = body if isinstance(body, bytes) else urlencode(body).encode()
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        for line in response.headers.get_all("Set-Cookie", []):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
        return response.status, text, response.headers

    def get(self, path="/account"):
        return self.send("GET", path=path)[1]

    @property
    def csrf(self):
        return re.search('name="csrf" value="([^"]+)"', self.get()).group(1)

    def post(self, **fields):
        status, text, headers = self.send("POST", {"csrf": self.csrf, **fields})
        if status != 303:
            return status, text
        location = headers["Location"]
        assert location.startswith(f"http://127.0.0.1:{self.port}/account")
        return 200, self.get(location[location.index("/account"):])

    def log_in(self, name="ann", password=PASSWORD):
        return self.post(username=name, password=password)
