"""URLs of authorization: the well-known URLs of RFC 8414, RFC 9728 and OpenID, and the checks of all others.

Issuers and resources are compared as texts (RFC 9207, section 2.4); only the comparison with the URL of *this* server
accepts other spellings of the same URL (AUC-14, AUC-15).

URLs are parsed strictly by RFC 3986: two lenient parsers can see two different hosts in one text. A URL with
characters that ``urlsplit`` drops (line ends) or browsers replace (backslashes) is refused.
"""

import ipaddress
import re
from typing import List, NamedTuple, Tuple

from ..error_text import quoted
from .headers import DEFAULT_PORTS

__all__ = [
    "PROTECTED_RESOURCE", "base_of", "canonical", "check_url", "covers", "issuer_metadata_urls", "is_loopback", "origin_of",
    "path_of", "resource_metadata_urls",
]

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
_AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_CHARACTERS = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
_URL = re.compile(
    r"([A-Za-z]+)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~]+)(?::([0-9]{0,5}))?(/[^?#\[\]]*)?(?:\?([^#]*))?(#.*)?")
_USER = re.compile(r"[^:/?#]*://[^/?#]*@")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile(r"[A-Za-z0-9\-._~]")
#: A ``.`` or ``..`` for servers that take escapes for separators, or end a segment at a semicolon.
_HIDDEN_STEP = re.compile(r"(?:/|%2F|%5C)\.\.?(?:/|;|%2F|%3B|%5C|\Z)")


class _Parts(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str
    query: str
    fragment: bool


def _parse(url: str) -> _Parts:
    found = _URL.fullmatch(url) if _CHARACTERS.fullmatch(url) else None
    if found is None or found[1].lower() not in DEFAULT_PORTS:
        if _USER.match(url):
            raise ValueError("a URL must not have a user name in it")
        raise ValueError(f"{_without_secrets(url)} is not an http or https URL")
    scheme, host = found[1].lower(), found[2].strip("[]").lower()
    port = int(found[3] or DEFAULT_PORTS[scheme])
    if not 0 < port < 65_536:
        raise ValueError(f"{_without_secrets(url)} has a port that does not exist")
    if ":" in host or found[2].startswith("["):
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"{_without_secrets(url)} has no valid IPv6 address in its brackets") from None
    return _Parts(scheme, host, port, _without_steps(found[4] or ""), found[5] or "", found[6] is not None)


def _without_secrets(url: str) -> str:
    """Return a URL for an error, without its user name, password and query, which may be secret (AUTH-19)."""
    if "@" in url and _URL.fullmatch(url) is None:
        return "'...@...'"
    return quoted(re.split(r"[?#]", url, maxsplit=1)[0], 200)


def _without_steps(path: str) -> str:
    """Resolve ``.`` and ``..``, as the sender of the request does (RFC 3986, section 5.2.4)."""
    kept: List[str] = []
    plain = ""
    for segment in path.split("/")[1:]:
        plain = segment.replace("%2e", ".").replace("%2E", ".")
        if plain == "..":
            del kept[-1:]
        elif plain != ".":
            kept.append(segment)
    if plain in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept) if path else ""


def _without_slash(path: str) -> str:
    """Remove the last slash; of several slashes each is significant."""
    return path[:-1] if path.endswith("/") and not path.endswith("//") else path


def _spelled(path: str) -> str:
    """Normalise escapes (RFC 3986, section 6.2.2)."""
    def one(found: "re.Match[str]") -> str:
        character = chr(int(found[1], 16))
        return character if _UNRESERVED.fullmatch(character) else found[0].upper()

    return _ESCAPE.sub(one, path)


def origin_of(url: str) -> Tuple[str, str, int]:
    """Return scheme, host and port of a URL.

    :raises ValueError: it is not an http or https URL, or has a user name before its host.
    """
    return _parse(url)[:3]


def base_of(url: str) -> str:
    """Return a URL's scheme, host and port (AUM-01).

    :raises ValueError: it is not an http or https URL.
    """
    scheme, host, port = origin_of(url)
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}" + ("" if port == DEFAULT_PORTS[scheme] else f":{port}")


def path_of(url: str) -> str:
    """Return a URL's normalised path, the same for all spellings of a URL; empty if there is none.

    :raises ValueError: it is not an http or https URL.
    """
    return _spelled(_parse(url).path)


def canonical(url: str) -> str:
    """Return a server's canonical URL: scheme and host in lower case, no default port, fragment or last slash.

    ``..`` in the path is resolved, as it never reaches the server; escapes stay as they are.

    :raises ValueError: it is not an http or https URL.
    """
    parts = _parse(url)
    return base_of(url) + _without_slash(parts.path) + (f"?{parts.query}" if parts.query else "")


def covers(resource: str, url: str) -> bool:
    """Whether metadata of *resource* covers the server at *url*: it is the same, or a parent path (AUC-06, AUTH-24)."""
    try:
        ours, theirs = _parse(url), _parse(resource)
    except ValueError:
        return False
    if theirs.fragment or ours[:3] != theirs[:3]:
        return False
    path, parent = _without_slash(_spelled(ours.path)), _without_slash(_spelled(theirs.path))
    if theirs.query:
        return theirs.query == ours.query and path == parent
    return path == parent or (path.startswith(parent + "/") and _HIDDEN_STEP.search(path) is None)


def resource_metadata_urls(url: str) -> List[str]:
    """Return the URLs where the metadata of a protected resource may be, in the order to try (AUC-05).

    :raises ValueError: it is not an http or https URL.
    """
    base, parts = base_of(url), _parse(url)
    path = _without_slash(parts.path)
    query = f"?{parts.query}" if parts.query else ""
    with_path = [base + PROTECTED_RESOURCE + path + query] if path or query else []
    return [*with_path, base + PROTECTED_RESOURCE]


def issuer_metadata_urls(issuer: str) -> List[str]:
    """Return the URLs where the metadata of an authorization server may be, in the order to try (AUC-08).

    :raises ValueError: it is not an http or https URL.
    """
    base, path = base_of(issuer), _without_slash(_parse(issuer).path)
    if not path:
        return [base + _AUTHORIZATION_SERVER, base + _OPENID]
    return [base + _AUTHORIZATION_SERVER + path, base + _OPENID + path, base + path + _OPENID]


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback name or address; names are not looked up (AUTH-35)."""
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if name.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # Not is_loopback: its answer for IPv4 in IPv6 differs between versions of Python.
    return int(address) >> 24 == 127 if address.version == 4 else int(address) == 1 and "%" not in name


def check_url(url: str, what: str) -> str:
    """Return a URL if it may be used for authorization: with https, or with http on loopback (AUC-19).

    :param what: names the URL in the error.
    :raises ValueError: it may not be used; the text says why.
    """
    if not isinstance(url, str):
        raise ValueError(f"{what} must be a URL, not of type {type(url).__name__}")
    try:
        scheme, host, _ = origin_of(url)
    except ValueError as error:
        raise ValueError(f"{what} cannot be used: {error}") from error
    if scheme != "https" and not is_loopback(host):
        raise ValueError(f"{what} is {_without_secrets(url)}; authorization needs https, except on this machine")
    return url
