"""The pages of an issuer: login, consent, error, logged in, and the grants of a user.

They are plain HTML: no script, one style sheet, nothing from elsewhere, light or dark as the browser prefers. The texts of a
client about itself are foreign: they are cut and escaped, characters that hide others or turn their direction are removed, and
they are never links.

:mod:`.page_templates` has the templates and texts of the pages.
"""

import os
import re
import time
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Dict, Iterable, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import urlsplit

from ...protocol.http.oauth import is_loopback
from ...server.http.messages import HTTPResponse
from .page_templates import PageTemplates
from .users import User

__all__ = ["ClientInfo", "GrantInfo", "Pages"]


@dataclass(frozen=True)
class ClientInfo:
    """What pages show of a client.

    :param id: its client id.
    :param name: as it calls itself; foreign text.
    :param domain: the host that its metadata document was loaded from: that host answers for the client. Empty for a client
        without such a document.
    """

    id: str
    name: str = ""
    domain: str = ""


@dataclass(frozen=True)
class GrantInfo:
    """What a user is shown of a grant.

    :param id: of the grant; the form posts it to end the grant.
    :param since: when the user agreed, in seconds since 1970.
    :param used: when a token of it was last issued, in seconds since 1970.
    """

    id: str
    client: ClientInfo
    scopes: Sequence[str]
    since: float
    used: float


#: Characters of a client's name, of a scope and its description, and of other texts.
_LONGEST_NAME, _LONGEST_SCOPE, _LONGEST_TEXT = 60, 200, 400
#: Schemes that run or show what a client has chosen; a form never leads to them.
_ACTIVE = frozenset({"about", "blob", "data", "file", "filesystem", "javascript", "vbscript", "view-source"})
#: The form of redirect URIs that all browsers read as this module does: visible ASCII, without the characters that some read as
#: a slash or a quote.
_PLAIN_URI = re.compile(r"[a-z][a-z0-9+.\-]*:[!#-;=?-\[\]_a-z~%]*", re.IGNORECASE)
#: The values that texts show in bold type.
_BOLD = frozenset({"client", "domain", "upstream", "user"})
#: The HTTP status of a login page, by its error.
_LOGIN_STATUS = {"wrong_password": 403, "too_many_attempts": 429, "users_unavailable": 503, "form_expired": 403}


class Pages:
    """The pages of an issuer, with templates and texts of your own.

    :param folder: of templates that replace the templates with equal names; None for none. The folder is read once.
    :param texts: that replace the texts with equal keys, such as ``{"lang": "de", "log_in": "Anmelden"}``. The key of the title
        or the text of an error is that text itself.
    :raises ValueError: a template or text is unknown, has a name that is unknown, or lacks a name that is required.
    """

    def __init__(self, folder: "Union[None, str, os.PathLike[str]]" = None, texts: Optional[Mapping[str, str]] = None) -> None:
        #: The name of the server on pages.
        self.server = "this server"
        self._templates = PageTemplates(folder, texts)

    # --- pages --------------------------------------------------------------------------------------------------

    def login(self, *, action: str, csrf: str, client: Optional[ClientInfo] = None, error: str = "", name: str = "",
              seconds: float = 0) -> HTTPResponse:
        """Return the page with the form of a login, whose fields are ``username`` and ``password``.

        The policy of the page lets its form lead only to pages of this server, so that the password is not sent elsewhere.

        :param action: the URL that the form is posted to.
        :param csrf: the token of the form.
        :param client: that asks for the login; None for a login without a client.
        :param error: ``wrong_password``, ``too_many_attempts``, ``users_unavailable`` or ``form_expired``; empty for none.
        :param name: the name of the user, as it was entered.
        :param seconds: until the next attempt.
        """
        values = self._values(client=client)
        wait = max(1, round(seconds))
        values["seconds"] = str(wait)
        texts = self._filled(values)
        return self._page("login.html", texts, {
            "action": escape(action), "csrf": escape(csrf), "username": escape(_cut(name, 256)),
            "initial": _initial(self.server),
            "about": _paragraph(texts["login_for"]) if client else "",
            "error": _paragraph(texts[error], "error", "alert") if error else "",
            "focus_name": "" if name else " autofocus", "focus_password": " autofocus" if name else "",
        }, "login_title", _LOGIN_STATUS.get(error, 200), "",
            [("Retry-After", str(wait))] if error == "too_many_attempts" else [])

    def consent(self, *, action: str, csrf: str, client: ClientInfo, user: Optional[User],
                scopes: Sequence[Tuple[str, str]], redirect_uri: str, upstream: str = "", other_user: str = "",
                error: str = "", refused: Sequence[Tuple[str, str]] = ()) -> HTTPResponse:
        """Return the page that asks whether a client gets access; its field ``decision`` is ``allow`` or ``deny``.

        :param user: the user who is logged in; None before the login at an upstream.
        :param scopes: each with its description, which may be empty.
        :param redirect_uri: of the client; its host is shown.
        :param upstream: the title of the provider where the user logs in next; empty for none.
        :param other_user: the URL to log in as another user; empty for none.
        :param error: ``form_expired``, or empty.
        :param refused: the scopes that the client asks for and the user may not grant, each with its description.
        """
        texts = self._filled(self._values(client=client, user=user, upstream=upstream, domain=client.domain))
        other = f' <a href="{escape(other_user)}">{texts["other_user"]}</a>' if other_user else ""
        if upstream:
            texts["allow"] = texts["continue"]
        return self._page("consent.html", texts, {
            "action": escape(action), "csrf": escape(csrf), "initial": _initial(self._name_of(client)),
            "user": f'<p>{texts["consent_user"]}{other}</p>\n' if user else "",
            "scopes": self._permissions(texts, scopes, refused),
            "redirect": self._goal(redirect_uri), "origin": texts["domain_known" if client.domain else "domain_unknown"],
            "next": _paragraph(texts["upstream_next"]) if upstream else "",
            "error": _paragraph(texts[error], "error", "alert") if error else "",
        }, "consent_title", 403 if error else 200, redirect_uri, upstream=bool(upstream))

    def error(self, status: int, title: str, text: str, headers: Iterable[Tuple[str, str]] = ()) -> HTTPResponse:
        """Return a page that says what is wrong.

        :param status: of the response.
        :param title: what is wrong, in a few words.
        :param text: what it means for the user; foreign text in it is cut and escaped.
        """
        texts = self._filled(self._values())
        heading = escape(_cut(self._templates.texts.get(title, title), _LONGEST_SCOPE))
        texts["error_title"] = heading
        said = escape(_cut(self._templates.texts.get(text, text), _LONGEST_TEXT))
        return self._page("error.html", texts, {"heading": heading, "text": said}, "error_title", status, "", headers)

    def provider(self, *, action: str, csrf: str, upstream: str, error: str = "") -> HTTPResponse:
        """Return the page of a login at a provider that no client has asked for; its form has no fields.

        :param upstream: the title of the provider.
        :param error: ``form_expired``, or empty.
        """
        texts = self._filled(self._values(upstream=upstream))
        return self._page("provider.html", texts, {
            "action": escape(action), "csrf": escape(csrf), "initial": _initial(self.server),
            "error": _paragraph(texts[error], "error", "alert") if error else "",
        }, "login_title", _LOGIN_STATUS.get(error, 200), upstream=True)

    def logged_in(self, *, action: str, csrf: str, user: User, grants: str) -> HTTPResponse:
        """Return the page after a login that no client has asked for; its field ``decision`` is ``logout``.

        :param grants: the URL of the page of grants.
        """
        texts = self._filled(self._values(user=user))
        return self._page("logged_in.html", texts, {
            "action": escape(action), "csrf": escape(csrf), "initial": _initial(self.server), "grants": escape(grants),
        }, "logged_in_title")

    def grants(self, *, action: str, csrf: str, user: User, grants: Sequence[GrantInfo], ended: bool = False) -> HTTPResponse:
        """Return the page on which a user ends grants.

        Its field ``decision`` is ``end``, with the id in ``grant``, or ``logout``.

        :param ended: whether a grant was ended just now.
        """
        values = self._values(user=user)
        texts = self._filled(values)
        items = "".join(self._templates.html["grant.html"].substitute(
            self._filled(values, since=_date(grant.since), used=_date(grant.used)),
            action=escape(action), csrf=escape(csrf), id=escape(grant.id), client=escape(self._name_of(grant.client)),
            scopes=escape(_cut(" ".join(grant.scopes), _LONGEST_TEXT))) for grant in grants)
        return self._page("grants.html", texts, {
            "action": escape(action), "csrf": escape(csrf), "initial": _initial(self.server),
            "notice": _paragraph(texts["access_ended"], "notice", "status") if ended else "",
            "list": f"<ul>\n{items}</ul>\n" if items else _paragraph(texts["grants_none"]),
        }, "grants_title")

    def _permissions(self, texts: Mapping[str, str], scopes: Sequence[Tuple[str, str]], refused: Sequence[Tuple[str, str]]
                     ) -> str:
        """Return, as HTML, the scopes that a client gets with the consent, and the scopes that the user may not grant."""

        def items(some: Sequence[Tuple[str, str]]) -> str:
            return "".join(self._templates.html["scope.html"].substitute(
                texts, scope=escape(_cut(scope, _LONGEST_SCOPE)),
                description=f'<span class="note">{escape(_cut(text, _LONGEST_TEXT))}</span>' if text else "")
                for scope, text in some)

        found = f'<p>{texts["may"]}</p>\n<ul>\n{items(scopes)}</ul>' if scopes else ""
        if refused:
            why = texts["may_not" if scopes else "may_none"]
            found += f'\n<p>{why}</p>\n<ul class="refused">\n{items(refused)}</ul>'
        return found or _paragraph(texts["may_nothing"])

    # --- parts --------------------------------------------------------------------------------------------------

    def _name_of(self, client: ClientInfo) -> str:
        return _cut(client.name, _LONGEST_NAME) or _cut(client.domain, _LONGEST_TEXT) or self._templates.texts["unnamed"]

    def _values(self, client: Optional[ClientInfo] = None, user: Optional[User] = None, **more: str) -> Dict[str, str]:
        """Return the values that are filled into texts, not escaped."""
        named = {"server": self.server, **more}
        if client is not None:
            named["client"] = self._name_of(client)
        if user is not None:
            named["user"] = user.shown_name
        return {name: _cut(value, _LONGEST_SCOPE) for name, value in named.items()}

    def _filled(self, values: Mapping[str, str], **more: str) -> Dict[str, str]:
        """Return all texts as HTML, with the values of this page filled in.

        :param values: not escaped yet.
        :param more: values that are HTML.
        """
        shown = {name: f"<strong>{escape(value)}</strong>" if name in _BOLD else escape(value)
                 for name, value in values.items()}
        return {key: Template(escape(text)).safe_substitute(shown, **more) for key, text in self._templates.texts.items()}

    def _goal(self, uri: str) -> str:
        """Return where a redirect leads, for people. The host is the one that browsers read, and is shown in full."""
        scheme, host = _target(uri)
        if not host:
            name = escape(f"{scheme}:" if scheme else _cut(uri, _LONGEST_SCOPE))
            return Template(escape(self._templates.texts["this_device"])).safe_substitute(scheme=name) if scheme else name
        named = urlsplit(uri).hostname or ""
        return escape(self._templates.texts["this_computer"]) if is_loopback(named) else escape(host)

    def _page(self, template: str, texts: Mapping[str, str], values: Mapping[str, str], title: str, status: int = 200,
              redirect_uri: str = "", headers: Iterable[Tuple[str, str]] = (), upstream: bool = False) -> HTTPResponse:
        body = self._templates.html[template].substitute({**texts, **values})
        plain = re.sub("<[^>]*>", "", texts[title])
        content = self._templates.html["page.html"].substitute(
            {**texts, "title": plain, "style": self._templates.style, "body": body})
        return HTTPResponse(status, [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Security-Policy", self._templates.policy + _form_action(redirect_uri, upstream)),
            ("X-Frame-Options", "DENY"),
            # Without a referrer of our own pages, browsers send "Origin: null" with our own forms.
            ("Referrer-Policy", "same-origin"), ("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"),
            *headers], [content.encode("utf-8", "replace")])


def _form_action(redirect_uri: str, upstream: bool = False) -> str:
    """Return the directive that says where forms may lead; empty for a redirect to a page on the web.

    Chromium applies it to all redirects that follow a form: to the redirect to the client, and to those of the client's own
    page. A program on this computer may redirect to a page on the web; a page on the web may redirect to a program, by any
    scheme.

    :param upstream: whether the form leads to a login at a provider, which may redirect back at once.
    """
    scheme, host = _target(redirect_uri)
    if host and not is_loopback(urlsplit(redirect_uri).hostname or ""):
        return ""
    allowed = ["'self'"] + (["http:", "https:"] if host or upstream else [])
    if scheme and not host and scheme not in _ACTIVE:
        allowed.append(f"{scheme}:")
    return f"; form-action {' '.join(allowed)}"


def _target(uri: str) -> Tuple[str, str]:
    """Return the scheme of a redirect URI, and host and port for ``http`` and ``https``; two empty texts if it is malformed."""
    if not _PLAIN_URI.fullmatch(uri):
        return "", ""
    try:
        parts = urlsplit(uri)
        if parts.scheme not in ("http", "https"):
            return parts.scheme, ""
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", ""
    shown = f"[{host}]" if ":" in host else host
    return (parts.scheme, shown if port is None else f"{shown}:{port}") if host else ("", "")


def _cut(text: str, most: int) -> str:
    """Return a foreign text as one line of visible characters, without those that turn the direction of others."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:20 * most]).split())
    return line if len(line) <= most else line[:most - 1].rstrip() + "\u2026"


def _initial(name: str) -> str:
    return escape(next((letter for letter in name if letter.isalnum()), "?").upper()[:1])


def _date(seconds: float) -> str:
    return time.strftime("<time>%Y-%m-%d</time>", time.gmtime(seconds))


def _paragraph(text: str, kind: str = "", role: str = "") -> str:
    return f"<p{f' class={kind!r}' if kind else ''}{f' role={role!r}' if role else ''}>{text}</p>\n"
