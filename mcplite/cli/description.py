"""The command ``describe``: a server and what it offers in words, each with an example that can be pasted.

Each member of a tool's schema is described with its type, default and limits, for people who are about to call the tool;
``protocol/schema/type_signature.py`` describes a tool in one line. Every line of a server's text is indented, so that it cannot
pass for a heading of this program.
"""

import inspect
import json
import re
import shlex
import shutil
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..protocol.schema.references import Extent, LenientReferences, References
from ..protocol.schema.type_signature import arguments_of, result_of
from ..protocol.uritemplate import Template
from .parser import program_of
from .printing import clean, clean_line, styled, table, wrapped

__all__ = [
    "Found", "argument_words", "described", "example_of", "example_uri", "examples_of", "is_number", "limits_of", "markdown_of",
    "members_of", "names_of", "pasted", "prompt_words", "resolved",
]

#: Levels of objects whose members are shown.
_DEPTH = 4
#: Characters that are shown of a pattern and of an example.
_LONGEST = 60


def members_of(schema: Any) -> List[Tuple[str, str]]:
    """Return a row for each member of an object's schema: its name and type, and what else the schema says about it.

    Members of inner objects follow their object, as ``filter.city``, and those of a list's items as ``points[].x``.
    """
    extent = Extent()
    rows = list(_members(schema, LenientReferences(schema), "", _DEPTH, extent))
    return rows if extent.take(1, 1) else [*rows, ("...", "this schema has more than fits here; see list --json")]


def _members(schema: Any, root: References, place: str, depth: int, extent: Extent) -> Iterator[Tuple[str, str]]:
    found = resolved(schema, root)
    properties = found.get("properties")
    if not isinstance(properties, Mapping) or not extent.take(len(properties), 1):
        return
    for argument in arguments_of(found):
        one = properties[argument.name]
        inner = resolved(one, root)
        label = f"{place}{argument.name}: {argument.words}"
        parts = [] if argument.required else [f"default {argument.default}" if argument.default else "optional"]
        # A member that refers to a definition may have words of its own beside the reference.
        own = one if isinstance(one, Mapping) else {}
        parts += limits_of({**inner, **own})
        text = own.get("description") or inner.get("description") or own.get("title") or ""
        row = "; ".join(filter(None, [str(text).strip().rstrip("."), *parts]))
        extent.take(0, len(label) + len(row))
        yield label, row
        if depth > 1:
            items = resolved(inner.get("items"), root)
            yield from _members(inner, root, f"{place}{argument.name}.", depth - 1, extent)
            yield from _members(items, root, f"{place}{argument.name}[].", depth - 1, extent)


def resolved(schema: Any, root: References) -> Dict[str, Any]:
    """Return the schema that a local reference refers to, or the first alternative that is not null, or the schema itself.

    References and alternatives are followed for a few steps; after that, the result is empty.

    :param root: finds what a reference refers to.
    """
    for _ in range(_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(reference, str):
            schema, _ = root.find(reference, "")
        elif isinstance(options, list):
            schema = next((one for one in options if not (isinstance(one, Mapping) and one.get("type") == "null")), {})
        else:
            return dict(schema)
    return {}


def limits_of(schema: Mapping[str, Any]) -> List[str]:
    """Return what a schema demands of a value besides its type, in words."""
    found = []
    if is_number(schema.get("minimum")) and is_number(schema.get("maximum")):
        found.append(f"{schema['minimum']} to {schema['maximum']}")
    else:
        found += [f"{words} {schema[key]}" for key, words in (("minimum", "at least"), ("maximum", "at most"))
                  if is_number(schema.get(key))]
    found += [f"{words} {schema[key]}" for key, words in (
        ("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than"), ("multipleOf", "a multiple of"))
        if is_number(schema.get(key))]
    for least, most, unit in (("minLength", "maxLength", "character"), ("minItems", "maxItems", "item"),
                              ("minProperties", "maxProperties", "member")):
        found += _count(schema.get(least), schema.get(most), unit)
    if schema.get("uniqueItems") is True:
        found.append("all different")
    if isinstance(schema.get("format"), str):
        found.append(f"format {schema['format']}")
    if isinstance(schema.get("pattern"), str):
        found.append(f"matches {_cut(schema['pattern'])}")
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        found.append(f"for example {_cut(json.dumps(examples[0], ensure_ascii=False))}")
    return found


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def is_number(value: Any) -> bool:
    """Return whether a value is a number in JSON."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _count(least: Any, most: Any, unit: str) -> List[str]:
    if is_number(least) and is_number(most):
        return [f"{least} {unit}{'' if least == 1 else 's'}" if least == most else f"{least} to {most} {unit}s"]
    for number, words in ((least, "at least"), (most, "at most")):
        if is_number(number) and number:
            return [f"{words} {number} {unit}{'' if number == 1 else 's'}"]
    return []


#: By format of a schema: an example of such a text.
_FORMATS = {"date": "1999-12-31", "date-time": "1999-12-31T12:00:00Z", "time": "12:00:00Z", "duration": "PT1H",
            "email": "user@example.com", "uri": "https://example.com/", "hostname": "example.com", "ipv4": "192.0.2.1",
            "ipv6": "2001:db8::1", "uuid": "123e4567-e89b-12d3-a456-426614174000"}
#: Limits of an example: levels of lists and objects, and items of a list or characters of a text, even if the schema demands
#: more.
_EXAMPLE_DEPTH = 5
_MOST = 20


def pasted(own: Sequence[str], *words: str) -> str:
    """Return a command of this package that can be pasted into a shell.

    :param own: the command, and the words by which its user named the server.
    :param words: names and URIs from the server; ``--`` stands before them if one could be taken for an option.
    """
    end = ["--"] if any(word.startswith("-") for word in words) else []
    return f"{program_of(__name__.rpartition('.cli.')[0])} {shlex.join([*own, *end, *words])}"


def argument_words(schema: Mapping[str, Any]) -> List[str]:
    """Return an example of a tool's required arguments, as they are written on the command line."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return []
    root, extent = LenientReferences(schema), Extent()
    values = {name: _example_value(properties[name], root, _EXAMPLE_DEPTH, extent) for name in required
              if isinstance(name, str) and name in properties}
    return _written(values, lambda name: resolved(properties[name], root).get("type", "string") == "string")


def prompt_words(names: Sequence[str]) -> List[str]:
    """Return an example of a prompt's arguments, whose values are all text."""
    return _written(dict.fromkeys(names, "text"), lambda name: True)


def _written(values: Mapping[str, Any], is_text: Callable[[str], bool]) -> List[str]:
    """Return arguments as they are written on the command line.

    If a name cannot be written in front of a value, all arguments are one JSON object.

    :param is_text: whether ``name=value`` passes a text for this name; for other names, and other values, JSON is written.
    """
    if any(not name or name[0] in "-{" or "=" in name or name.endswith(":") for name in values):
        return [json.dumps(values, ensure_ascii=False)]
    # A leading @ would name a file.
    return [f"{name}={value}" if isinstance(value, str) and not value.startswith("@") and is_text(name)
            else f"{name}:={json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]


def example_of(schema: Any, root: Any) -> Any:
    """Return a value that the schema takes, as far as one can be made up: it need not match a pattern.

    :param root: the whole schema, in which references are looked up.
    """
    return _example_value(schema, LenientReferences(root), _EXAMPLE_DEPTH, Extent())


def _example_value(schema: Any, root: References, depth: int, extent: Extent) -> Any:
    if not extent.take(1, 1):
        return None
    found = resolved(schema, root)
    own = schema if isinstance(schema, Mapping) else {}
    for one in (own, found):
        for key in ("examples", "enum"):
            if isinstance(one.get(key), list) and one[key]:
                return one[key][0]
        for key in ("default", "const"):
            if one.get(key) is not None:
                return one[key]
    kind = found.get("type")
    kind = next((one for one in kind if one != "null"), None) if isinstance(kind, list) else kind
    if kind in ("integer", "number"):
        return _example_number(found)
    if kind == "boolean":
        return True
    if kind == "array":
        count = max(1, min(_MOST, _whole(found.get("minItems")))) if depth else 0
        item = _example_value(found.get("items"), root, depth - 1, extent)
        # The sizes of lists within lists multiply. If the text is too long for a command line, the list has one item.
        return [item] * (count if extent.take(0, len(json.dumps(item)) * count) else min(1, count))
    if kind == "object" or "properties" in found:
        return _object(found, root, depth, extent)
    text = _FORMATS.get(str(found.get("format")), "text")
    return text + "t" * (min(_MOST, _whole(found.get("minLength"))) - len(text))


def _object(schema: Mapping[str, Any], root: References, depth: int, extent: Extent) -> Dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not depth or not isinstance(properties, Mapping):
        return {}
    names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return {name: _example_value(one, root, depth - 1, extent) for name, one in properties.items()
            if name in names and extent.take(1, len(name))}


def _example_number(schema: Mapping[str, Any]) -> Any:
    for key, step in (("minimum", 0), ("exclusiveMinimum", 1), ("multipleOf", 0), ("maximum", 0), ("exclusiveMaximum", -1)):
        value = schema.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value + step
    return 1


def _whole(value: Any) -> int:
    return value if type(value) is int else 0


def example_uri(uri_template: str) -> str:
    """Return a URI of a template, with the name of each variable as its value."""
    try:
        template = Template(uri_template)
        return template.fill({name: name for name in template.names})
    except ValueError:
        return uri_template  # a template that this package cannot read is shown as it is


#: The definitions of a server, in a list for each kind, such as "tools".
Found = Dict[str, List[Any]]
#: In Markdown: the beginning of a list item; a line that begins or ends fenced code; one that begins a heading, or HTML that
#: only its own end ends; one that makes a heading of the line before.
_ITEM = re.compile(r" {0,3}(?!([-*] *){3,}$)([-+*]|\d{1,9}[.)])( {1,4}(?=\S)|\s|$)")
_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)")
_ESCAPED = re.compile(r" {0,3}(#|<[!?]|<(script|pre|style|textarea)\b)", re.IGNORECASE)
_UNDERLINE = re.compile(r" {0,3}(=+|-+)\s*$")
#: A word, such as a URL, of at most this many characters is not broken over lines.
_LONGEST_WORD = 2000
#: By hint of a tool, what true and false mean.
_HINTS = {"read_only_hint": ("only reads", "changes something"),
          "destructive_hint": ("may delete or overwrite", "deletes and overwrites nothing"),
          "idempotent_hint": ("a repeated call changes nothing more", "a repeated call has a further effect"),
          "open_world_hint": ("reaches systems outside of the server", "stays inside the server")}


def names_of(item: Any) -> List[str]:
    """Return the names of a definition: its URI or template, if it has one, and its name."""
    return [name for name in (getattr(item, "uri", None), getattr(item, "uri_template", None), item.name) if name]


def examples_of(found: Found, target: List[str]) -> Dict[str, Dict[str, str]]:
    """Return an example command for each definition, by kind and name.

    :param target: the words of the command line that stand for the server.
    """
    return {kind: {names_of(item)[0]: _example(item, target) for item in items} for kind, items in found.items() if items}


def _example(item: Any, target: List[str]) -> str:
    if hasattr(item, "input_schema"):
        return pasted(["call", *target], item.name, *argument_words(item.input_schema))
    if hasattr(item, "arguments"):
        return pasted(["prompt", *target], item.name, *prompt_words([one.name for one in item.arguments or () if one.required]))
    return pasted(["read", *target], getattr(item, "uri", None) or example_uri(item.uri_template))


def described(client: Any, found: Found, target: List[str], whole: bool) -> str:
    """Return the description as text.

    :param whole: whether the server itself is described too.
    """
    parts = [_server(client)] if whole else []
    for kind, items in found.items():
        parts += ["\n".join(filter(None, [_heading(item, kind), *_body(item), _labelled("example", _example(item, target))]))
                  for item in items]
    if not any(found.values()):
        parts.append("the server offers no tools, resources or prompts")
    return "\n\n".join(parts)


def _server(client: Any) -> str:
    info = client.server_info
    lines = [styled(clean_line(f"{info.display_name} {info.version} (protocol {client.protocol_version})"), "heading")]
    lines += [_paragraphs(info.description)] if info.description else []
    lines += [_labelled("website", info.website_url)] if info.website_url else []
    names = [name for name in ("tools", "resources", "prompts", "completions", "logging", "experimental", "extensions")
             if getattr(client.server_capabilities, name) is not None]
    lines.append(_labelled("capabilities", ", ".join(names) or "none"))
    if client.instructions:
        lines += ["  instructions:", _paragraphs(client.instructions, "    ")]
    return "\n".join(lines)


def _heading(item: Any, kind: str) -> str:
    title = getattr(item, "display_name", item.name)
    name = names_of(item)[0]
    return styled(clean_line(f"{kind[:-1]} {name}{f' ({title})' if title != name else ''}"), "heading")


def _body(item: Any) -> List[Optional[str]]:
    lines: List[Optional[str]] = [_paragraphs(item.description) if item.description else None]
    if hasattr(item, "input_schema"):
        rows = members_of(item.input_schema)
        lines.append(_rows("arguments", rows) if rows else _labelled("arguments", "none"))
        lines += _returned(item.output_schema)
        lines.append(_hints(item.annotations))
    elif hasattr(item, "arguments"):
        arguments = item.arguments or ()
        rows = [(one.name, "; ".join(filter(None, [(one.description or one.title or "").rstrip("."),
                                                   "" if one.required else "optional"]))) for one in arguments]
        lines.append(_rows("arguments", rows) if rows else _labelled("arguments", "none"))
    else:
        lines.append(_labelled("type", item.mime_type) if item.mime_type else None)
        size = getattr(item, "size", None)
        lines.append(None if size is None else _labelled("size", f"{size} bytes"))
    return lines


def _returned(schema: Optional[Mapping[str, Any]]) -> List[Optional[str]]:
    if schema is None:
        return [_labelled("returns", "content without a declared type")]
    rows = members_of(schema)
    words = result_of(schema)
    if len(rows) == 1 and rows[0][0] == f"result: {words}":
        return [_labelled("returns", words)]
    return [_labelled("returns", words), table(rows, indent="    ") if rows else None]


def _hints(annotations: Any) -> Optional[str]:
    given = _hint_words(annotations)
    return _labelled("hints", f"{', '.join(given)} (as the server says)") if given else None


def _hint_words(annotations: Any) -> List[str]:
    # If a tool only reads, it changes nothing, so the two hints about changes are left out.
    skipped = ("destructive_hint", "idempotent_hint") if annotations is not None and annotations.is_read_only else ()
    return [words[not value] for name, words in _HINTS.items() if name not in skipped
            for value in [getattr(annotations, name, None)] if value is not None]


def markdown_of(client: Any, found: Found, target: List[str], whole: bool) -> str:
    """Return the description as Markdown, in the order of the server.

    :param whole: whether the server itself is described too.
    """
    parts: List[str] = []
    if whole:
        info = client.server_info
        parts = [f"# {clean_line(info.display_name)}", *_own_text(info.description), *_own_text(client.instructions)]
    for kind, items in found.items():
        parts += [f"## {kind[:1].upper()}{kind[1:]}"] if items else []
        for item in items:
            title = getattr(item, "display_name", item.name)
            parts += [f"### {_code(names_of(item)[0])}", *(_own_text(clean_line(title)) if title != names_of(item)[0] else []),
                      *_own_text(item.description), *_markdown_arguments(item)]
            if hasattr(item, "input_schema"):
                returned = None if item.output_schema is None else result_of(item.output_schema)
                parts += [f"Returns {_code(returned)}."] if returned else []
                hints = _hint_words(item.annotations)
                parts += [f"Hints: {', '.join(hints)}."] if hints else []
            elif getattr(item, "mime_type", None):
                parts.append(f"Type: {_code(item.mime_type)}.")
            parts.append(f"```console\n$ {clean_line(_example(item, target))}\n```")
    return "\n\n".join(parts)


def _own_text(text: Optional[str]) -> List[str]:
    """Return a server's text, which may be Markdown, for the page.

    Outside of fenced code, a line that would begin a heading, or HTML without an end, is escaped. A fence that is open at the
    end is closed.
    """
    if not text or not text.strip():
        return []
    lines: List[str] = []
    fence = closing = ""
    item = 0  # the column at which the text of a list item stands; what begins in the item ends with it
    for line in clean(inspect.cleandoc(text)).split("\n"):
        indented = len(line) - len(line.lstrip(" "))
        inside, follows = 0 < item <= indented, bool(lines and lines[-1].strip())
        marker, begun = _ITEM.match(line), _FENCE.match(line)
        if fence:
            fence = "" if begun and begun[2].startswith(fence) and not begun[3].strip() else fence
        elif not inside and (_ESCAPED.match(line) or follows and _UNDERLINE.match(line)):
            line = "\\" + line.lstrip()
        elif marker:
            item = marker.end()
        elif begun and not inside:
            fence, closing = begun[2], begun[1] + begun[2]
        elif line.strip() and indented < item and not follows:
            item = 0
        lines.append(line)
    return ["\n".join([*lines, closing] if fence else lines)]


def _code(text: str) -> str:
    quotes = "``" if "`" in text else "`"
    return f"{quotes}{clean_line(text)}{quotes}"


def _markdown_arguments(item: Any) -> List[str]:
    if hasattr(item, "input_schema"):
        rows = members_of(item.input_schema)
    elif getattr(item, "arguments", None):
        rows = [(one.name, "; ".join(filter(None, [one.description or one.title, None if one.required else "optional"])))
                for one in item.arguments]
    else:
        return []
    cells = [(_code(name).replace("|", "\\|"), clean_line(text).replace("|", "\\|")) for name, text in rows]
    lines = ["| Argument | Description |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in cells)]
    return ["\n".join(lines)] if cells else []


def _rows(label: str, rows: List[Any]) -> str:
    return f"  {styled(f'{label}:', 'note')}\n{table(rows, indent='    ')}"


def _labelled(label: str, text: str) -> str:
    return f"  {styled(f'{label}:', 'note')} {clean_line(text)}"


def _paragraphs(text: str, indent: str = "  ") -> str:
    """Return a text with its own lines, each wrapped and indented."""
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    lines: List[str] = []
    for line in clean(inspect.cleandoc(text)).split("\n"):
        own = indent + line[:len(line) - len(line.lstrip())]
        lines += [own + part for part in wrapped(line, max(1, width - len(own)), _LONGEST_WORD)] if line.strip() else [""]
    return "\n".join(lines).rstrip()
