"""The command ``stub``: writes a client of one server in Python, with a typed method for each tool, prompt and resource.

The file needs this package only. Nothing that a server says can become code in it: names are made identifiers, values are
written as literals, and descriptions as docstrings that they cannot end.
"""

import argparse
import os
import re
import sys
from typing import Any, Dict, List, Mapping, Tuple

from ..protocol.schema.references import LenientReferences
from ..protocol.uritemplate import Template
from .listing import offered_by
from .parser import UsageError
from .printing import clean, clean_line
from .stub_types import Identifiers, SchemaTypes, literal, object_parts
from .target import connected

__all__ = ["add_arguments", "module_text", "run"]

_PACKAGE = __name__.partition(".")[0]
#: Names that the annotations of the written file use. A method of such a name would hide it within the class.
_TYPES = ("str", "int", "float", "bool", "None", "Any", "Dict", "List", "Literal", "Mapping", "Optional", "TypedDict", "Union",
          "annotations", "Client", "CallToolResult", "GetPromptResult", "ReadResourceResult")
#: Names of parameters and variables that the written methods have themselves.
_LOCAL = ("self", "found", "more")
#: Most characters of a description.
_LONGEST = 4000
_HEAD = '''\
"""A client of the server {title}, by ``{package} stub``.

::

    from {package} import connect

    with connect(TARGET) as client:
        server = {name}(client)
"""

# ruff: noqa

from __future__ import annotations

from typing import {typing}

from {package} import Client
{types}

class {name}:
    """The server {title}.

    The methods raise what ``client.call_tool``, ``get_prompt`` and ``read_resource`` raise; a method that returns a
    value raises ``ToolError`` if the tool failed. A parameter that is None and may be left out is not sent.

    :param client: connected to the server.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
'''
_GIVEN = '''\

    @staticmethod
    def _given(arguments: Dict[str, Any], rest: Mapping[str, Any]) -> Dict[str, Any]:
        return {**arguments, **{name: value for name, value in rest.items() if value is not None}}
'''
_VALUE = '''\

    def _value(self, name: str, arguments: Dict[str, Any], wrapped: bool) -> Any:
        result = self.client.call_tool(name, arguments).raise_for_error()
        structured = result.structured_content
        if not isinstance(structured, dict) or wrapped and "result" not in structured:
            return result.data
        return structured["result"] if wrapped else structured
'''


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of the command to its parser."""
    one.add_argument("-o", "--output", metavar="FILE", help="the file to write; default stdout")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Write the client to ``--output``, or to stdout; return the exit status.

    :raises UsageError: the file cannot be written.
    """
    with connected(words, options) as client:
        text = module_text(client)
    if options.output is None:
        sys.stdout.write(text)
        return 0
    try:
        with open(options.output, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"--output: cannot write {options.output}: {error.strerror}") from error
    print(clean(f"{os.path.abspath(options.output)}: {len(text.splitlines())} lines"), file=sys.stderr)
    return 0


def module_text(client: Any) -> str:
    """Return the module for a connected client's server."""
    return _Stub().module(client)


class _Stub:
    """One module that is being written."""

    def __init__(self) -> None:
        # The names of the written classes; no class may have a name that annotations use.
        self._names = Identifiers(_TYPES)
        self._types = SchemaTypes(self._names)
        self._lines: List[str] = []
        self._results: Dict[str, None] = {}
        self._helpers: Dict[str, None] = {}

    def module(self, client: Any) -> str:
        info = client.server_info
        name = self._names.take(info.name, "Server", capitals=True)
        offered = offered_by(client)
        methods = Identifiers((*_TYPES, name, "client"))
        named: List[Tuple[str, Any]] = []
        for kind, begin, end in (("tools", "", ""), ("prompts", "", "_prompt"), ("resources", "read_", ""),
                                 ("resource templates", "read_", "")):
            for item in offered.get(kind, ()):
                own = f"{begin}{item.name}{end}"
                named.append((methods.take(own if re.search("[0-9A-Za-z]", item.name) else "", kind[:-1].split()[0]), item))
        # No class may have the name of a method, which would hide the class in annotations.
        for method, _ in named:
            self._names.take(method, method)
        for method, item in named:
            if hasattr(item, "input_schema"):
                self._tool(method, item)
            elif hasattr(item, "arguments"):
                self._prompt(method, item)
            else:
                self._resource(method, item)
        helpers = "".join(self._helpers)
        used = self._types.used | ({"Any", "Dict"} if helpers else set()) | ({"Mapping"} if _GIVEN in self._helpers else set())
        head = _HEAD.format(
            title=_docstring(clean_line(info.display_name)) or name, package=_PACKAGE, name=name,
            typing=", ".join(sorted(used)),
            types=(f"from {_PACKAGE}.types import {', '.join(sorted(self._results))}\n" if self._results else "")
            + "".join(f"{line}\n" for line in (["", "", *self._types.lines][:-2] if self._types.lines else [])))
        if not used:
            head = head.replace("from typing import \n\n", "")
        return head + helpers + "".join(f"{line}\n" for line in self._lines)

    def _tool(self, method: str, tool: Any) -> None:
        own = method.title().replace("_", " ")
        root = LenientReferences(tool.input_schema)
        fields, is_open = object_parts(tool.input_schema, root)
        kind, wrapped = self._returned(tool, own)
        kinds = [self._types.of(one.schema, tool.input_schema, f"{own} {one.name}") for one in fields]
        # The body annotates ``found`` with the type of the result. A parameter with a name of this type would hide it there.
        names = Identifiers((*_LOCAL, *re.findall(r"\w+", kind)))
        first: List[str] = []
        later: List[str] = []
        sent: Dict[str, str] = {}
        optional: Dict[str, str] = {}
        told: List[str] = []
        for field, of in zip(fields, kinds):
            name = names.take(field.name, "argument")
            schema = field.schema if isinstance(field.schema, Mapping) else {}
            text = schema.get("description")
            default = _default(schema, of)
            if isinstance(text, str) and text.strip():
                told.append(f":param {name}: {clean_line(text)[:_LONGEST]}")
            if field.required:
                first.append(f"{name}: {of}")
                sent[field.name] = name
            elif default is not None:
                later.append(f"{name}: {of} = {default}")
                sent[field.name] = name
            else:
                later.append(f"{name}: {of if of == 'Any' else self._types.optional(of)} = None")
                optional[field.name] = name
        if is_open:
            self._types.used |= {"Any", "Mapping", "Optional"}
            later.append("more: Optional[Mapping[str, Any]] = None")
            told.append(":param more: further arguments, by name.")
        arguments = _dict(sent)
        if optional or is_open:
            self._helpers[_GIVEN] = None
            rest = _dict(optional)
            if is_open:
                rest = f"{{{rest[1:-1]}{', ' if optional else ''}**(more or {{}})}}"
            arguments = f"self._given({arguments}, {rest})"
        call = f"{ascii(tool.name)}, {arguments}"
        if tool.output_schema is None:
            body = [f"return self.client.call_tool({call})"]
        else:
            self._helpers[_VALUE] = None
            value = f"self._value({call}, {wrapped})"
            body = [f"return {value}"] if kind == "Any" else [f"found: {kind} = {value}", "return found"]
        self._method(method, first, later, kind, tool, told, body)

    def _returned(self, tool: Any, own: str) -> Tuple[str, bool]:
        """Return the type of a tool's result, and whether the server wraps it in an object whose only member is ``result``."""
        schema = tool.output_schema
        if schema is None:
            self._results["CallToolResult"] = None
            return "CallToolResult", False
        fields, is_open = object_parts(schema, LenientReferences(schema))
        wrapped = len(fields) == 1 and fields[0].name == "result" and fields[0].required and not is_open
        return self._types.of(fields[0].schema if wrapped else schema, schema, f"{own} result"), wrapped

    def _prompt(self, method: str, prompt: Any) -> None:
        names = Identifiers(_LOCAL)
        arguments = [(one, names.take(one.name, "argument")) for one in prompt.arguments or ()]
        required = {one.name: name for one, name in arguments if one.required}
        rest = {one.name: name for one, name in arguments if not one.required}
        given = _dict(required)
        if rest:
            self._helpers[_GIVEN] = None
            given = f"self._given({given}, {_dict(rest)})"
        self._results["GetPromptResult"] = None
        self._method(method, [f"{name}: str" for name in required.values()],
                     [f"{name}: {self._types.optional('str')} = None" for name in rest.values()], "GetPromptResult", prompt,
                     [f":param {name}: {clean_line(one.description)[:_LONGEST]}" for one, name in arguments if one.description],
                     [f"return self.client.get_prompt({ascii(prompt.name)}, {given})"])

    def _resource(self, method: str, resource: Any) -> None:
        self._results["ReadResourceResult"] = None
        uri = getattr(resource, "uri", None)
        if uri is not None:
            body = [f"return self.client.read_resource({ascii(uri)})"]
            self._method(method, [], [], "ReadResourceResult", resource, [], body)
            return
        try:
            variables = Template(resource.uri_template).names
        except ValueError:
            return  # such a template has no URIs that this package can make
        names = Identifiers(_LOCAL)
        given = {one: names.take(one, "variable") for one in variables}
        self._method(method, [f"{name}: str" for name in given.values()], [], "ReadResourceResult", resource, [],
                     [f"return self.client.read_resource({ascii(resource.uri_template)}, {_dict(given)})"])

    def _method(self, name: str, first: List[str], later: List[str], returned: str, item: Any, told: List[str],
                body: List[str]) -> None:
        parameters = ["self", *first, *(["*", *later] if later else [])]
        line = f"    def {name}({', '.join(parameters)}) -> {returned}:"
        if len(line) > 100:
            line = "\n".join([f"    def {name}(", *(f"        {one}," for one in parameters), f"    ) -> {returned}:"])
        text = _docstring("\n".join([*clean((item.description or item.title or "")[:_LONGEST]).strip().split("\n"),
                                     *([""] if told else []), *told]).strip())
        lines = [line.rstrip() for line in text.split("\n")]
        shown = [] if not text else [f'"""{lines[0]}"""'] if len(lines) == 1 else [f'"""{lines[0]}', *lines[1:], '"""']
        self._lines += ["", line, *(f"        {one}" if one else "" for one in [*shown, *body])]


def _dict(names: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{ascii(key)}: {name}' for key, name in names.items())}}}"


def _default(schema: Mapping[str, Any], kind: str) -> Any:
    """Return the default of a schema as a literal of Python; None if it has none, or one that does not fit the type."""
    value = schema.get("default")
    text = literal(value)
    if "default" not in schema or text is None:
        return None
    types = {str: "str", bool: "bool", int: "int", float: "float"}
    parts = re.split(r"[\[\], ]+", re.sub(r"Literal\[.*\]", "", kind))
    if value is None:
        return text if "None" in parts or "Optional" in parts else None
    fits = types[type(value)] in parts or type(value) is int and "float" in parts
    return text if fits or re.fullmatch(r"(Optional\[)?Literal\[.*\]+", kind) and text in _values(schema) else None


def _values(schema: Mapping[str, Any]) -> List[Any]:
    values = schema.get("enum")
    return [literal(value) for value in values] if isinstance(values, list) else [literal(schema.get("const"))]


def _docstring(text: str) -> str:
    """Return a text escaped for a docstring in three double quotes, so that it cannot end the docstring."""
    return re.sub(r'"(?="|\Z)', r'\\"', text.replace("\\", "\\\\").replace("\t", "    "))
