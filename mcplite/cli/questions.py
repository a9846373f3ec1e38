"""A server's questions, asked on the terminal."""

import contextlib
import json
import os
import select
import sys
import threading
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, TextIO, Tuple

from ..protocol import forms
from ..types import ElicitRequest, ElicitResult, Implementation, accept, cancel, decline
from .printing import clean, one_line

__all__ = ["Asker"]

#: Seconds after which a thread that waits for the person looks whether the answer is still wanted.
_SLICE = 0.1


class _Stop(Exception):
    """The user has declined or cancelled."""

    def __init__(self, answer: ElicitResult) -> None:
        super().__init__()
        self.answer = answer


class Asker:
    """Answers elicitation by asking a person; without a terminal it declines and says so.

    :param source: the terminal to read from; stdin by default.
    :param out: where the questions go; stderr by default.
    :param alone: entered while a question is on the screen; it keeps everything else away from there.
    """

    def __init__(self, source: Optional[TextIO] = None, out: Optional[TextIO] = None, *,
                 alone: Callable[[], ContextManager[object]] = contextlib.nullcontext) -> None:
        self._alone = alone
        self._source = sys.stdin if source is None else source
        self._out = sys.stderr if out is None else out
        #: Guards the terminal. It is held while a person thinks: questions come on several threads, and
        #: only one can be on the screen.
        self._turn = threading.Lock()
        self._token: Any = None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Have the terminal for the length of the block, for somebody else who asks the person something."""
        with self._turn, self._alone():
            yield

    def form(self, request: ElicitRequest) -> ElicitResult:
        """Ask for each field of a form, and at the end whether to send or change the answers (ELIC-20)."""
        return self._asked(request, self._form)

    def url(self, request: ElicitRequest) -> ElicitResult:
        """Show a URL and ask for consent; it is opened by the user, never from here (URLE-20, URLE-21)."""
        return self._asked(request, self._url)

    def _asked(self, request: ElicitRequest, ask: Callable[[ElicitRequest], ElicitResult]) -> ElicitResult:
        info: Optional[Implementation] = getattr(request, "server", None)  # who asks (ELIC-18)
        name = one_line(info.display_name) if info is not None else "The server"
        # What follows on further lines is indented, so that it does not look like a question of somebody else.
        message = f"{name} asks: " + request.message.strip().replace("\n", "\n  ")
        with self.alone():
            if self._source is None or not self._source.isatty():
                self._say(f"{message}\n(declined: there is no terminal to ask on)")
                return decline()
            self._say(f"\n{message}\n(type !decline to say no, !cancel to stop)")
            self._token = getattr(request, "token", None)
            try:
                return ask(request)
            except _Stop as stop:
                return stop.answer
            except EOFError:
                self._say("")
                return cancel()

    def _form(self, request: ElicitRequest) -> ElicitResult:
        schema = request.requested_schema or {}
        fields: Dict[str, Any] = schema.get("properties") or {}
        required = schema.get("required") or ()
        secret = forms.sensitive_names(schema)
        if secret:
            self._say(f"  (careful: it asks for what looks like a secret: {one_line(', '.join(secret))})")
        content: Dict[str, Any] = {}
        while True:
            for name, field in fields.items():
                value = self._field(name, field, name in required, content.get(name, field.get("default")))
                if value is not None:
                    content[name] = value
            for name, value in content.items():
                self._say(f"  {one_line(name)} = {_json(value)}")
            if self._confirmed("Send this answer?" if content else "Accept?", change=bool(content)):
                return accept(content)

    def _url(self, request: ElicitRequest) -> ElicitResult:
        self._say(f"  It wants you to visit {one_line(request.url or '')}\n  (on the host {one_line(request.host)}).")
        if "xn--" in request.host.lower() or not request.host.isascii():
            self._say("  (careful: the host has letters that can look like others)")  # URLE-24
        self._confirmed("Will you open it yourself?")
        return accept()

    def _say(self, text: str) -> None:
        print(clean(text), file=self._out, flush=True)

    def _line(self) -> str:
        # A thread that is inside of readline() holds the lock of stdin, which the interpreter needs at its
        # end; so after Ctrl-C none must be there. Elsewhere than on POSIX only sockets can be waited for.
        while os.name == "posix":
            if self._token is not None and self._token.cancelled:
                self._say("\n(the answer is not wanted any more)")
                raise _Stop(cancel())
            if select.select([self._source], [], [], _SLICE)[0]:
                break
        return self._source.readline()

    def _read(self, prompt: str) -> str:
        print(clean(prompt), end="", file=self._out, flush=True)
        line = self._line()
        if not line:
            raise EOFError
        text = line.strip()
        if text == "!decline":
            raise _Stop(decline())
        if text == "!cancel":
            raise _Stop(cancel())
        return text

    def _confirmed(self, question: str, change: bool = False) -> bool:
        """Return True for yes and False for "change it"; a no ends the whole question."""
        while True:
            text = self._read(f"{question} [y/n{'/c to change it' if change else ''}] ").lower()
            if text in ("y", "yes"):
                return True
            if text in ("n", "no"):
                raise _Stop(decline())
            if change and text in ("c", "change"):
                return False

    def _field(self, name: str, field: Mapping[str, Any], required: bool, default: Any) -> Any:
        choices = _choices(field)
        several = field.get("type") == "array"
        label = one_line(str(field.get("title") or name))
        if field.get("description"):
            self._say(f"  {one_line(str(field['description']))}")
        for number, (_, title) in enumerate(choices, 1):
            self._say(f"    {number}. {one_line(title)}")
        notes = ["yes or no"] if field.get("type") == "boolean" else ["several, with commas"] if several else []
        notes += [f"Enter for {_json(default)}"] if default is not None else [] if required else ["optional"]
        prompt = f"  {label}{' (' + ', '.join(notes) + ')' if notes else ''}: "
        while True:
            text = self._read(prompt)
            if not text and (default is not None or not required):
                return default
            if not text and not several:
                self._say(f"    {label}: is required")
                continue
            value = _value(field, text, choices)
            problems = forms.check_answer({"properties": {name: field}}, {name: value})
            if not problems:
                return value
            self._say(f"    {one_line('; '.join(problems))}")


def _choices(field: Mapping[str, Any]) -> List[Tuple[Any, str]]:
    if field.get("type") == "boolean":
        return []  # yes or no says more
    source = field.get("items") if field.get("type") == "array" else field
    return [(value, str(title or value)) for value, title in forms.options(source) or []]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _value(field: Mapping[str, Any], text: str, choices: List[Tuple[Any, str]]) -> Any:
    if field.get("type") == "array":
        return [_choice(part.strip(), choices) for part in text.split(",") if part.strip()]
    if choices:
        return _choice(text, choices)
    if field.get("type") == "boolean":
        return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}.get(text.lower(), text)
    if field.get("type") in ("integer", "number"):
        try:
            return json.loads(text, parse_constant=str)  # NaN and Infinity are no numbers in JSON
        except (ValueError, RecursionError):
            return text
    return text


def _choice(text: str, choices: List[Tuple[Any, str]]) -> Any:
    values = [value for value, _ in choices]
    if text in values:
        return text
    titled = [value for value, title in choices if title.lower() == text.lower()]
    if titled:
        return titled[0]
    return values[int(text) - 1] if text.isdecimal() and 1 <= int(text) <= len(choices) else text
