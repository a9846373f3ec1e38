"""URI templates, a subset of RFC 6570: expand and match, both in linear time.

May import: nothing of ours.

The subset: ``{var}``, ``{+var}``, ``{#var}``, ``{.var}``, ``{/var}``, ``{?a,b}``, ``{&a,b}``, lists of
variables, and ``*`` behind a path variable. Two expressions need literal text between them, which is
what makes matching unambiguous and linear (SEC-70).
"""

from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

__all__ = ["Template"]

Value = Union[str, List[str]]
_MAX_TEMPLATE = 8192
_MAX_VARIABLES = 256
_MAX_URI = 65_536
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_RESERVED = frozenset(":/?#[]@!$&'()*+,;=")
_HEX = frozenset("0123456789abcdefABCDEF")


class _Expression:
    """One ``{...}``: its operator, its variables, which of them are exploded."""

    def __init__(self, operator: str, names: List[str], exploded: bool) -> None:
        self.operator = operator
        self.names = names
        self.exploded = exploded

    @property
    def is_query(self) -> bool:
        return self.operator in ("?", "&")


class Template:
    """A URI template.

    :param text: such as ``weather://{city}/history{?year}``.
    :raises ValueError: it is malformed, too long, or beyond the subset; with the position and the fix.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_TEMPLATE:
            raise ValueError(f"a URI template has at most {_MAX_TEMPLATE} characters")
        self.text = text
        self._parts = list(_parse(text))
        self.names: List[str] = []
        for part in self._parts:
            if isinstance(part, _Expression):
                for name in part.names:
                    if name in self.names:
                        raise ValueError(f"the variable {name!r} comes twice in {text!r}")
                    self.names.append(name)
        if len(self.names) > _MAX_VARIABLES:
            raise ValueError(f"a URI template has at most {_MAX_VARIABLES} variables")
        queries = [index for index, part in enumerate(self._parts) if isinstance(part, _Expression) and part.is_query]
        if queries and any(not (isinstance(part, _Expression) and part.is_query) for part in self._parts[queries[0]:]):
            raise ValueError(f"{text!r}: a query expression must come last")
        for before, after in zip(self._parts, self._parts[1:]):
            if isinstance(before, _Expression) and isinstance(after, _Expression) and after.operator in ("", "+"):
                raise ValueError(f"{text!r}: put text between two expressions, or it is not clear where one ends")

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def expand(self, values: Mapping[str, Union[Value, int, float]]) -> str:
        """Return the URI for *values*; a variable without one is left out."""
        out: List[str] = []
        for part in self._parts:
            out.append(part if isinstance(part, str) else _expand(part, values))
        return "".join(out)

    def match(self, uri: str) -> Optional[Dict[str, Value]]:
        """Return the variables' values, percent-decoded, or None when *uri* is not of this template.

        Variables of a query are optional and may come in any order; one that is absent has no entry.
        """
        if len(uri) > _MAX_URI:
            return None
        parts = self._parts
        query = next((index for index, part in enumerate(parts) if isinstance(part, _Expression) and part.is_query),
                     len(parts))
        values: Dict[str, Value] = {}
        if query < len(parts):
            first = parts[query]
            assert isinstance(first, _Expression)
            names = [name for part in parts[query:] if isinstance(part, _Expression) for name in part.names]
            if first.operator == "?":
                uri, mark, asked = uri.partition("?")
            else:
                uri, asked, mark = _split_continued(uri, parts[:query], names)
            if not _match_query(asked, names, values):
                return None
        return values if _match_path(uri, parts[:query], values) else None


def _parse(text: str) -> "Sequence[Union[str, _Expression]]":
    parts: List[Union[str, _Expression]] = []
    at = 0
    while at < len(text):
        start = text.find("{", at)
        end = text.find("}", at)
        if start < 0 or (0 <= end < start):
            if end >= 0:
                raise ValueError(f"{text!r}: the '}}' at {end} closes nothing")
            parts.append(text[at:])
            break
        if start > at:
            parts.append(text[at:start])
        if end < 0 or "{" in text[start + 1:end]:
            raise ValueError(f"{text!r}: the '{{' at {start} is not closed")
        parts.append(_expression(text[start + 1:end], text, start))
        at = end + 1
    return parts


def _expression(body: str, text: str, at: int) -> _Expression:
    operator = body[:1] if body[:1] in ("+", "#", ".", "/", "?", "&") else ""
    names = body[len(operator):].split(",")
    exploded = False
    for index, name in enumerate(names):
        if name.endswith("*"):
            if operator != "/" or len(names) > 1:
                raise ValueError(f"{text!r}: '*' at {at} is served only in {{/path*}}")
            exploded, names[index] = True, name[:-1]
        if not names[index].isidentifier():
            raise ValueError(f"{text!r}: {name!r} in the expression at {at} is no variable; a variable is a"
                             f" Python identifier")
    if len(names) > 1 and operator in ("", "+", "#"):
        raise ValueError(f"{text!r}: write one variable for each expression at {at}")
    return _Expression(operator, names, exploded)


def _encode(value: object, allowed: "frozenset[str]") -> str:
    out: List[str] = []
    for character in str(value):
        if character in allowed:
            out.append(character)
        else:
            out.extend(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
    return "".join(out)


def _expand(part: _Expression, values: Mapping[str, Union[Value, int, float]]) -> str:
    present = [(name, values[name]) for name in part.names if values.get(name) is not None]
    if not present:
        return ""
    allowed = _UNRESERVED | _RESERVED if part.operator in ("+", "#") else _UNRESERVED
    if part.is_query:
        pairs = [f"{name}={_encode(value, allowed)}" for name, value in present]
        return part.operator + "&".join(pairs)
    texts: List[str] = []
    for _, value in present:
        items = value if isinstance(value, list) else [value]
        encoded = [_encode(item, allowed) for item in items]
        texts.extend(encoded if part.exploded else [",".join(encoded)])
    lead = {"#": "#", ".": ".", "/": "/"}.get(part.operator, "")
    return lead + (lead if part.operator in (".", "/") else ",").join(texts)


def _decode(text: str) -> Optional[str]:
    """Return the percent-decoded text; None when an escape is broken or it is not UTF-8."""
    if "%" not in text:
        return text
    out = bytearray()
    at = 0
    raw = text.encode("utf-8", "surrogatepass")
    while at < len(raw):
        if raw[at] == 0x25:
            digits = raw[at + 1:at + 3].decode("latin-1")
            if len(digits) < 2 or not _HEX.issuperset(digits):
                return None
            out.append(int(digits, 16))
            at += 3
        else:
            out.append(raw[at])
            at += 1
    try:
        return out.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _match_path(uri: str, parts: "Sequence[Union[str, _Expression]]", values: Dict[str, Value]) -> bool:
    at = 0
    for index, part in enumerate(parts):
        if isinstance(part, str):
            if not uri.startswith(part, at):
                return False
            at += len(part)
            continue
        end = _end_of(uri, at, part, parts[index + 1:])
        if end < at or not _assign(uri[at:end], part, values):
            return False
        at = end
    return at == len(uri)


def _end_of(uri: str, at: int, part: _Expression, rest: "Sequence[Union[str, _Expression]]") -> int:
    """Return where the value of *part* ends: at the literal that follows, or where it cannot go on."""
    if part.operator in ("+", "#") or part.exploded:
        limit = len(uri)
    else:
        limit = at + 1 if part.operator in ("/", ".") and uri.startswith(part.operator, at) else at
        for _ in range(len(part.names)):
            while limit < len(uri) and (uri[limit] in _UNRESERVED or uri[limit] in "%,:@!$'()*;=+"):
                if part.operator == "." and uri[limit] == ".":
                    break
                limit += 1
            if part.operator and _ < len(part.names) - 1 and uri.startswith(part.operator, limit):
                limit += 1
            else:
                break
    if not rest:
        return limit
    follower = rest[0]
    if isinstance(follower, str):
        # The last possible place for a greedy variable, the first for a simple one.
        where = uri.rfind(follower, at, limit + len(follower)) if limit == len(uri) and len(rest) == 1 else \
            uri.find(follower, at, limit + len(follower))
        return where
    lead = follower.operator
    where = uri.find(lead, at + 1, limit + 1) if lead else -1
    return where if where >= 0 else limit


def _assign(text: str, part: _Expression, values: Dict[str, Value]) -> bool:
    lead = {"#": "#", ".": ".", "/": "/"}.get(part.operator, "")
    if lead:
        if not text:
            return True  # an undefined variable leaves nothing behind
        if not text.startswith(lead):
            return False
        text = text[len(lead):]
    if part.exploded:
        items = [_decode(item) for item in text.split("/")]
        if None in items:
            return False
        values[part.names[0]] = [item for item in items if item is not None]
        return True
    pieces = text.split(part.operator) if len(part.names) > 1 else [text]
    if len(pieces) > len(part.names):
        return False
    for name, piece in zip(part.names, pieces):
        value = _decode(piece)
        if value is None or (not value and not lead):
            return False
        values[name] = value
    return True


def _split_continued(uri: str, before: "Sequence[Union[str, _Expression]]", names: List[str]) -> Tuple[str, str, str]:
    """Cut off the ``&name=value`` pairs at the end that belong to a ``{&...}`` expression."""
    pairs: List[str] = []
    while True:
        head, mark, last = uri.rpartition("&")
        if not mark or last.partition("=")[0] not in names:
            return uri, "&".join(reversed(pairs)), ""
        pairs.append(last)
        uri = head


def _match_query(asked: str, names: List[str], values: Dict[str, Value]) -> bool:
    if not asked:
        return True
    for pair in asked.split("&"):
        name, _, text = pair.partition("=")
        value = _decode(text.replace("+", "%20"))
        if name not in names or name in values or value is None:
            return False
        values[name] = value
    return True
