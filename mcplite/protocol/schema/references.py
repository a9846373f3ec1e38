"""The parts of a JSON Schema, and what its references refer to: by pointer, anchor or ``$id``. Nothing is ever fetched.

An :class:`Extent` limits how much is built from a schema whose references multiply its parts.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Tuple

#: Keywords with subschemas: as their value, in a list, or in an object.
_ONE = frozenset({"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
                  "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"})
_LISTS = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
MAPS = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})


class BadURI(ValueError):
    """A reference, or an ``$id``, is not a URI; the text is for the user."""


class Outside(LookupError):
    """A reference is to another document: its URI, and the fragment."""

    def __init__(self, uri: str, fragment: str) -> None:
        super().__init__(uri)
        self.uri = uri
        self.fragment = fragment


class References:
    """The resources and anchors of one schema.

    :param root: the schema, an object.
    :param draft7: whether ``$id`` does not count beside ``$ref``, as in draft-07.
    :param anchors_by_id: whether an ``$id`` of a fragment alone is an anchor, as in draft-07.
    :raises BadURI: an ``$id`` is not a URI.
    """

    def __init__(self, root: Dict[str, Any], draft7: bool, anchors_by_id: bool) -> None:
        self._draft7 = draft7
        #: Resources by URI, and parts of them by URI and anchor; each with the base URI around it.
        self._resources: Dict[str, Tuple[Any, str]] = {"": (root, "")}
        self._anchors: Dict[Tuple[str, str], Tuple[Any, str]] = {}
        waiting: List[Tuple[Any, str]] = [(root, "")]
        while waiting:
            node, base = waiting.pop()
            if not isinstance(node, dict):
                continue
            inner = self.base(node, base)
            if inner != base:
                self._resources.setdefault(inner, (node, base))
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(keyword), str):
                    self._anchors.setdefault((inner, node[keyword]), (node, base))
            own = node.get("$id")
            if anchors_by_id and isinstance(own, str) and own.startswith("#"):
                self._anchors.setdefault((inner, own[1:]), (node, base))
            waiting.extend((child, inner) for child in below(node))

    def base(self, node: Dict[str, Any], base: str) -> str:
        """Return the base URI of the references in a schema.

        :param base: that of the schema around it; empty for the whole.
        :raises BadURI: its ``$id`` is not a URI.
        """
        own = node.get("$id")
        if not isinstance(own, str) or self._draft7 and "$ref" in node:
            return base
        return self._joined(base, own)[0]

    def find(self, reference: str, base: str) -> Tuple[Any, str]:
        """Return the part that a reference refers to, or None if there is no such part; and the base URI around it.

        :param base: the base URI where the reference stands.
        :raises Outside: it refers to another document.
        :raises BadURI: it is not a URI.
        """
        uri, fragment = self._joined(base, reference)
        resource = self._resources.get(uri)
        if resource is None:
            raise Outside(uri, fragment)
        if fragment.startswith("/"):
            return self._follow(resource[0], fragment, uri)
        return self._anchors.get((uri, fragment), (None, uri)) if fragment else resource

    def _joined(self, base: str, reference: str) -> Tuple[str, str]:
        """Return the absolute URI of a reference, and its fragment."""
        from urllib.parse import unquote, urldefrag, urljoin  # few schemas have references

        try:
            uri, fragment = urldefrag(reference)
            return (urljoin(base, uri) if uri else base), unquote(fragment)
        except ValueError as error:
            raise BadURI(f"{reference[:200]!r} is not a URI: {error}") from error

    def _follow(self, target: Any, pointer: str, base: str) -> Tuple[Any, str]:
        for count, step in enumerate(pointer[1:].split("/")):
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and step in target:
                base = self.base(target, base) if count else base
                target = target[step]
            elif isinstance(target, list) and step.isdecimal() and int(step[:9]) < len(target):
                target = target[int(step[:9])]
            else:
                return None, base
        return target, base


class LenientReferences(References):
    """The references of a foreign schema that is shown, but not checked: an unusable reference refers to nothing."""

    def __init__(self, root: Any) -> None:
        super().__init__(root if isinstance(root, dict) else {}, False, True)

    def base(self, node: Dict[str, Any], base: str) -> str:
        try:
            return super().base(node, base)
        except BadURI:
            return base

    def find(self, reference: str, base: str) -> Tuple[Any, str]:
        """Return the part that a reference refers to, or None if there is no such part; and the base URI around it."""
        for written in (reference, reference.replace("%", "%25")):  # names with percent signs are often written as they are
            try:
                found = super().find(written, base)
            except (BadURI, Outside):
                break
            if found[0] is not None:
                return found
        return None, base


def below(node: Dict[str, Any]) -> Iterator[Any]:
    """Yield the schemas that are direct parts of a schema."""
    for keyword, value in node.items():
        if isinstance(value, dict):
            if keyword in MAPS:
                yield from value.values()
            elif keyword in _ONE:
                yield value
        elif isinstance(value, list) and keyword in _LISTS:
            yield from value


def rebuilt(schema: Any, change: Callable[[Dict[str, Any]], Dict[str, Any]]) -> Any:
    """Return a copy of a schema, with *change* applied to each schema in it, the innermost first."""
    if not isinstance(schema, dict):
        return schema
    made: Dict[str, Any] = {}
    for keyword, value in schema.items():
        if isinstance(value, dict) and keyword in MAPS:
            value = {name: rebuilt(part, change) for name, part in value.items()}
        elif isinstance(value, list) and keyword in _LISTS:
            value = [rebuilt(part, change) for part in value]
        elif keyword in _ONE:
            value = rebuilt(value, change)
        made[keyword] = value
    return change(made)


class Extent:
    """How much may still be built from a foreign schema or text: nodes, and characters of texts.

    References multiply what they refer to with each level, so that a schema of a few kilobytes could describe more than any
    memory holds. A schema that a person or a model can use is far below both limits.

    :param nodes: subschemas, values, rows.
    :param characters: of names, values and texts.
    """

    __slots__ = ("_characters", "_nodes")

    def __init__(self, nodes: int = 5000, characters: int = 200_000) -> None:
        self._nodes = nodes
        self._characters = characters

    def take(self, nodes: int = 1, characters: int = 0) -> bool:
        """Count nodes and characters that are to be built; return whether the limits still allow them."""
        self._nodes -= nodes
        self._characters -= characters
        return (not nodes or self._nodes >= 0) and (not characters or self._characters >= 0)

    def cut(self, text: str) -> str:
        """Count a text, and return it; the part beyond the limit is replaced by "..."."""
        left = max(0, self._characters)
        self._characters -= len(text)
        return text if len(text) <= left else text[:left] + "..."
