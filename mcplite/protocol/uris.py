"""URIs in their normal form (RFC 3986, section 6.2), and the paths of ``file`` URIs and of URLs.

Resources are registered, listed, looked up and matched by normal forms. Clients write one resource in several ways: their
libraries escape characters or not, and change the case of schemes. Two URIs with one normal form name one resource.
"""

from __future__ import annotations

import os
import re
from typing import AbstractSet, Iterable, List, Optional, Tuple

#: The default ports of the schemes whose host is a name of the network (section 6.2.3).
_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
#: For sets of patterns: the unreserved characters, and the characters that stay as they are in a path. Then the characters
#: whose escapes are removed from the paths of ``file`` URIs.
_UNRESERVED = r"A-Za-z0-9\-._~"
_PATH = _UNRESERVED + "!$&'()*+,;=:@/"
_IN_FILES = frozenset("!$&'()*+,;=:@")
# The patterns are texts: re compiles and keeps each on its first use.
_IN_AUTHORITY, _IN_PATH, _IN_QUERY, _ANYWHERE = (
    f"%([0-9A-Fa-f]{{2}})|[^{characters}]"
    for characters in (_PATH.replace("/", r"\[\]"), _PATH, _PATH + "?", _PATH + r"?#\[\]"))
_HOST_AND_PORT = r"(\[[^\]]*\]|[^:]*)(?::([0-9]*))?"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*"
#: A text that can name a resource: it has a scheme, and no control characters or lone surrogates.
_USABLE = _SCHEME + ":[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*"
#: Most URIs in their normal form match this; a segment that begins with a dot is looked for separately.
_NORMAL = (rf"(?:(?!(?:https?|wss?|ftp|file):)[a-z][a-z0-9+.-]*:|file:///(?![A-Za-z]:))[{_PATH}?]*(?:%(?:20|[89A-F]["
           rf"0-9A-F])[{_PATH}?]*)*")


def normal_uri(uri: str) -> str:
    """Return the normal form of a URI; for any other text, the text with escapes where URIs have them.

    Characters that URIs do not have are escaped, escapes have capital letters, and those of unreserved characters are removed.
    The scheme has small letters, and the path no dot segments. In the schemes of the web the host has small letters and is
    ASCII, the default port is left out, and the path is not empty. ``file`` URIs have no ``localhost``, a drive with a capital
    letter, and no escapes of characters that a path may have.
    """
    return uri if re.fullmatch(_NORMAL, uri) is not None and "/." not in uri else _normal(uri)[0]


def candidates(uri: str) -> List[str]:
    """Return the forms in which a template may match a URI: the normal form, and forms with its own port and an empty path."""
    if re.fullmatch(_NORMAL, uri) is not None and "/." not in uri:
        return [uri]
    normal, given = _normal(uri)
    found = [normal, given]
    if normal.endswith("/") and normal.count("/") == 3 and normal.partition(":")[0] in _PORTS:
        found.append(normal[:-1])
    return list(dict.fromkeys(found))


def uri_problem(uri: str) -> str:
    """Return why a text cannot name a resource, with the remedy; empty if it can."""
    if re.fullmatch(_USABLE, uri) is not None:
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
    """Return the normal form, and this form with the port and the empty path as the URI has them."""
    scheme, colon, rest = uri.partition(":")
    if not colon or re.fullmatch(_SCHEME, scheme) is None:
        text = with_escapes(uri, _ANYWHERE, removed=False)
        return text, text
    scheme = scheme.lower()
    rest, number_sign, fragment = rest.partition("#")
    rest, mark, query = rest.partition("?")
    tail = mark + with_escapes(query, _IN_QUERY) + number_sign + with_escapes(fragment, _IN_QUERY)
    has_authority = rest.startswith("//")
    authority, slash, path = rest[2:].partition("/") if has_authority else ("", "", rest)
    path = with_escapes(slash + path, _IN_PATH, _IN_FILES if scheme == "file" else frozenset())
    if path.startswith("/"):
        path = without_dots(path)
    if scheme == "file":
        path = path or "/"
        authority = "" if authority.lower() == "localhost" else _host(authority)
        has_authority = has_authority or path.startswith("/")
        if path[2:3] == ":" and path[1:2].isalpha() and path[3:4] in ("", "/"):
            path = path[:2].upper() + path[2:]
    elif scheme in _PORTS and has_authority:
        user, at, place = with_escapes(authority, _IN_AUTHORITY).rpartition("@")
        parts = re.fullmatch(_HOST_AND_PORT, place)
        if parts is not None:
            port = parts.group(2)
            before = f"{scheme}://{user}{at}{_host(parts.group(1))}"
            kept = "" if port is None else f":{port}"
            return (before + ("" if port in ("", _PORTS[scheme]) else kept) + (path or "/") + tail, before + kept + path + tail)
    authority = with_escapes(authority, _IN_AUTHORITY)
    if not has_authority and path.startswith("//"):
        path = "/." + path  # without this, the path would begin with a host
    text = f"{scheme}:{'//' if has_authority else ''}{authority}{path}{tail}"
    return text, text


def with_escapes(text: str, changed: str, plain: AbstractSet[str] = frozenset(), removed: bool = True) -> str:
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
            pass  # IDNA does not know such a name
    return with_escapes(with_escapes(host, _IN_AUTHORITY).lower(), _IN_AUTHORITY)


def without_dots(path: str) -> str:
    """Return the path of a URI without the segments ``.`` and ``..`` (section 5.2.4)."""
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


_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_ESCAPE = rb"%([0-9A-Fa-f]{2})"
_DRIVE = r"[A-Za-z]:"
#: A NUL, where C ends a path; the start of an absolute path; a segment ``.`` or ``..``, with more dots and spaces behind it,
#: since Windows drops these at the end of a name.
_OUTSIDE = rf"\0|\A(?:[/\\]|{_DRIVE})|(?:\A|[/\\])\.[. ]*(?:[/\\]|\Z)"
_DEVICES = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$",
                      *(port + number for port in ("com", "lpt") for number in "123456789¹²³")})


def safe_join(root: str, relative: str) -> str:
    """Return the real path of *relative* below *root* (RSRC-23).

    It refuses ``..`` in any spelling, absolute paths, drive letters, NUL, names that Windows takes for devices or
    silently changes, and symbolic links that lead outside. Links are resolved in the path that is returned. Another program
    may put new links there before the path is used; a server opens its files without following them.

    :param relative: with ``/`` between names; percent escapes are decoded by the caller.
    :raises ValueError: the path leaves *root* or cannot be trusted to stay.
    """
    check_relative(relative)
    real_root = os.path.realpath(root)
    target = os.path.realpath(os.path.join(real_root, relative))
    if not is_within(target, [real_root]):
        raise ValueError(f"{relative[:200]!r} leaves its directory")
    return target


def check_relative(relative: str) -> None:
    """Check the names of a path as :func:`safe_join` does, without a look at where they lead.

    :raises ValueError: one of them cannot be trusted to stay below a directory.
    """
    if "\0" in relative:
        raise ValueError("a path must not contain NUL")
    if re.search(_ESCAPE, relative.encode("utf-8", "surrogatepass")):
        decoded = _unquote(relative, "replace")
        if decoded.count("/") > relative.count("/") or ".." in decoded or "\0" in decoded or "\\" in decoded:
            raise ValueError(f"{relative[:200]!r} hides a path behind percent escapes")
    if relative.startswith(("/", "\\")) or re.match(_DRIVE, relative):
        raise ValueError(f"{relative[:200]!r} is not a relative path")
    for name in relative.split("/"):
        if "\\" in name or name == "..":
            raise ValueError(f"{relative[:200]!r} leaves its directory")
        stem = name.partition(".")[0].rstrip(" ").lower()
        # On Windows a colon begins the name of a stream of the file; elsewhere it is part of the name.
        if name != "." and (name != name.rstrip(". ") or stem in _DEVICES or (":" in name and os.sep == "\\")):
            raise ValueError(f"{relative[:200]!r} has a name that some systems read as another")


def may_lead_outside(value: str) -> bool:
    """Whether a text, taken for a path on any system, may name something that is not below a folder.

    So do an absolute path, a drive, a segment ``.`` or ``..``, and NUL. A backslash ends a segment as a slash does.
    """
    return re.search(_OUTSIDE, value) is not None


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Whether *path* is one of *roots* or below one, links resolved (ROOT-12)."""
    for root in roots:
        try:
            names = [os.path.normcase(os.path.realpath(name)) for name in (path, root)]
            if os.path.commonpath(names) == names[1]:
                return True
        except ValueError:
            continue  # on another drive, or with a NUL
    return False


def decoded_path(path: str) -> str:
    """Return the path of a URL without escapes, as servers see it in requests."""
    if "%" not in path:
        return path
    from urllib.parse import unquote  # for the few that have escapes

    return unquote(path)


def url_path(path: str) -> str:
    """Return a path, with or without escapes, as it stands in a URL."""
    if _SAFE.issuperset(path):
        return path
    return normal_uri("x:" + decoded_path(path).replace("%", "%25").replace("?", "%3F").replace("#", "%23"))[2:]


def file_uri(path: str) -> str:
    """Return the ``file://`` URI of a path on this platform, made absolute first (ROOT-18)."""
    text = os.path.abspath(path)
    if os.sep == "\\":
        text = text.replace("\\", "/")
        if re.match(_DRIVE, text):
            return "file:///" + text[:2] + _quote(text[2:])
        if text.startswith("//"):
            return "file:" + _quote(text)
    # POSIX allows two slashes at the start of a path, which would make its first name a host.
    return "file:///" + _quote(text.lstrip("/"))


def path_of(uri: str) -> str:
    """Return the path of a ``file://`` URI on this platform.

    :raises ValueError: it is not a ``file://`` URI, names another host, or has a NUL. A share of a Windows network is
        on another host; opening it would send the user's credentials there.
    """
    if not uri.lower().startswith("file://"):
        raise ValueError(f"{uri[:200]!r} is not a file:// URI")
    host, _, rest = uri[len("file://"):].partition("/")
    if host not in ("", "localhost"):
        raise ValueError(f"{uri[:200]!r} is on the host {host!r}, not on this one")
    try:
        path = "/" + _unquote(rest)
    except UnicodeDecodeError:
        # This happens on Windows alone, where names are text; on POSIX names are bytes, and any bytes can be kept.
        raise ValueError(f"{uri[:200]!r} has escapes that are not UTF-8, which no name on this system is") from None
    if "\0" in path:
        raise ValueError(f"{uri[:200]!r} has a NUL in its path")
    if os.sep == "\\":
        if re.match(_DRIVE, path[1:]):
            path = path[1:]
        elif path.startswith(("//", "/\\")):
            raise ValueError(f"{uri[:200]!r} is on another host, not on this one")
    return path.replace("/", os.sep)


def check_root_uri(uri: str) -> str:
    """Return *uri* if it can be a root.

    :raises ValueError: it is not a ``file://`` URI (ROOT-04), or has a ``..`` or a NUL (ROOT-07).
    """
    if not isinstance(uri, str) or not uri.startswith("file://"):
        raise ValueError(f"a root is a file:// URI, not {str(uri)[:200]!r}; other schemes are not allowed in any revision")
    path = _unquote(uri, "replace")
    if ".." in path.replace("\\", "/").split("/") or "\0" in path:
        raise ValueError(f"the root {uri[:200]!r} must not contain '..' or NUL")
    return uri


def _quote(path: str) -> str:
    return "".join(c if c in _SAFE else "".join(f"%{b:02X}" for b in os.fsencode(c)) for c in path)


def _unquote(text: str, errors: Optional[str] = None) -> str:
    """Return *text* without percent escapes.

    :param errors: how bytes that are not UTF-8 are decoded, as for ``bytes.decode``; by default as in names of files.
    :raises UnicodeDecodeError: there are such bytes, and names of files cannot have them.
    """
    data = re.sub(_ESCAPE, lambda match: bytes([int(match.group(1), 16)]), os.fsencode(text))
    return os.fsdecode(data) if errors is None else data.decode("utf-8", errors)
