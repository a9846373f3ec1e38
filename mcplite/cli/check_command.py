"""The command ``check``: what an author of a server, and its CI, want to know before models and hosts use it.

The server is opened in each revision. The lists of the newest one that it speaks are examined; those of the others are compared
with them by name. Nothing that the server offers is called. Besides the requests for lists, it gets only requests that every
server has to refuse: for a method, a tool and a cursor that do not exist. :data:`RULES` has each rule as data. The id of a rule
never changes, so that CI can name the rules that it ignores.
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from ..errors import INVALID_PARAMS, METHOD_NOT_FOUND, AuthError, MCPError, RegistrationError, RemoteError
from ..llm.tool_rules import CHARACTERS_PER_TOKEN, LONGEST_DESCRIPTION, MOST_TOOLS, refusals, schemas_in, some_of
from ..protocol.error_text import one_line, worded
from ..protocol.schema.validation import check_schema
from ..protocol.uritemplate import Template
from ..revisions import DEFAULT_HTTP, REVISIONS
from .description import Found
from .parser import NAMES, UsageError
from .printing import as_json, clean_line, styled, wrapped
from .target import client_of

__all__ = ["LintFinding", "RULES", "SEVERITIES", "add_arguments", "examine", "run"]

#: The gravest first.
SEVERITIES = ("fault", "warning", "note")
#: Characters of instructions that hosts show a model in full.
_LONGEST_INSTRUCTIONS = 8000
#: Seconds that a list may take: hosts read it before each conversation.
_SLOW_SECONDS = 2.0
#: Tokens of all definitions that leave most of a context free.
_MOST_TOKENS = 10_000
_NOT_THERE = "mcplite-check-not-there"


class Lint(NamedTuple):
    """What a server should do, and what to do about it."""

    severity: str
    sentence: str
    advice: str


#: By id.
RULES: Dict[str, Lint] = {
    # --- the server
    "revision": Lint("note", "Clients of every revision can use a server.", "Serve this revision, too."),
    "list-fails": Lint("fault", "Each list that a server declares can be read.", "Correct what the error says."),
    "list-slow": Lint("warning", f"A list takes less than {_SLOW_SECONDS:g} seconds, since hosts wait for it.",
                      "Keep what takes long, and send a list_changed notification when there is more."),
    "lists-differ": Lint("note", "Each revision offers the same names.", "Declare what a revision lacks, if that is meant."),
    "version": Lint("note", "A server has a version, by which its users report errors.", "Give it a version."),
    "instructions": Lint("note", "Instructions tell a model how the tools belong together.", "Write a paragraph."),
    "instructions-long": Lint("warning", f"Instructions have at most {_LONGEST_INSTRUCTIONS} characters: models read them each"
                              " time.", "Move details to the descriptions, or to a resource."),
    "unknown-method": Lint("warning", f"A method that does not exist is answered with {METHOD_NOT_FOUND} (JSON-RPC 2.0).",
                           "Answer with this error."),
    "unknown-tool": Lint("note", f"A call of a tool that does not exist is answered with {INVALID_PARAMS} (MCP, tools: error"
                         " handling).", "Answer with this error, and not with a result."),
    "bad-cursor": Lint("note", f"A cursor that is not valid is answered with {INVALID_PARAMS} (MCP, pagination: error"
                       " handling).", "Refuse it: a client would read the first page again and again."),
    # --- tools
    "tools-many": Lint("warning", f"APIs of models take at most {MOST_TOOLS} tools, and models choose better among few.",
                       "Split the server, or offer tools by permission."),
    "tools-large": Lint("warning", f"The definitions of all tools have at most {_MOST_TOKENS} tokens, as an estimate.",
                        "Shorten descriptions and schemas."),
    "tool-name": Lint("fault", "The name of a tool has 1 to 64 letters, digits, - and _: APIs of models refuse others.",
                      "Rename it."),
    "tool-twice": Lint("fault", "Each tool has a name of its own (MCP, tools).", "Rename one of them."),
    "tool-description": Lint("warning", "A tool has a description, by which a model chooses it.",
                             "Write what it does and when."),
    "tool-description-long": Lint("warning", f"A description has at most {LONGEST_DESCRIPTION} characters: OpenAI refuses"
                                  " more.",
                                  "Shorten it, and describe arguments in the schema."),
    "argument-description": Lint("note", "Arguments have descriptions, so that a model need not guess.", "Describe them."),
    "argument-type": Lint("note", "Arguments have types, so that a model need not guess.", "Give them types."),
    "argument-name": Lint("warning", "The name of an argument has 1 to 64 letters, digits, -, _ and dots: Anthropic refuses"
                          " others.", "Rename it."),
    "name-gemini": Lint("note", "Names of tools and arguments begin with a letter or _, and those of arguments have neither -"
                        " nor dots: Gemini refuses others.", "Rename it, or send it by mcplite.llm, which renames it."),
    "schema": Lint("fault", "Schemas of tools are valid JSON Schema, and have the type object (MCP, tools: data types).",
                   "Correct the schema."),
    "schema-top": Lint("warning", "The top level of an input schema is a plain object: APIs of models refuse alternatives"
                       " there.",
                       "Put the alternatives into one of the arguments."),
    "schema-items": Lint("warning", "A list in an input schema has items: Gemini and OpenAI refuse one without.", "Add items."),
    "schema-pattern": Lint("note", "Patterns are of the kind that RE2 compiles, which APIs of models use.",
                           "Do without lookaround and references back."),
    "schema-remote": Lint("fault", "A schema refers to itself only: clients fetch nothing (MCP, security of schemas).",
                          "Move the definition into $defs."),
    "annotations": Lint("note", "A tool says whether it only reads: clients take one without hints for destructive.",
                        "Set readOnlyHint, or destructiveHint."),
    "annotations-contradict": Lint("warning", "A tool that only reads destroys nothing.", "Set one of the two hints to false."),
    "annotations-name": Lint("warning", "A tool that is named after a change does not say that it only reads.",
                             "Set readOnlyHint to false."),
    # --- resources and prompts
    "resource-twice": Lint("fault", "Each resource has a URI of its own (MCP, resources).", "Change one of them."),
    "resource-description": Lint("note", "A resource has a description.", "Write what it holds."),
    "resource-type": Lint("note", "A resource has a MIME type, by which hosts show it.", "Set mimeType."),
    "template": Lint("fault", "The template of a resource is one of RFC 6570.", "Correct the template."),
    "prompt-twice": Lint("fault", "Each prompt has a name of its own (MCP, prompts).", "Rename one of them."),
    "prompt-description": Lint("warning", "A prompt has a description, by which users choose it.", "Write what it asks for."),
    "prompt-argument": Lint("note", "Arguments of prompts have descriptions, which hosts show.", "Describe them."),
}
assert all(rule.severity in SEVERITIES for rule in RULES.values())


@dataclass
class LintFinding:
    """One thing that could be better; ``id`` is a key of :data:`RULES`."""

    id: str
    place: str
    text: str

    @property
    def severity(self) -> str:
        return RULES[self.id].severity

    def record(self) -> Dict[str, Any]:
        """Return the finding for JSON."""
        rule = RULES[self.id]
        return {"id": self.id, "severity": rule.severity, "place": self.place, "text": self.text, "rule": rule.sentence,
                "advice": rule.advice}


def examine(words: List[str], options: argparse.Namespace) -> List[LintFinding]:
    """Return what could be better at the server that the words and options name.

    :raises UsageError: the options do not fit together.
    :raises MCPError: the server cannot be reached in any revision, or needs a login.
    """
    here = bool(words) and not words[0].startswith(("http://", "https://"))
    # The oldest revision has a transport of its own over HTTP, which servers need not have.
    wanted = [one.name for one in REVISIONS if here or one.rank >= DEFAULT_HTTP.rank]
    if options.revision is not None:
        wanted = [options.revision]
    found: List[LintFinding] = []
    errors: List[MCPError] = []
    names: Dict[str, Set[str]] = {}
    newest: Optional[str] = None
    for revision in reversed(wanted):
        own = argparse.Namespace(**{**vars(options), "revision": revision})
        try:
            with client_of(list(words), own) as client, client:
                lists = _lists(client, found if newest is None else [])
                names[revision] = {f"{kind[:-1]} {_name(item)}" for kind, items in lists.items() for item in items}
                if newest is None:
                    newest = revision
                    found += [*_server(client, lists), *_refusals(client), *_entries(lists)]
        except AuthError:
            raise
        except MCPError as error:
            errors.append(error)
            found.append(LintFinding("revision", f"revision {revision}", one_line(worded(error, NAMES), 300)))
    if newest is None:
        raise errors[0]
    for name, offered in names.items():
        for word, some in (("lacks", names[newest] - offered), ("has besides", offered - names[newest])):
            if some:
                found.append(LintFinding("lists-differ", f"revision {name}", f"it {word} {some_of(sorted(some))}"))
    return found


def _lists(client: Any, found: List[LintFinding]) -> Found:
    """Read and return all lists, and add a finding for each that fails or is slow to *found*."""
    lists: Found = {}
    offered = client.server_capabilities
    for area, kind, read in (("tools", "tools", client.list_tools), ("resources", "resources", client.list_resources),
                             ("resources", "resource templates", client.list_resource_templates),
                             ("prompts", "prompts", client.list_prompts)):
        if getattr(offered, area) is None:
            continue
        began = time.monotonic()
        try:
            lists[kind] = read()
        except RemoteError as error:
            if kind != "resource templates" or error.code != METHOD_NOT_FOUND:
                found.append(LintFinding("list-fails", f"list of {kind}", one_line(worded(error, NAMES), 300)))
        took = time.monotonic() - began
        if took > _SLOW_SECONDS:
            found.append(LintFinding("list-slow", f"list of {kind}", f"it took {took:.1f} seconds"))
    return lists


def _name(item: Any) -> str:
    return str(getattr(item, "uri", None) or getattr(item, "uri_template", None) or item.name)


def _server(client: Any, lists: Found) -> Iterator[LintFinding]:
    if not client.server_info.version:
        yield LintFinding("version", "server", "its version is empty")
    instructions, tools = client.instructions or "", lists.get("tools", ())
    if not instructions.strip() and len(tools) > 1:
        yield LintFinding("instructions", "server", "it has none")
    if len(instructions) > _LONGEST_INSTRUCTIONS:
        yield LintFinding("instructions-long", "server", f"they have {len(instructions)} characters")
    if len(tools) > MOST_TOOLS:
        yield LintFinding("tools-many", "server", f"it has {len(tools)} tools")
    size = sum(len(json.dumps([tool.name, tool.description, tool.input_schema])) for tool in tools) // CHARACTERS_PER_TOKEN
    if size > _MOST_TOKENS:
        yield LintFinding("tools-large", "server", f"they have about {size} tokens")


def _refusals(client: Any) -> Iterator[LintFinding]:
    """Send requests that every server has to refuse, and yield a finding for each that got another answer."""
    requests: List[Tuple[str, str, Dict[str, Any], int]] = [("unknown-method", f"{_NOT_THERE}/method", {}, METHOD_NOT_FOUND)]
    if client.server_capabilities.tools is not None:
        requests += [("unknown-tool", "tools/call", {"name": _NOT_THERE, "arguments": {}}, INVALID_PARAMS),
                     ("bad-cursor", "tools/list", {"cursor": _NOT_THERE}, INVALID_PARAMS)]
    for id, method, params, code in requests:
        try:
            result = client.request(method, params)
        except RemoteError as error:
            if error.code != code:
                yield LintFinding(id, method, f"it was answered with {error.code}: {one_line(error.message, 200)}")
        except MCPError as error:
            yield LintFinding(id, method, f"it was not answered: {one_line(worded(error, NAMES), 200)}")
        else:
            yield LintFinding(id, method, f"it was answered with the result {one_line(json.dumps(result), 200)}")


def _entries(lists: Found) -> Iterator[LintFinding]:
    for kind, id in (("tools", "tool-twice"), ("resources", "resource-twice"), ("prompts", "prompt-twice")):
        for name, count in Counter(map(_name, lists.get(kind, ()))).items():
            if count > 1:
                yield LintFinding(id, f"{kind[:-1]} {name}", f"it is listed {count} times")
    for tool in lists.get("tools", ()):
        for id, text in (*_tool(tool), *_arguments(tool.input_schema)):
            yield LintFinding(id, f"tool {tool.name}", text)
    for kind in ("resources", "resource templates"):
        for resource in lists.get(kind, ()):
            for id, text in _resource(resource):
                yield LintFinding(id, f"{kind[:-1]} {_name(resource)}", text)
    for prompt in lists.get("prompts", ()):
        if not (prompt.description or "").strip():
            yield LintFinding("prompt-description", f"prompt {prompt.name}", "it has none")
        bare = [one.name for one in prompt.arguments or () if not (one.description or one.title or "").strip()]
        if bare:
            yield LintFinding("prompt-argument", f"prompt {prompt.name}", f"{some_of(bare)} has none")


#: First words in the names of tools that change something.
_CHANGES = ("delete", "remove", "drop", "write", "create", "update", "insert", "send", "set")


def _tool(tool: Any) -> Iterator[Tuple[str, str]]:
    for refusal in refusals(tool):
        yield refusal.id, refusal.text
    hints = tool.annotations
    reads, destroys = getattr(hints, "read_only_hint", None), getattr(hints, "destructive_hint", None)
    if reads is None and destroys is None:
        yield "annotations", "it has neither readOnlyHint nor destructiveHint"
    if reads and destroys:
        yield "annotations-contradict", "it has readOnlyHint and destructiveHint"
    first = tool.name.replace("-", "_").lower().split("_")[0]
    if reads and first in _CHANGES:
        yield "annotations-name", f"{tool.name} has readOnlyHint"
    for label, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        if schema is None:
            continue
        try:
            check_schema(schema, what=f"the {label} schema", trusted=False)
        except RegistrationError as error:
            yield "schema", one_line(str(error), 300)
        if label == "input" and (not isinstance(schema, Mapping) or schema.get("type") != "object"):
            yield "schema", "the input schema has another type, or none"


def _arguments(schema: Any) -> Iterator[Tuple[str, str]]:
    """Yield findings for arguments without a description or a type, and for references that clients do not follow."""
    if not isinstance(schema, Mapping):
        return
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    bare = [name for name, one in properties.items() if isinstance(one, Mapping) and not one.get("description")]
    untyped = [name for name, one in properties.items()
               if not isinstance(one, Mapping) or not {"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"} & set(one)]
    if bare:
        yield "argument-description", f"{some_of(bare)} has none"
    if untyped:
        yield "argument-type", f"{some_of(untyped)} has none"
    for place, one in schemas_in(schema):
        if isinstance(one.get("$ref"), str) and not one["$ref"].startswith("#"):
            yield "schema-remote", f"{place} refers to {one_line(one['$ref'], 80)}"


def _resource(resource: Any) -> Iterator[Tuple[str, str]]:
    if not (resource.description or "").strip():
        yield "resource-description", "it has none"
    if not resource.mime_type:
        yield "resource-type", "it has none"
    template = getattr(resource, "uri_template", None)
    if template is not None:
        try:
            Template(template)
        except ValueError as error:
            yield "template", one_line(str(error), 200)


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of the command to its parser."""
    one.add_argument("--fail-on", choices=["fault", "warning", "note"], default="fault",
                     help="the least grave finding that makes the exit status 1; default fault")
    one.add_argument("--ignore", action="append", default=[], metavar="ID",
                     help="a rule to leave out, by the id that stands behind its severity; repeatable")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Run the command; return the exit status, 1 if a finding is as grave as ``--fail-on`` says.

    :raises UsageError: ``--ignore`` names no rule, or the options do not fit together.
    :raises MCPError: see :func:`examine`.
    """
    for id in options.ignore:
        if id not in RULES:
            raise UsageError(f"--ignore {id}: there is no such rule; there is: {', '.join(sorted(RULES))}")
    findings = [one for one in examine(words, options) if one.id not in options.ignore]
    findings.sort(key=lambda one: SEVERITIES.index(one.severity))
    counts = {one: sum(finding.severity == one for finding in findings) for one in SEVERITIES}
    if options.json:
        print(as_json({"findings": [finding.record() for finding in findings], "counts": counts}))
    else:
        _print(findings)
        print(", ".join(f"{count} {name}{'' if count == 1 else 's'}" for name, count in counts.items()))
    grave = SEVERITIES[:SEVERITIES.index(options.fail_on) + 1]
    return 1 if any(finding.severity in grave for finding in findings) else 0


def _print(findings: List[LintFinding]) -> None:
    """Print each rule once, with the places where it is broken."""
    by_rule: Dict[str, List[LintFinding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.id, []).append(finding)
    for id, some in by_rule.items():
        rule = RULES[id]
        print(styled(f"{rule.severity} {id}", rule.severity))
        for line in wrapped(f"{rule.sentence} {rule.advice}", 100):
            print(f"  {line}")
        for finding in some:
            for number, line in enumerate(wrapped(clean_line(f"{finding.place}: {finding.text}"), 96, 400)):
                print(f"  {'-' if number == 0 else ' '} {line}")
