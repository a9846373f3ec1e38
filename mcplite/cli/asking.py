"""A server's questions, asked on the terminal.

May import: cli.printing, protocol.forms, types
"""

import json
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, TextIO, Tuple

from ..protocol import forms
from ..types import ElicitRequest, ElicitResult, Implementation, accept, cancel, decline
from .printing import clean

__all__ = ["Asker"]


class _Stop(Exception):
    """The user has declined or cancelled."""

    def __init__(self, answer: ElicitResult) -> None:
        super().__init__()
        self.answer = answer


class Asker:
    """Answers elicitation by asking a person; without a terminal it declines and says so.

    :param who: returns the server's name, which the question shows (ELIC-18).
    """

    def __init__(self, who: Callable[[], Optional[Implementation]], source: Optional[TextIO] = None,
                 out: Optional[TextIO] = None) -> None:
        self._who = who
        self._source = sys.stdin if source is None else source
        self._out = sys.stderr if out is None else out

    def form(self, request: ElicitRequest) -> ElicitResult:
        """Ask for each field of a form, and at the end whether to send the answers (ELIC-20)."""
        if not self._begin(request):
            return decline()
        schema = request.requested_schema or {}
        try:
            content: Dict[str, Any] = {}
            for name, field in (schema.get("properties") or {}).items():
                value = self._field(name, field, name in (schema.get("required") or ()))
                if value is not None:
                    content[name] = value
            if content:
                self._say("  " + ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in content.items()))
            self._confirm("Send this answer?" if content else "Accept?")
        except _Stop as stop:
            return stop.answer
        except EOFError:
            return cancel()
        return accept(content)

    def url(self, request: ElicitRequest) -> ElicitResult:
        """Show a URL and ask for consent; it is opened by the user, never from here (URLE-20, URLE-21)."""
        if not self._begin(request):
            return decline()
        self._say(f"  It wants you to visit {clean(request.url or '')}\n  (on the host {clean(request.host)}).")
        try:
            self._confirm("Will you open it yourself?")
        except _Stop as stop:
            return stop.answer
        except EOFError:
            return cancel()
        return accept()

    def _begin(self, request: ElicitRequest) -> bool:
        info = self._who()
        name = clean(info.display_name) if info is not None else "The server"
        if not self._source.isatty():
            self._say(f"{name} asks: {clean(request.message)}\n(declined: there is no terminal to ask on)")
            return False
        self._say(f"\n{name} asks: {clean(request.message)}\n(type !decline to say no, !cancel to stop)")
        return True

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def _read(self, prompt: str) -> str:
        print(prompt, end="", file=self._out, flush=True)
        line = self._source.readline()
        if not line:
            raise EOFError
        text = line.strip()
        if text == "!decline":
            raise _Stop(decline())
        if text == "!cancel":
            raise _Stop(cancel())
        return text

    def _confirm(self, question: str) -> None:
        while True:
            text = self._read(f"{question} [y/n] ").lower()
            if text in ("y", "yes"):
                return
            if text in ("n", "no"):
                raise _Stop(decline())

    def _field(self, name: str, field: Mapping[str, Any], required: bool) -> Any:
        choices = _choices(field)
        label = clean(str(field.get("title") or name))
        if field.get("description"):
            self._say(f"  {clean(str(field['description']))}")
        for number, (_, title) in enumerate(choices, 1):
            self._say(f"    {number}. {clean(title)}")
        default = field.get("default")
        notes = [] if default is None else [json.dumps(default, ensure_ascii=False)]
        notes += ["several, with commas"] if field.get("type") == "array" else []
        notes += [] if required or default is not None else ["optional"]
        prompt = f"  {label}{' (' + ', '.join(notes) + ')' if notes else ''}: "
        while True:
            text = self._read(prompt)
            if not text and (default is not None or not required):
                return default
            value = _value(field, text, choices)
            problems = forms.check_answer({"properties": {name: field}, "required": [name]}, {name: value})
            if not problems:
                return value
            self._say(f"    {clean('; '.join(problems))}")


def _choices(field: Mapping[str, Any]) -> List[Tuple[Any, str]]:
    source = field.get("items") if field.get("type") == "array" else field
    if not isinstance(source, Mapping):
        return []
    for key in ("oneOf", "anyOf"):
        if source.get(key):
            return [(item.get("const"), str(item.get("title") or item.get("const"))) for item in source[key]]
    if field.get("type") == "boolean" or not source.get("enum"):
        return []
    names = source.get("enumNames") or source["enum"]
    return list(zip(source["enum"], map(str, names)))


def _value(field: Mapping[str, Any], text: str, choices: List[Tuple[Any, str]]) -> Any:
    if field.get("type") == "array":
        return [_choice(part.strip(), choices) for part in text.split(",") if part.strip()]
    if choices:
        return _choice(text, choices)
    if field.get("type") == "boolean":
        return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}.get(text.lower(), text)
    if field.get("type") in ("integer", "number"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _choice(text: str, choices: List[Tuple[Any, str]]) -> Any:
    values = [value for value, _ in choices]
    if text in values:
        return text
    if text.isdigit() and 1 <= int(text) <= len(choices):
        return values[int(text) - 1]
    return next((value for value, title in choices if title.lower() == text.lower()), text)
