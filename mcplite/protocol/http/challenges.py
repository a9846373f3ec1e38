"""Challenges: parses and writes ``WWW-Authenticate`` (RFC 9110, section 11; RFC 6750, section 3).

The client parses what servers send; the server's authorization writes its own.
"""

import re
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Mapping, Optional

from .headers import TOKEN

__all__ = ["Challenge", "find_challenge", "parse_challenges", "write_challenge"]

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
    # A challenge has no NUL, so that one which was cut cannot pass for a shorter one.
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
