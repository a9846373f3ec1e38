"""The normal form of a URI (RFC 3986, section 6.2), by which resources are registered, listed, looked up and matched.

Clients write one resource in several ways: their libraries escape characters or not, and change the case of schemes. Two URIs
with one normal form name one resource.
"""

from __future__ import annotations

import re
from typing import AbstractSet, List, Tuple

__all__ = ["candidates", "normal_uri", "uri_problem"]

#: The default ports of the schemes whose host is a name of the network (section 6.2.3).
_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
#: Characters that stay as they are, for sets of patterns, and those whose escapes are removed from the paths of files.
_UNRESERVED = r"A-Za-z0-9\-._~"
_PATH = _UNRESERVED + "!$&'()*+,;=:@/"
_IN_FILES = frozenset("!$&'()*+,;=:@")
# As text: re compiles and keeps each on its first use.
_IN_AUTHORITY, _IN_PATH, _IN_QUERY, _ANYWHERE = (
    f"%([0-9A-Fa-f]{{2}})|[^{characters}]"
    for characters in (_PATH.replace("/", r"\[\]"), _PATH, _PATH + "?", _PATH + r"?#\[\]"))
_HOST_AND_PORT = r"(\[[^\]]*\]|[^:]*)(?::([0-9]*))?"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*"
#: What names a resource: a text with a scheme, and without control characters and half characters.
_USABLE = re.compile(_SCHEME + ":[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*")
#: What most URIs match that have their normal form; a dot that begins a segment is looked for apart.
_NORMAL = re.compile(rf"(?:(?!(?:https?|wss?|ftp|file):)[a-z][a-z0-9+.-]*:|file:///(?![A-Za-z]:))[{_PATH}?]*(?:%(?:20|[89A-F]["
                     rf"0-9A-F])[{_PATH}?]*)*")


def normal_uri(uri: str) -> str:
    """Return the normal form of a URI; of a text that is none, the text with escapes where URIs have them.

    Characters that URIs do not have are escaped, escapes have capital letters, and those of unreserved characters are removed.
    The scheme has small letters, and the path no dot segments. In the schemes of the web the host has small letters and is
    ASCII, the default port is left out, and the path is not empty. ``file`` URIs have no ``localhost``, a drive with a capital
    letter, and no escapes of characters that a path may have.
    """
    return uri if _NORMAL.fullmatch(uri) is not None and "/." not in uri else _normal(uri)[0]


def candidates(uri: str) -> List[str]:
    """Return the forms in which a template may match a URI: the normal one, and those with its port and its empty path."""
    if _NORMAL.fullmatch(uri) is not None and "/." not in uri:
        return [uri]
    normal, given = _normal(uri)
    found = [normal, given]
    if normal.endswith("/") and normal.count("/") == 3 and normal.partition(":")[0] in _PORTS:
        found.append(normal[:-1])
    return list(dict.fromkeys(found))


def uri_problem(uri: str) -> str:
    """Return why a text names no resource, with the remedy; empty if it can."""
    if _USABLE.fullmatch(uri) is not None:
        return ""
    scheme, colon, _ = uri.partition(":")
    if not colon or not scheme:
        return "it needs a scheme, as in 'config://settings'"
    if re.fullmatch(_SCHEME, scheme) is None:
        better = re.sub("[^A-Za-z0-9+.-]", "-", scheme)
        return (f"the scheme {scheme[:100]!r} is none: write letters, digits, '+', '-' and '.', and a letter first"
                + (f", as in '{better[:100]}:'" if re.fullmatch(_SCHEME, better) else ""))
    return "it has control characters or half characters; escape them, as in %0A"


def _normal(uri: str) -> Tuple[str, str]:
    """Return the normal form, and the same with the port and the empty path that the URI has."""
    scheme, colon, rest = uri.partition(":")
    if not colon or re.fullmatch(_SCHEME, scheme) is None:
        text = _escaped(uri, _ANYWHERE, removed=False)
        return text, text
    scheme = scheme.lower()
    rest, number_sign, fragment = rest.partition("#")
    rest, mark, query = rest.partition("?")
    tail = mark + _escaped(query, _IN_QUERY) + number_sign + _escaped(fragment, _IN_QUERY)
    has_authority = rest.startswith("//")
    authority, slash, path = rest[2:].partition("/") if has_authority else ("", "", rest)
    path = _escaped(slash + path, _IN_PATH, _IN_FILES if scheme == "file" else frozenset())
    if path.startswith("/"):
        path = _without_dots(path)
    if scheme == "file":
        path = path or "/"
        authority = "" if authority.lower() == "localhost" else _host(authority)
        has_authority = has_authority or path.startswith("/")
        if path[2:3] == ":" and path[1:2].isalpha() and path[3:4] in ("", "/"):
            path = path[:2].upper() + path[2:]
    elif scheme in _PORTS and has_authority:
        user, at, place = _escaped(authority, _IN_AUTHORITY).rpartition("@")
        parts = re.fullmatch(_HOST_AND_PORT, place)
        if parts is not None:
            port = parts.group(2)
            before = f"{scheme}://{user}{at}{_host(parts.group(1))}"
            kept = "" if port is None else f":{port}"
            return (before + ("" if port in ("", _PORTS[scheme]) else kept) + (path or "/") + tail, before + kept + path + tail)
    authority = _escaped(authority, _IN_AUTHORITY)
    if not has_authority and path.startswith("//"):
        path = "/." + path  # without it the path would begin with a host
    text = f"{scheme}:{'//' if has_authority else ''}{authority}{path}{tail}"
    return text, text


def _escaped(text: str, changed: str, plain: AbstractSet[str] = frozenset(), removed: bool = True) -> str:
    """Return a part of a URI in its normal form.

    :param changed: a pattern of escapes, and of characters that must be escaped.
    :param plain: characters beside the unreserved ones whose escapes are removed.
    :param removed: whether any escapes are removed.
    """
    def escape(found: "re.Match[str]") -> str:
        if found.group(1):
            character = chr(int(found.group(1), 16))
            if removed and (character in plain or character.isascii() and (character.isalnum() or character in "-._~")):
                return character
            return found.group().upper()
        return "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8", "surrogatepass"))

    return re.sub(changed, escape, text)


def _host(host: str) -> str:
    """Return the name of a host of the network in small letters and ASCII."""
    if not host.isascii() or "%" in host:
        from urllib.parse import unquote  # for names beyond ASCII

        try:
            plain = unquote(host, errors="strict").encode("idna").decode("ascii")
            host = plain if re.fullmatch(f"[{_UNRESERVED}]*", plain) else host
        except UnicodeError:
            pass  # it is none that IDNA knows
    return _escaped(_escaped(host, _IN_AUTHORITY).lower(), _IN_AUTHORITY)


def _without_dots(path: str) -> str:
    """Return a path without the segments ``.`` and ``..`` (section 5.2.4)."""
    if "/." not in path:
        return path
    kept: List[str] = []
    segments = path[1:].split("/")
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
