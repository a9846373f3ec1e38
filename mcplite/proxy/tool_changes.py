"""Changes of mounted tools: other texts, other names of arguments, arguments that are preset or hidden.

``Server.mount(change=...)`` takes them by the mounted server's own names of tools, or from a function. Clients see the changed
definition, and arguments are checked against it here, so that errors have the names that the caller knows. The mounted server
gets its own names, with the presets, and checks them as always::

    client                   parent server                                 mounted server
    {"place": "Rome"}  ->    checked by the changed schema
                             {"city": "Rome", "units": "metric"}     ->    forecast(city, units)
"""

import copy
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from ..errors import InvalidParams, RegistrationError
from ..protocol.error_text import quoted
from ..protocol.jsonrpc import encode_json, object_of
from ..protocol.schema.validation import Validator, check_schema
from ..server.handling.context import RequestContext
from ..server.handling.handler_calls import tool_error
from ..types import Tool

__all__ = ["ChangedTool", "ToolChanges"]

#: The members of a change, and the type of each.
_MEMBERS = {"title": str, "description": str, "rename": Mapping, "preset": Mapping, "hide": (list, tuple, set, frozenset)}
#: Keywords of an object's schema that name its properties in other ways than ``properties`` and ``required``. They are left
#: out of the schema that clients see if arguments are changed; the mounted server still checks by them.
_OTHERWISE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies",
              "patternProperties", "propertyNames", "unevaluatedProperties", "minProperties", "maxProperties")
_TEXT = "change=: give {'tool': {'title': ..., 'description': ..., 'rename': {...}, 'preset': {...}, 'hide': [...]}}"


class ChangedTool:
    """One tool of a mount that is changed.

    :param tool: as the mounted server lists it.
    :param change: its members, checked.
    :raises RegistrationError: the tool has no such argument, two would have one name, or a required one would be hidden.
    """

    def __init__(self, tool: Tool, change: Mapping[str, Any]) -> None:
        self._texts = {name: change[name] for name in ("title", "description") if name in change}
        #: The own names of the renamed arguments, by the names that clients see.
        self._own: Dict[str, str] = {seen: own for own, seen in change.get("rename", {}).items()}
        self._presets: Dict[str, Any] = dict(change.get("preset", {}))
        hidden = {*self._presets, *change.get("hide", ())}
        self._given = bool(self._own or hidden)
        properties, required = tool.input_schema.get("properties") or {}, tool.input_schema.get("required") or []
        what = f"change= of the tool {tool.name!r}"
        for own in (*self._own.values(), *hidden):
            if own not in properties:
                there = ", ".join(map(repr, properties)) or "none"
                raise RegistrationError(f"{what}: it has no argument {own!r}, only {there}")
        unset = [own for own in required if own in hidden and own not in self._presets]
        if unset:
            raise RegistrationError(f"{what}: give the required argument {unset[0]!r} a value in 'preset', or leave it visible")
        names: List[str] = [self._seen(own) for own in properties if own not in hidden]
        twice = [name for name in names if names.count(name) > 1]
        if twice or len(self._own) < len(change.get("rename", {})):
            raise RegistrationError(f"{what}: two arguments would have the name {(twice or list(self._own))[0]!r}")
        #: The schema that clients see.
        self.schema = tool.input_schema
        if self._given:
            self.schema = {name: value for name, value in tool.input_schema.items() if name not in _OTHERWISE}
            self.schema["properties"] = {self._seen(own): schema for own, schema in properties.items() if own not in hidden}
            self.schema["required"] = [self._seen(own) for own in required if own not in hidden]
            # Otherwise a caller could set what is preset, or an argument by its own name.
            self.schema["additionalProperties"] = False
        check_schema(self.schema, what=what, trusted=False)
        self._validator = Validator(self.schema, trusted=False)  # another server's patterns

    def _seen(self, own: str) -> str:
        return next((seen for seen, other in self._own.items() if other == own), own)

    def apply(self, tool: Tool) -> None:
        """Change *tool*, which must be a copy of the definition."""
        for name, text in self._texts.items():
            setattr(tool, name, text)
        tool.input_schema = self.schema
        if "title" in self._texts and tool.annotations is not None and tool.annotations.title is not None:
            tool.annotations = copy.copy(tool.annotations)
            tool.annotations.title = self._texts["title"]

    def own_arguments(self, arguments: Any) -> Any:
        """Return the arguments of a call with the mounted server's own names, and the presets."""
        if not self._given or arguments is not None and not isinstance(arguments, dict):
            return arguments
        return {**{self._own.get(seen, seen): value for seen, value in (arguments or {}).items()}, **self._presets}

    def refused(self, context: RequestContext, name: str) -> Optional[Dict[str, Any]]:
        """Return the result for a call whose arguments do not fit the changed tool; None if they do.

        :param name: the name that clients know.
        :raises InvalidParams: they do not fit, in a revision where that is an error of the protocol (TOOL-32), or are no
            object.
        """
        if not self._given:
            return None
        arguments = object_of(context.params.get("arguments"))
        if arguments is not None and not isinstance(arguments, dict):
            raise InvalidParams("params.arguments must be an object")
        problems = self._validator.problems(arguments or {})
        if not problems:
            return None
        text = f"Invalid arguments for tool {name}: {'; '.join(problems)}"
        if context.session.revision.bad_arguments == "error":
            raise InvalidParams(text)
        return tool_error(context, text)


Change = Mapping[str, Any]


class ToolChanges:
    """The changes of one mount.

    :param change: by the own names of tools, or a function that is called with each tool and returns its change, or None.
    :raises RegistrationError: it is neither, or a change has an unknown member or one of a wrong type.
    """

    def __init__(self, change: Union[Mapping[str, Change], Callable[[Tool], Optional[Change]]]) -> None:
        if isinstance(change, Mapping):
            for name, one in change.items():
                _check(name, one)
            self._change: Callable[[Tool], Any] = lambda tool: change.get(tool.name)
        elif callable(change):
            self._change = change
        else:
            raise RegistrationError(f"{_TEXT}, or a function, not {quoted(change)}")

    def of(self, tool: Tool) -> Optional[ChangedTool]:
        """Return the change of a tool, which is as its server lists it; None for none.

        :raises RegistrationError: the tool cannot be changed so.
        """
        change = self._change(tool)
        if change is None:
            return None
        _check(tool.name, change)
        return ChangedTool(tool, change)


def _check(name: Any, change: Any) -> None:
    if not isinstance(name, str) or not isinstance(change, Mapping):
        raise RegistrationError(f"{_TEXT}, not {quoted({name: change})}")
    for member, value in change.items():
        if member not in _MEMBERS:
            raise RegistrationError(f"change= of the tool {name!r}: {member!r} is none of {', '.join(map(repr, _MEMBERS))}")
        if not isinstance(value, _MEMBERS[member]):  # type: ignore[arg-type]
            raise RegistrationError(f"change= of the tool {name!r}: {member!r} is of a wrong type: {quoted(value)}; {_TEXT}")
    renamed = [*change.get("rename", {}).items()]
    names = [*(one for pair in renamed for one in pair), *change.get("preset", {}), *change.get("hide", ())]
    if not all(isinstance(one, str) and one for one in names):
        raise RegistrationError(f"change= of the tool {name!r}: the names of arguments are texts that are not empty")
    try:
        encode_json(change.get("preset", {}))
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"change= of the tool {name!r}: 'preset' must be JSON: {error}") from error
