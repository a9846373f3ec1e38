"""What authorization writes into HTTP: the challenges of ``WWW-Authenticate``, and URLs, which are checked strictly.

The client parses the challenges that servers send (RFC 9110, section 11; RFC 6750, section 3); a server writes its own.

The well-known URLs are those of RFC 8414, RFC 9728 and OpenID. Issuers and resources are compared as texts (RFC 9207,
section 2.4); only the comparison with the URL of *this* server accepts other spellings of the same URL (AUC-14, AUC-15).
URLs are parsed strictly by RFC 3986: two lenient parsers can see two different hosts in one text. A URL with
characters that ``urlsplit`` drops (line ends) or browsers replace (backslashes) is refused.
"""

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ..error_text import quoted
from ..uris import with_escapes, without_dots
from .headers import DEFAULT_PORTS, TOKEN

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
_AUTHORIZATION_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
#: The paths of an authorization server's metadata; the path of its identifier stands behind them.
ISSUER_METADATA = (_AUTHORIZATION_SERVER, _OPENID)
_CHARACTERS = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
_URL = re.compile(
    r"([A-Za-z]+)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~]+)(?::([0-9]{0,5}))?(/[^?#\[\]]*)?(?:\?([^#]*))?(#.*)?")
_USER = re.compile(r"[^:/?#]*://[^/?#]*@")
_ESCAPE = r"%([0-9A-Fa-f]{2})"
_STEP = re.compile(r"(?<=/)(?:\.|%2[Ee]){1,2}(?=/|\Z)")
#: A segment ``.`` or ``..`` as some servers see it: they take escapes for separators, or end a segment at a semicolon.
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
    """Resolve ``.`` and ``..``, escaped or not, as the sender of the request does (RFC 3986, section 5.2.4)."""
    return without_dots(_STEP.sub(lambda found: found[0].lower().replace("%2e", "."), path))


def _without_slash(path: str) -> str:
    """Remove a slash at the end; if several slashes are there, each is significant and stays."""
    return path[:-1] if path.endswith("/") and not path.endswith("//") else path


def _spelled(path: str) -> str:
    """Normalise escapes (RFC 3986, section 6.2.2)."""
    return with_escapes(path, _ESCAPE)


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
    """Return a URL's normalised path, which is equal for all spellings of the URL; empty if there is none.

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
    """Whether metadata of *resource* covers the server at *url*: it has this URL, or a parent path (AUC-06, AUTH-24)."""
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
    # The attribute is_loopback is not used: its value for IPv4 in IPv6 differs between versions of Python.
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


#: One parameter. No two adjacent parts match the same character, so that a failed match takes linear time.
_PARAMETER = re.compile(
    r"(" + TOKEN + r")[ \t]*=[ \t]*"
    r'(?:"([^"\\]*(?:\\.[^"\\]*)*)"|(' + TOKEN + r"))[ \t]*(?=,|\Z)", re.DOTALL)
_SCHEME = re.compile(r"(" + TOKEN + r")(?:[ \t]+(?![ \t=])|(?=[ \t]*(?:,|\Z)))")
_TOKEN68 = re.compile(r"[A-Za-z0-9\-._~+/]+=*[ \t]*(?=,|\Z)")
_GAP = re.compile(r"[ \t,]+")
#: A folded line, which an HTTP library may leave in the value (RFC 9112, section 5.2).
_FOLD = re.compile(r"[\r\n]+[ \t]*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
#: Characters of a header that are parsed (AUTH-27).
_LIMIT = 16_384
#: Characters that are not written into a quoted string; scopes and errors do not have them (RFC 6749, appendix A).
_UNQUOTABLE = re.compile(r"[^\x20-\x7e]")


@dataclass
class Challenge:
    """One scheme that a server accepts, with its parameters."""

    #: In lower case.
    scheme: str
    #: By name in lower case; of a repeated name the first counts.
    parameters: Dict[str, str] = field(default_factory=dict)

    def get(self, name: str) -> Optional[str]:
        """Return a parameter, or None."""
        return self.parameters.get(name)

    @property
    def scopes(self) -> Optional[List[str]]:
        """The scopes of the challenge; None without any."""
        named = (self.get("scope") or "").split()
        return list(dict.fromkeys(named)) or None


def parse_challenges(header: str) -> List[Challenge]:
    """Return the challenges of a header; several headers are joined with commas.

    Parsing ends at the first malformed part and returns the challenges before it (AUTH-27). It takes linear time.
    """
    # If the header is cut, a NUL marks the place: a challenge has no NUL, so that the cut challenge cannot pass for a whole,
    # shorter one.
    text = _FOLD.sub(" ", header[:_LIMIT]) + ("\0" if len(header) > _LIMIT else "")
    found: List[Challenge] = []
    at = _skip(text, 0)
    while at < len(text):
        parameter = _PARAMETER.match(text, at) if found else None
        if parameter is not None:
            name, quoted, plain = parameter.groups()
            value = plain if quoted is None else _ESCAPED.sub(r"\1", quoted)
            found[-1].parameters.setdefault(name.lower(), value)
            at = _skip(text, parameter.end())
            continue
        scheme = _SCHEME.match(text, at)
        if scheme is None:
            break
        found.append(Challenge(scheme.group(1).lower()))
        at = scheme.end()
        credentials = _TOKEN68.match(text, at)
        if credentials is not None and _PARAMETER.match(text, at) is None:
            at = credentials.end()
        at = _skip(text, at)
    return found


def _skip(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return at if gap is None else gap.end()


def find_challenge(challenges: Iterable[Challenge], *schemes: str) -> Optional[Challenge]:
    """Return the first challenge of the first scheme that has one."""
    known = list(challenges)
    return next((challenge for scheme in schemes for challenge in known if challenge.scheme == scheme), None)


def write_challenge(scheme: str, parameters: Mapping[str, Optional[str]]) -> str:
    """Return a challenge as a header's value; parameters that are None are left out.

    A character that a header cannot have becomes a question mark, so that foreign text cannot end the line (SEC-18).

    :raises ValueError: the scheme or a name is not a token.
    """
    said = []
    for name in (scheme, *parameters):
        if re.fullmatch(TOKEN, name) is None:
            raise ValueError(f"{name[:50]!r} is not a name of a challenge or parameter")
    for name, value in parameters.items():
        if value is not None:
            escaped = _UNQUOTABLE.sub("?", value).replace("\\", "\\\\").replace('"', '\\"')
            said.append(f'{name}="{escaped}"')
    return f"{scheme} {', '.join(said)}" if said else scheme
