"""Elicitation on the terminal: asks a server's questions and reads the user's answers.

A client of the command line has the methods of a :class:`TerminalAsker` as its elicitation handlers.
"""

import contextlib
import getpass
import json
import os
import select
import sys
import threading
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, Optional, TextIO, Tuple, Union

from ..client.config import ConfigInput
from ..protocol import elicitation_forms
from ..rpc.stdio.descriptors import is_terminal
from ..types import ElicitRequest, Implementation
from .parser import UsageError
from .printing import clean, clean_line

__all__ = ["TerminalAsker"]

#: What an elicitation handler returns.
Answer = Union[Dict[str, Any], bool, None]

#: Seconds between two looks at whether the question was cancelled, while the thread waits for the user.
_CHECK_SECONDS = 0.1


class _Stop(Exception):
    """The user has declined or cancelled."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class TerminalAsker:
    """Answers elicitation by asking the user; declines, and says so, if there is no terminal.

    :param source: the terminal to read from; stdin by default.
    :param out: the stream for the questions; stderr by default.
    :param alone: returns a context manager that keeps other output from the terminal during a question.
    """

    def __init__(self, source: Optional[TextIO] = None, out: Optional[TextIO] = None, *,
                 alone: Callable[[], ContextManager[object]] = contextlib.nullcontext) -> None:
        self._alone = alone
        self._source = sys.stdin if source is None else source
        self._out = sys.stderr if out is None else out
        #: Guards the terminal. It is held until the user has answered: questions arrive on several threads, and only one at a
        #: time can be on the screen.
        self._turn = threading.Lock()
        self._token: Any = None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Reserve the terminal for the block, for another part of the program that asks the user something."""
        with self._turn, self._alone():
            yield

    @property
    def has_terminal(self) -> bool:
        """Whether there is a terminal to ask on."""
        return is_terminal(self._source)

    def line(self, question: str) -> str:
        """Return the user's line in answer to a question of this program; empty at the end of input.

        Keys that were typed before the question is shown are dropped.
        """
        with self.alone():
            self._drop_typed()
            self._token = None
            print(clean(question), end="", file=self._out, flush=True)
            return self._line()

    def setting(self, wanted: ConfigInput) -> str:
        """Ask for the value of an input of a configuration file; a secret one is not shown while it is typed.

        :raises UsageError: the user declines, cancels or closes the terminal.
        """
        label = clean_line(wanted.description or wanted.id)
        with self.alone():
            for number, (_, title) in enumerate(wanted.options, 1):
                self._say(f"    {number}. {clean_line(title)}")
            default = f" (Enter for {clean_line(wanted.default)})" if wanted.default and not wanted.password else ""
            try:
                while True:
                    text = (getpass.getpass(f"{label}: ", self._out) if wanted.password
                            else self._read(f"{label}{default}: ")) or wanted.default
                    text = str(_choice(text, wanted.options))
                    if text and (not wanted.options or text in [value for value, _ in wanted.options]):
                        return text
                    self._say("    choose one of these" if wanted.options else "    a value is required")
            except (_Stop, EOFError) as error:
                raise UsageError(f"no value for ${{input:{wanted.id}}} was given") from error

    def form(self, request: ElicitRequest) -> Answer:
        """Ask for each field of a form, and at the end whether to send or change the answers (ELIC-20)."""
        return self._asked(request, self._form)

    def url(self, request: ElicitRequest) -> Answer:
        """Show a URL and ask for consent; the user opens it, this program never does (URLE-20, URLE-21)."""
        return self._asked(request, self._url)

    def _asked(self, request: ElicitRequest, ask: Callable[[ElicitRequest], Answer]) -> Answer:
        info: Optional[Implementation] = getattr(request, "server", None)  # who asks (ELIC-18)
        name = clean_line(info.display_name) if info is not None else "The server"
        # Further lines are indented, so that they cannot pass for a question of another server.
        message = f"{name} asks: " + request.message.strip().replace("\n", "\n  ")
        with self.alone():
            if not self.has_terminal:
                self._say(f"{message}\n(declined: there is no terminal to ask on)")
                return False
            self._drop_typed()
            self._say(f"\n{message}\n(type !decline to decline, !cancel to cancel)")
            self._token = getattr(request, "token", None)
            try:
                return ask(request)
            except _Stop as stop:
                return stop.answer
            except EOFError:
                self._say("")
                return None

    def _form(self, request: ElicitRequest) -> Answer:
        schema = request.requested_schema or {}
        fields = _askable(schema.get("properties") or {})
        required = schema.get("required") or ()
        secret = elicitation_forms.sensitive_names(schema)
        if secret:
            self._say(f"  (careful: this looks like a question for a secret: {clean_line(', '.join(secret))})")
        content: Dict[str, Any] = {}
        while True:
            for name, field in fields.items():
                value = self._field(name, field, name in required, content.get(name, field.get("default")))
                if value is not None:
                    content[name] = value
            for name, value in content.items():
                self._say(f"  {clean_line(name)} = {_json(value)}")
            if self._confirmed("Send this answer?" if content else "Accept?", change=bool(content)):
                return content

    def _url(self, request: ElicitRequest) -> Answer:
        self._say(f"  It wants you to visit {clean_line(request.url or '')}\n  (on the host {clean_line(request.host)}).")
        if "xn--" in request.host.lower() or not request.host.isascii():
            self._say("  (careful: the host has letters that can look like others)")  # URLE-24
        self._confirmed("Will you open it yourself?")
        return True

    def _say(self, text: str) -> None:
        print(clean(text), file=self._out, flush=True)

    def _drop_typed(self) -> None:
        """Drop the keys that were typed before a question is on the screen: they must not answer it, nor consent to it."""
        if sys.platform != "win32" and self.has_terminal:
            import termios

            with contextlib.suppress(termios.error):  # the terminal is gone: reading from it will fail, or end
                termios.tcflush(self._source.fileno(), termios.TCIFLUSH)

    def _line(self) -> str:
        # A thread inside readline() holds the lock of stdin, which the interpreter needs at exit. So no thread may be inside it
        # after a Ctrl-C, and readline() is called only once there is input. Other systems than POSIX can wait for sockets only.
        while os.name == "posix":
            if self._token is not None and self._token.cancelled:
                self._say("\n(the question was cancelled)")
                raise _Stop(None)
            if select.select([self._source], [], [], _CHECK_SECONDS)[0]:
                break
        return self._source.readline()

    def _read(self, prompt: str) -> str:
        print(clean(prompt), end="", file=self._out, flush=True)
        line = self._line()
        if not line:
            raise EOFError
        text = line.strip()
        if text == "!decline":
            raise _Stop(False)
        if text == "!cancel":
            raise _Stop(None)
        return text

    def _confirmed(self, question: str, change: bool = False) -> bool:
        """Return True for yes and False for "change it"; a no declines the whole question."""
        self._drop_typed()
        while True:
            text = self._read(f"{question} [y/n{'/c to change it' if change else ''}] ").lower()
            if text in ("y", "yes"):
                return True
            if text in ("n", "no"):
                raise _Stop(False)
            if change and text in ("c", "change"):
                return False

    def _field(self, name: str, field: Mapping[str, Any], required: bool, default: Any) -> Any:
        choices = _choices(field)
        several = field.get("type") == "array"
        label = clean_line(str(field.get("title") or name))
        if field.get("description"):
            self._say(f"  {clean_line(str(field['description']))}")
        for number, (_, title) in enumerate(choices, 1):
            self._say(f"    {number}. {clean_line(title)}")
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
            problems = elicitation_forms.check_answer({"properties": {name: field}}, {name: value})
            if not problems:
                return value
            self._say(f"    {clean_line('; '.join(problems))}")


def _askable(fields: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the fields of a form that a person can be asked for.

    Servers send fields that break the rules of forms, such as ``anyOf`` with null for an optional one, and most of these fields
    can be asked for all the same. If a required field is left out here, the client's check of the form refuses the answer.
    """
    asked: Dict[str, Any] = {}
    for name, field in fields.items():
        try:
            _choices(field)
            elicitation_forms.check_answer({"properties": {name: field}}, {name: ""})
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            continue
        asked[name] = field
    return asked


def _choices(field: Mapping[str, Any]) -> List[Tuple[Any, str]]:
    if field.get("type") == "boolean":
        return []  # asked as yes or no
    source = field.get("items") if field.get("type") == "array" else field
    return [(value, str(title or value)) for value, title in elicitation_forms.options(source) or []]


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
            return json.loads(text, parse_constant=str)  # JSON has no NaN and no Infinity
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
