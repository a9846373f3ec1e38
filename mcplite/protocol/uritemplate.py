"""URI templates, a subset of RFC 6570: expand and match, both in linear time.

The subset: ``{var}``, ``{+var}``, ``{#var}``, ``{.var}``, ``{/var}``, ``{?a,b}``, ``{&a,b}``, lists of
variables, and ``*`` behind a path variable. Two expressions need literal text between them, or an
operator that marks the start of the second one. Matching never tries anything twice (SEC-70).
"""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .uris import candidates, normal_uri

Value = Union[str, List[str]]
_MAX_TEMPLATE = 8192
_MAX_VARIABLES = 256
_MAX_URI = 65_536
#: For character sets of patterns: the unreserved and the reserved characters of RFC 3986.
_UNRESERVED = r"A-Za-z0-9\-._~"
_RESERVED = r":/?#\[\]@!$&'()*+,;="
_NOT_UNRESERVED = re.compile(f"[^{_UNRESERVED}]")
#: Where reserved characters stay, escapes stay too (RFC 6570, section 3.2.3).
_NOT_RESERVED = re.compile(f"%(?![0-9A-Fa-f]{{2}})|[^%{_UNRESERVED}{_RESERVED}]")
_SEGMENT = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%,:@!$&'()*;=+"
_ANY = "".join(map(chr, range(128)))
_LISTED = _SEGMENT.replace(".", "")
_PATH = _SEGMENT + "/"
_TABLES = {characters: "".join("01"[character in characters] for character in _ANY)
           for characters in (_SEGMENT, _LISTED, _PATH, _ANY)}
_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(b"%(..)")


class _Expression:
    """One ``{...}``: its operator, its variables, which of them are exploded."""

    def __init__(self, body: str, operator: str, names: List[str], exploded: bool) -> None:
        self.text = f"{{{body}}}"
        self.operator = operator
        #: The character that its expansion begins with.
        self.sign = operator if operator != "+" else ""
        self.names = names
        self.exploded = exploded
        #: The character in front of a value, or "" for none; outside of a query, a value without such a character cannot be
        #: absent.
        self.lead = operator if operator in ("#", ".", "/") else ""
        #: The characters of a value. The operator stands between the values of a list, so it is not in them.
        self.characters = (_ANY if operator in ("+", "#") else _PATH if exploded
                           else _LISTED if operator == "." and len(names) > 1 else _SEGMENT)

    @property
    def is_query(self) -> bool:
        return self.operator in ("?", "&")


class Template:
    """A URI template.

    Its text is in the normal form of URIs, see :func:`~.uris.normal_uri`, and so are the URIs that it matches.

    :param text: such as ``weather://{city}/history{?year}``.
    :raises ValueError: it is malformed, too long, or beyond the subset; with the position and the fix.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _MAX_TEMPLATE:
            raise ValueError(f"a URI template has at most {_MAX_TEMPLATE} characters")
        self._parts = _normal_parts(_parse(text), text)
        #: In the normal form.
        self.text = "".join(part if isinstance(part, str) else part.text for part in self._parts)
        texts = [part if isinstance(part, str) else "" for part in self._parts] or [""]
        #: The text that all matching URIs begin with, the text that they end with, and the longest literal text that all of
        #: them have.
        self.prefix, self.suffix, self._longest = texts[0], texts[-1], max(texts, key=len)
        #: Templates with one prefix are tried in the order of this value, the lowest first: whether a variable can have
        #: slashes, and minus the number of characters outside of expressions.
        expressions = [part for part in self._parts if isinstance(part, _Expression)]
        self.breadth = (any(part.operator in ("+", "#") or part.exploded for part in expressions),
                        -sum(len(part) for part in self._parts if isinstance(part, str)))
        self.names: List[str] = []
        for name in (name for part in expressions for name in part.names):
            if name in self.names:
                raise ValueError(f"the variable {name!r} comes twice in {text!r}")
            if len(self.names) == _MAX_VARIABLES:
                raise ValueError(f"a URI template has at most {_MAX_VARIABLES} variables")
            self.names.append(name)
        queries = [index for index, part in enumerate(self._parts) if isinstance(part, _Expression) and part.is_query]
        #: Where the parts of the query begin.
        self._query = queries[0] if queries else len(self._parts)
        if queries and any(not (isinstance(part, _Expression) and part.is_query) for part in self._parts[queries[0]:]):
            raise ValueError(f"{text!r}: a query expression must come last")
        if queries and "{?" in text and "?" in text[:text.index("{?")]:
            raise ValueError(f"{text!r}: a URI has one '?'; behind it write {{&name}} in place of {{?name}}")
        for before, after in zip(self._parts, self._parts[1:]):
            if isinstance(before, _Expression) and isinstance(after, _Expression) and _is_unclear(before, after):
                raise ValueError(f"{text!r}: put text between two expressions, so that it is clear where the first one ends")

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def expand(self, values: Mapping[str, Union[Value, int, float]]) -> str:
        """Return the URI for *values*; a variable without one, or with an empty list, is left out.

        In ``{+var}`` and ``{#var}`` reserved characters and escapes stay as they are.
        """
        return "".join(part if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def fill(self, values: Mapping[str, Union[Value, int, float]]) -> str:
        """Return the URI for *values* as :meth:`expand` does, after a check that they fit the template.

        True and False are written as in JSON.

        :raises ValueError: a variable without which there is no such URI has no value, or the template has no such variable.
        """
        unknown = [name for name in values if name not in self.names]
        if unknown:
            raise ValueError(f"the template {self.text!r} has no variable {unknown[0]!r}; it has"
                             f" {', '.join(map(repr, self.names)) or 'none'}")
        needed = [name for part in self._parts if isinstance(part, _Expression) and not part.is_query and not part.lead
                  for name in part.names]
        missing = [name for name in needed if values.get(name) in (None, "", [])]
        if missing:
            raise ValueError(f"the template {self.text!r} needs a value for {', '.join(map(repr, missing))}")
        return self.expand({name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()})

    def match(self, uri: str) -> Optional[Dict[str, Value]]:
        """Return the variables' values, percent-decoded; None if *uri* does not match in any of its forms."""
        return next((values for values in map(self.match_exactly, candidates(uri)) if values is not None), None)

    def match_exactly(self, uri: str) -> Optional[Dict[str, Value]]:
        """Return the variables' values, percent-decoded; None if *uri*, one of the forms of a URI, does not match.

        Variables of a query are optional and may come in any order; an absent one has no entry. If there are several
        ways to match, the first variable gets the shortest value.
        """
        if self._longest not in uri or len(uri) > _MAX_URI:
            return None
        parts, query = self._parts, self._query
        values: Dict[str, Value] = {}
        if query < len(parts):
            first = parts[query]
            assert isinstance(first, _Expression)
            names = [name for part in parts[query:] if isinstance(part, _Expression) for name in part.names]
            if first.operator == "?":
                uri, _, asked = uri.partition("?")
            else:
                uri, asked = _split_continued(uri, names)
            if not _match_query(asked, names, values):
                return None
        return values if _match_path(uri, parts[:query], values) else None


def normal_template(text: str) -> str:
    """Return the normal form of a template, or of a URI; a malformed template is returned as it is."""
    if "{" not in text:
        return normal_uri(text)
    try:
        return Template(text).text
    except ValueError:
        return text


def _normal_parts(parts: "Sequence[Union[str, _Expression]]", text: str) -> "List[Union[str, _Expression]]":
    """Return the parts, with the text between expressions in the normal form.

    The whole is put into the normal form with marks in place of the expressions.

    :raises ValueError: the normal form lacks an expression, or has it elsewhere.
    """
    expressions = [part for part in parts if isinstance(part, _Expression)]
    token = "qz"
    while token in text.lower():
        token += "q"
    marks = iter(range(len(expressions)))
    marked = "".join(part if isinstance(part, str) else f"{part.sign}{token}{next(marks)}{token}" for part in parts)
    pieces = re.split(f"{token}([0-9]+){token}", normal_uri(marked))
    if pieces[1::2] != [str(index) for index in range(len(expressions))]:
        raise ValueError(f"{text!r}: leave out the segments '..', and write ASCII beside a variable in a host")
    # A variable at the end of the host may have the path in its value.
    ends_host = bool(parts) and isinstance(parts[-1], _Expression) and not parts[-1].sign and pieces[-1] == "/"
    made: "List[Union[str, _Expression]]" = []
    for index, piece in enumerate(pieces[::2]):
        literal = "" if ends_host and index == len(expressions) else piece
        if index < len(expressions):
            sign = expressions[index].sign
            if not literal.endswith(sign):
                raise ValueError(f"{text!r}: {sign!r} cannot stand there in a URI")
            literal = literal[:len(literal) - len(sign)]
        if literal:
            made.append(literal)
        if index < len(expressions):
            made.append(expressions[index])
    return made


def _parse(text: str) -> "Sequence[Union[str, _Expression]]":
    parts: List[Union[str, _Expression]] = []
    at = 0
    while at < len(text):
        start = text.find("{", at)
        end = text.find("}", at)
        if start < 0 or (0 <= end < start):
            if end >= 0:
                raise ValueError(f"{text!r}: the '}}' at {end} closes nothing")
            parts.append(_escape(text[at:], _NOT_RESERVED))
            break
        if start > at:
            parts.append(_escape(text[at:start], _NOT_RESERVED))
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
        if not (names[index].isidentifier() and names[index].isascii()):
            raise ValueError(f"{text!r}: {name!r} in the expression at {at} is not a variable; a variable is a"
                             f" Python identifier of ASCII characters")
    if len(names) > 1 and operator in ("", "+", "#"):
        raise ValueError(f"{text!r}: write one variable for each expression at {at}")
    return _Expression(body, operator, names, exploded)


def _is_unclear(before: _Expression, after: _Expression) -> bool:
    """Whether the end of *before* is ambiguous if *after* follows without text between."""
    if after.is_query:
        return False
    several = before.exploded or len(before.names) > 1
    return not after.lead or before.operator in ("+", "#") or (several and before.operator == after.operator)


def _escape(text: str, which: "re.Pattern[str]") -> str:
    return which.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "surrogatepass")), text)


def _expand(part: _Expression, values: Mapping[str, Union[Value, int, float]]) -> str:
    which = _NOT_RESERVED if part.operator in ("+", "#") else _NOT_UNRESERVED
    pairs: List[str] = []
    for name in part.names:
        value = values.get(name)
        if value is None or value == []:
            continue
        items = [_escape(str(item), which) for item in (value if isinstance(value, list) else [value])]
        if part.is_query:
            pairs.append(f"{name}={','.join(items)}")
        else:
            pairs.extend(items if part.exploded else [",".join(items)])
    if not pairs:
        return ""
    if part.is_query:
        return part.operator + "&".join(pairs)
    return part.lead + (part.lead or ",").join(pairs)


def _decode(text: str) -> Optional[str]:
    """Return the percent-decoded text; None if an escape is broken or the text is not UTF-8."""
    if "%" not in text:
        return text
    if _BROKEN_ESCAPE.search(text):
        return None
    try:
        return _ESCAPE.sub(lambda match: bytes([int(match.group(1), 16)]), text.encode("ascii")).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _match_path(uri: str, parts: "Sequence[Union[str, _Expression]]", values: Dict[str, Value]) -> bool:
    if parts and isinstance(parts[0], str):
        if not uri.startswith(parts[0]):
            return False
        uri, parts = uri[len(parts[0]):], parts[1:]
    if not parts:
        return not uri
    places = _places(uri, parts)
    if not places[0] >> len(uri) & 1:
        return False
    at = 0
    for part, after in zip(parts, places[1:]):
        if isinstance(part, str):
            at += len(part)
            continue
        end = at
        if not part.lead or uri.startswith(part.lead, at):
            # The shortest value for which the rest still matches; a variable with an operator is used if possible.
            possible = after & ((1 << (len(uri) - at)) - 1)
            nearest = len(uri) - possible.bit_length() + 1
            if possible and (not part.lead or nearest <= _reach(uri, at, part)):
                end = nearest
        if end > at and not _assign(uri[at + len(part.lead):end], part, values):
            return False
        at = end
    return True


def _places(uri: str, parts: "Sequence[Union[str, _Expression]]") -> List[int]:
    """Return for each part, and for the end, the places in the URI from which it and all that follow match.

    A set of places is an integer, whose bit n stands for the place n characters before the end. One addition moves
    all places at once through any number of characters, so that nothing is tried twice.
    """
    kinds: Dict[str, int] = {}

    def among(characters: str) -> int:
        if characters not in kinds:
            # Translated to "0" and "1", the URI is a number in base two.
            table = _TABLES.get(characters) or "0" * ord(characters) + "1" + "0" * (127 - ord(characters))
            kinds[characters] = int("0" + uri.translate(table), 2)
        return kinds[characters]

    found = [1]
    for part in reversed(parts):
        here = after = found[-1]
        if isinstance(part, str):
            for character in reversed(part):
                here = (here & among(character)) << 1
        elif part.lead:
            some = among(part.characters)
            for _ in range(1 if part.exploded else len(part.names)):
                here = after | (_through(here, some) & among(part.lead)) << 1
        else:
            some = among(part.characters)
            here = _through((after & some) << 1, some)
        found.append(here)
    found.reverse()
    return found


def _through(places: int, some: int) -> int:
    """Return the places, and the places from which one of them is reached through characters of *some* alone."""
    return (((places & some) + some) ^ some) | places


def _reach(uri: str, at: int, part: _Expression) -> int:
    """Return the last place where a variable, or a list of them, that begins with an operator can end."""
    for _ in range(1 if part.exploded else len(part.names)):
        if not uri.startswith(part.lead, at):
            break
        at += 1
        at += len(uri) - at - len(uri[at:].lstrip(part.characters))
    return at


def _assign(text: str, part: _Expression, values: Dict[str, Value]) -> bool:
    several = part.exploded or len(part.names) > 1
    found = [_decode(piece) for piece in (text.split(part.lead) if several else [text])]
    decoded = [value for value in found if value is not None]
    values.update({part.names[0]: decoded} if part.exploded else zip(part.names, decoded))
    return len(decoded) == len(found)


def _split_continued(uri: str, names: List[str]) -> Tuple[str, str]:
    """Cut off the ``&name=value`` pairs at the end that belong to a ``{&...}`` expression."""
    end = len(uri)
    while True:
        start = uri.rfind("&", 0, end)
        if start < 0 or uri[start + 1:end].partition("=")[0] not in names:
            return uri[:end], uri[end + 1:]
        end = start


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
