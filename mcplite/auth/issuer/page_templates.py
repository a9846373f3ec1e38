"""What the pages of an issuer are made of: templates (``string.Template``) and texts, and a user's own in their place.

``page.html`` is the frame of all pages; ``login.html``, ``provider.html``, ``consent.html``, ``error.html``,
``logged_in.html`` and ``grants.html`` are the contents; ``scope.html`` and ``grant.html`` are the items of their lists;
``style.css`` is the style sheet. A template may use each text by its key. Some names are required in a template; this is
checked when it is loaded. So no form lacks its token, and the page of the consent always names the client that asks.
"""

import base64
import hashlib
import os
import re
from string import Template
from typing import Dict, FrozenSet, List, Mapping, Optional, Set, Union

from .browser_sessions import CSRF_FIELD

__all__ = ["PageTemplates"]

#: All texts, by key. A name with a dollar sign is replaced by its value.
_TEXTS = {
    "lang": "en",
    "login_title": "Log in to $server",
    "login_for": "$client wants to use $server on your behalf. Log in to decide about it.",
    "name": "Name",
    "password": "Password",
    "log_in": "Log in",
    "wrong_password": "The name or the password is wrong.",
    "too_many_attempts": "Too many attempts. Wait $seconds seconds, and try again.",
    "users_unavailable": "Logins cannot be checked at present. Try again in a moment.",
    "form_expired": "This form is no longer valid, for example after a login in another window. Try again.",
    "consent_title": "Allow access to $server?",
    "consent_for": "$client wants to use $server on your behalf.",
    "consent_user": "You are logged in as $user.",
    "other_user": "Log in as another user",
    "may": "It may then:",
    "may_nothing": "It asks for no particular permissions.",
    "may_not": "It asks for more, which $user may not allow:",
    "may_none": "$user may allow none of what it asks for:",
    "leads_to": "The access goes to",
    "this_computer": "an app on this computer",
    "this_device": "the app on this device that opens $scheme links",
    "domain_known": "The description of this app comes from $domain.",
    "domain_unknown": "The app has chosen its name itself. Allow access only if you have just started it.",
    "upstream_next": "Next you log in with $upstream.",
    "allow": "Allow",
    "deny": "Deny",
    "continue": "Continue to $upstream",
    "unnamed": "An app without a name",
    "error_next": "You can close this window, and start again from the app.",
    "logged_in_title": "You are logged in",
    "logged_in_as": "You are logged in to $server as $user. You can close this window.",
    "grants_link": "Apps with access",
    "log_out": "Log out",
    "grants_title": "Apps with access to $server",
    "grants_user": "They act for $user. When you end the access of an app, it has to ask you again.",
    "grants_none": "No app has access at present.",
    "grant_times": "Allowed on $since, last active on $used.",
    "end_access": "End access",
    "access_ended": "The access has ended.",
}

_CSRF = f'<input type="hidden" name="{CSRF_FIELD}" value="$csrf">'
#: All templates, by the names of the files that replace them.
_TEMPLATES = {
    "page.html": """\
<!DOCTYPE html>
<html lang="$lang">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
$body</main>
</body>
</html>
""",
    "login.html": f"""\
<header><p class="mark" aria-hidden="true">$initial</p><h1>$login_title</h1></header>
$about$error<form method="post" action="$action">
{_CSRF}
<label for="username">$name</label>
<input id="username" name="username" value="$username" autocomplete="username" autocapitalize="none" spellcheck="false"\
 maxlength="256" required$focus_name>
<label for="password">$password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024" required$focus_password>
<div class="buttons"><button class="primary">$log_in</button></div>
</form>
""",
    "provider.html": f"""\
<header><p class="mark" aria-hidden="true">$initial</p><h1>$login_title</h1></header>
$error<p>$upstream_next</p>
<form method="post" action="$action">
{_CSRF}
<div class="buttons"><button class="primary">$continue</button></div>
</form>
""",
    "consent.html": f"""\
<header><p class="mark" aria-hidden="true">$initial</p><h1>$consent_title</h1></header>
<p>$consent_for</p>
$user$error<section>$scopes</section>
<section class="goal"><p>$leads_to</p><p class="host">$redirect</p></section>
<p class="note">$origin</p>
$next<form method="post" action="$action">
{_CSRF}
<div class="buttons"><button name="decision" value="deny">$deny</button>
<button class="primary" name="decision" value="allow">$allow</button></div>
</form>
""",
    "error.html": """\
<header><h1>$heading</h1></header>
<p>$text</p>
<p class="note">$error_next</p>
""",
    "logged_in.html": f"""\
<header><p class="mark" aria-hidden="true">$initial</p><h1>$logged_in_title</h1></header>
<p>$logged_in_as</p>
<form method="post" action="$action">
{_CSRF}
<div class="buttons"><a class="button" href="$grants">$grants_link</a>
<button name="decision" value="logout">$log_out</button></div>
</form>
""",
    "grants.html": f"""\
<header><p class="mark" aria-hidden="true">$initial</p><h1>$grants_title</h1></header>
<p>$grants_user</p>
$notice$list<form method="post" action="$action">
{_CSRF}
<div class="buttons"><button name="decision" value="logout">$log_out</button></div>
</form>
""",
    "scope.html": """\
<li><span class="scope">$scope</span>$description</li>
""",
    "grant.html": f"""\
<li><h2>$client</h2><p class="note">$grant_times</p><p class="tags">$scopes</p>
<form method="post" action="$action">
{_CSRF}
<input type="hidden" name="grant" value="$id">
<button name="decision" value="end" aria-label="$end_access: $client">$end_access</button>
</form></li>
""",
    "style.css": """
:root { color-scheme: light dark; --page: #f3f5f8; --card: #ffffff; --text: #1b1f24; --muted: #566170; --line: #d9dee5;
  --edge: #7b8694; --accent: #1d5bd6; --on-accent: #ffffff; --soft: #eaf0fd; --bad: #a3231b; --on-bad: #fdeceb; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0f1216; --card: #191e25; --text: #e9ecf0; --muted: #a5b0bd; --line: #323a45; --edge: #788493;
    --accent: #8ab1ff; --on-accent: #0c1a33; --soft: #1f2a40; --bad: #ffb3ab; --on-bad: #3d1b18; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: flex; justify-content: center; align-items: flex-start; padding: 9vh 1rem 2rem;
  background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  overflow-wrap: anywhere; }
main { width: 100%; max-width: 27rem; background: var(--card); border: 1px solid var(--line); border-radius: 1rem;
  padding: 2rem; box-shadow: 0 1px 2px rgba(0, 0, 0, .06), 0 12px 32px rgba(0, 0, 0, .07); }
header { margin-bottom: 1.25rem; }
.mark { width: 2.75rem; height: 2.75rem; margin: 0 0 1rem; border-radius: .75rem; background: var(--accent);
  color: var(--on-accent); font-size: 1.375rem; font-weight: 600; display: flex; align-items: center; justify-content: center;
  overflow: hidden; }
h1 { font-size: 1.5rem; line-height: 1.25; font-weight: 650; letter-spacing: -.01em; margin: 0; }
h2 { font-size: 1rem; font-weight: 600; margin: 0; overflow: hidden; }
p { margin: 0 0 .75rem; }
main > :last-child { margin-bottom: 0; }
strong { font-weight: 600; }
section { margin: 1.25rem 0; }
section p { margin: 0 0 .25rem; }
.note { color: var(--muted); font-size: .875rem; }
.error, .notice { border-radius: .5rem; padding: .625rem .75rem; }
.error { background: var(--on-bad); color: var(--bad); }
.notice { background: var(--soft); }
ul { list-style: none; margin: .5rem 0 0; padding: 0; border: 1px solid var(--line); border-radius: .625rem; }
li { padding: .625rem .875rem; overflow: hidden; }
li + li { border-top: 1px solid var(--line); }
.scope { display: block; font-weight: 600; }
li .note { display: block; margin: 0; }
li p.note { margin: .125rem 0 .375rem; }
li time { white-space: nowrap; }
.refused { border-style: dashed; }
.refused .scope { color: var(--muted); font-weight: 500; }
.tags { font: .8125rem/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; margin: 0 0 .625rem; }
.goal { background: var(--soft); border-radius: .625rem; padding: .75rem .875rem; }
.goal p { font-size: .875rem; }
.goal .host { font-size: 1.25rem; line-height: 1.3; font-weight: 650; margin: 0; }
label { display: block; font-weight: 600; margin: 1rem 0 .375rem; }
input:not([type=hidden]) { width: 100%; font: inherit; color: inherit; background: var(--card); border: 1px solid var(--edge);
  border-radius: .5rem; padding: .625rem .75rem; }
.buttons { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.5rem; }
.buttons > * { flex: 1 1 auto; }
button, .button { font: inherit; font-weight: 600; text-align: center; text-decoration: none; color: var(--text);
  background: var(--card); border: 1px solid var(--edge); border-radius: .5rem; padding: .625rem 1rem; cursor: pointer; }
button.primary { color: var(--on-accent); background: var(--accent); border-color: var(--accent); }
button:hover, .button:hover { background: var(--soft); }
button.primary:hover { background: var(--accent); filter: brightness(1.08); }
a { color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
@media (max-width: 30rem) { body { padding: 0; background: var(--card); } main { border: 0; border-radius: 0; box-shadow: none;
  padding: 1.5rem 1.25rem; } }
""",
}
#: For each template, the names that are required in it, so that its forms work, and so that a user sees who asks for what.
_REQUIRED = {
    "page.html": "title style body", "login.html": "action csrf error username", "provider.html": "action csrf error",
    "consent.html": "action csrf consent_for scopes redirect origin", "error.html": "heading text",
    "logged_in.html": "action csrf", "grants.html": "action csrf list", "scope.html": "scope description",
    "grant.html": "action csrf id client",
}


class PageTemplates:
    """The templates and texts of pages, and the policy that allows their style sheets.

    :param folder: of templates that replace the templates with equal names; None for none. The folder is read once.
    :param texts: that replace the texts with equal keys. The key of the title or the text of an error is that text itself.
    :raises ValueError: a template or text is unknown, has a name that is unknown, or lacks a name that is required.
    """

    def __init__(self, folder: "Union[None, str, os.PathLike[str]]" = None, texts: Optional[Mapping[str, str]] = None) -> None:
        #: The texts by their keys.
        self.texts = {**_TEXTS, **(texts or {})}
        for key, text in (texts or {}).items():
            if key not in _TEXTS and " " not in key:
                raise ValueError(f"there is no text {key!r}; there are {', '.join(_TEXTS)}")
            known = _named(_TEXTS[key], key) if key in _TEXTS else frozenset()
            _check_names(f"the text {key!r}", _named(text, f"the text {key!r}"), known, frozenset())
        templates = {**_TEMPLATES, **({} if folder is None else _load(os.fspath(folder)))}
        #: The style sheet, exactly as its digest in the policy was made.
        self.style = templates.pop("style.css").rstrip()
        #: The templates by the names of their files.
        self.html = {name: Template(text) for name, text in templates.items()}
        sheets = re.findall(r"<style[^>]*>(.*?)</style>", templates["page.html"].replace("$style", self.style)
                            .replace("${style}", self.style), re.DOTALL | re.IGNORECASE)
        hashes = sorted({f"'sha256-{_digest(sheet)}'" for sheet in sheets})
        images = "img-src data:" + ("" if folder is None else " 'self'")
        #: The content security policy of all pages, without the directive for forms, which depends on the page.
        self.policy = f"default-src 'none'; style-src {' '.join(hashes)}; {images}; base-uri 'none'; frame-ancestors 'none'"


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _load(folder: str) -> Dict[str, str]:
    """Return the templates of a folder by their names.

    :raises ValueError: a template is unknown, cannot be read, has an unknown name, or lacks a required one.
    """
    found: Dict[str, str] = {}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".html", ".css")))
        for name in names:
            if name not in _TEMPLATES:
                raise ValueError(f"{os.path.join(folder, name)} replaces no template; there are {', '.join(_TEMPLATES)}")
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found[name] = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the templates in {folder} cannot be read: {error}") from None
    for name, text in found.items():
        if name != "style.css":
            what = os.path.join(folder, name)
            required = frozenset(_REQUIRED[name].split())
            _check_names(what, _named(text, what), _named(_TEMPLATES[name], name) | required | _TEXTS.keys(), required)
    return found


def _named(text: str, what: str) -> FrozenSet[str]:
    """Return the names that follow the dollar signs of a template.

    :raises ValueError: no name follows a dollar sign.
    """
    names: Set[str] = set()
    for found in Template.pattern.finditer(text):
        if found.group("invalid") is not None:
            line = text.count("\n", 0, found.start()) + 1
            raise ValueError(f"{what}, line {line}: a dollar sign without a name; write $$ for the sign itself")
        names.update(filter(None, (found.group("named"), found.group("braced"))))
    return frozenset(names)


def _check_names(what: str, named: FrozenSet[str], known: FrozenSet[str], required: FrozenSet[str]) -> None:
    unknown: List[str] = sorted(named - known)
    missing = sorted(required - named)
    if unknown:
        names = ", ".join(f"${one}" for one in sorted(known)) or "no names"
        raise ValueError(f"{what} names ${unknown[0]}; known here are {names}")
    if missing:
        raise ValueError(f"{what} lacks {', '.join(f'${one}' for one in missing)}, without which the page does not work")
