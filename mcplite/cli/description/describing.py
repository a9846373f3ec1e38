"""The command ``describe``: a server and what it offers in words, each with an example that can be pasted.

Every line of a server's text is indented, so that it cannot pass for a heading of this program.
"""

import difflib
import inspect
import shutil
from typing import Any, Callable, Dict, List, Mapping, Optional

from ...protocol.schema.type_signature import result_of
from ..arguments import UsageError
from ..printing import clean, clean_line, table, wrapped
from .examples import argument_words, example_uri, pasted, prompt_words
from .parameters import members_of

__all__ = ["Found", "chosen", "described", "examples_of", "offered_by", "server_record"]

#: By kind: the lists of definitions.
Found = Dict[str, List[Any]]
#: Characters of a word, such as a URL, that is not broken.
_LONGEST_WORD = 2000
#: By hint of a tool, what true and false mean.
_HINTS = {"read_only_hint": ("only reads", "changes something"),
          "destructive_hint": ("may delete or overwrite", "deletes and overwrites nothing"),
          "idempotent_hint": ("a repeated call changes nothing more", "a repeated call has a further effect"),
          "open_world_hint": ("reaches systems outside of the server", "stays inside the server")}


def offered_by(client: Any) -> Found:
    """Return all that a server offers, by kind; a kind that it does not declare is absent."""
    found: Found = {}
    offered = client.server_capabilities
    if offered.tools is not None:
        found["tools"] = client.list_tools()
    if offered.resources is not None:
        found["resources"] = client.list_resources()
        found["resource templates"] = client.list_resource_templates()
    if offered.prompts is not None:
        found["prompts"] = client.list_prompts()
    return found


def server_record(client: Any, encode: Callable[[Any], Any]) -> Dict[str, Any]:
    """Return what a server says about itself, for JSON."""
    record = {"server": encode(client.server_info), "protocolVersion": client.protocol_version,
              "capabilities": encode(client.server_capabilities)}
    return {**record, "instructions": client.instructions} if client.instructions else record


def chosen(found: Found, name: str) -> Found:
    """Return the definitions with a name, a URI or a template.

    :raises UsageError: there are none; the text names similar ones.
    """
    matching = {kind: [item for item in items if name in _names(item)] for kind, items in found.items()}
    if any(matching.values()):
        return {kind: items for kind, items in matching.items() if items}
    names = [key for items in found.values() for item in items for key in _names(item)]
    similar = difflib.get_close_matches(name, names, 3)
    if similar:
        hint = f"did you mean {' or '.join(map(repr, similar))}?"
    else:
        hint = f"it has {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else "it offers nothing"
    raise UsageError(f"the server has no tool, prompt, resource or template {name!r}; {hint}")


def _names(item: Any) -> List[str]:
    return [name for name in (getattr(item, "uri", None), getattr(item, "uri_template", None), item.name) if name]


def examples_of(found: Found, target: List[str]) -> Dict[str, Dict[str, str]]:
    """Return an example command for each definition, by kind and name.

    :param target: the words of the command line that stand for the server.
    """
    return {kind: {_names(item)[0]: _example(item, target) for item in items} for kind, items in found.items() if items}


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
    lines = [clean_line(f"{info.display_name} {info.version} (protocol {client.protocol_version})")]
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
    name = _names(item)[0]
    return clean_line(f"{kind[:-1]} {name}{f' ({title})' if title != name else ''}")


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
    # A tool that only reads deletes nothing, and the two hints about changes say nothing more.
    skipped = ("destructive_hint", "idempotent_hint") if annotations is not None and annotations.is_read_only else ()
    given = [words[not value] for name, words in _HINTS.items() if name not in skipped
             for value in [getattr(annotations, name, None)] if value is not None]
    return _labelled("hints", f"{', '.join(given)} (as the server says)") if given else None


def _rows(label: str, rows: List[Any]) -> str:
    return f"  {label}:\n{table(rows, indent='    ')}"


def _labelled(label: str, text: str) -> str:
    return f"  {label}: {clean_line(text)}"


def _paragraphs(text: str, indent: str = "  ") -> str:
    """Return a text with its own lines, each wrapped and indented."""
    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    lines: List[str] = []
    for line in clean(inspect.cleandoc(text)).split("\n"):
        own = indent + line[:len(line) - len(line.lstrip())]
        lines += [own + part for part in wrapped(line, max(1, width - len(own)), _LONGEST_WORD)] if line.strip() else [""]
    return "\n".join(lines).rstrip()
