"""Names of tools: which of them a model is told of, and the names that its API takes, mapped both ways."""

import hashlib
import re
from collections import Counter
from typing import Any, Callable, Dict, Iterable, Optional, Pattern, Set, Union

from ..protocol.error_text import quoted
from ..types import Tool

__all__ = ["Choice", "NameMap", "PARAMETERS", "PARAMETERS_OF_GEMINI", "TOOLS", "TOOLS_OF_GEMINI", "check_source", "chooser"]

#: The names of tools that Anthropic and OpenAI take.
TOOLS = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: Gemini's names begin with a letter or an underscore, and older models know none longer than 64.
TOOLS_OF_GEMINI = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
#: Anthropic refuses a whole request if one parameter of one tool has another name.
PARAMETERS = re.compile(r"[A-Za-z0-9_.-]{1,64}")
PARAMETERS_OF_GEMINI = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
#: Which tools: their names as ``list_tools()`` has them, or a function of the tool.
Choice = Union[None, Iterable[str], Callable[[Tool], bool]]
_MOST = 64


class NameMap:
    """Names as a model sees them, and the names that they stand for.

    A name that the API takes stays as it is. In any other name a dot becomes two underscores, and any other character that the
    API refuses becomes one. A name that is too long, or that would be another's, ends with eight digits of its hash instead;
    the same names give the same result in any order and in any process. A name that was assigned once stays, so that a
    conversation can go on when the server's list changes. Not safe for threads: its owner has a lock.

    :param allowed: what the API takes, for ``fullmatch``.
    """

    def __init__(self, allowed: Pattern[str]) -> None:
        self._allowed = allowed
        #: The model's names by those of the server, and the server's by those of the model.
        self._shown: Dict[str, str] = {}
        self._own: Dict[str, str] = {}

    def add(self, names: Iterable[str]) -> None:
        """Assign a name to each of *names* that has none yet."""
        new = sorted({name for name in names if name not in self._shown})
        plain = {name: self._plain(name) for name in new}
        times = Counter(plain.values())
        # Names that need no change come first, so that none of them is given to another.
        for name in sorted(new, key=lambda name: plain[name] != name):
            wanted = plain[name]
            # Where two changed names would be equal, none of them gets it: an order decides nothing.
            shared = wanted != name and times[wanted] > 1
            count = 0
            while shared or not self._allowed.fullmatch(wanted) or wanted in self._own:
                wanted, shared, count = self._with_digits(name, plain[name], count), False, count + 1
            self._shown[name] = wanted
            self._own[wanted] = name

    def has(self, name: str) -> bool:
        """Tell whether the server's *name* was added."""
        return name in self._shown

    def shown(self, name: str) -> str:
        """Return the model's name for the server's *name*, which must have been added."""
        return self._shown[name]

    def own(self, shown: str) -> Optional[str]:
        """Return the server's name for the model's; None if the model knows no such name."""
        return self._own.get(shown)

    def _plain(self, name: str) -> str:
        if self._allowed.fullmatch(name):
            return name
        # A dot first: it may be allowed, as in the names of parameters, while another character is not.
        plain = "".join(char if self._allowed.fullmatch("a" + char) else "__" if char == "." else "_" for char in name)
        if not any(char.isalnum() for char in plain):
            return "name"
        return plain if self._allowed.fullmatch(plain[:1]) else "_" + plain

    def _with_digits(self, name: str, plain: str, count: int) -> str:
        salted = name if not count else f"{name}\n{count}"
        digits = hashlib.sha256(salted.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{plain[:_MOST - 9]}_{digits}"


class _Chooser:
    """One of ``only=`` and ``exclude=``."""

    def __init__(self, choice: Union[None, Set[str], Callable[[Tool], bool]]) -> None:
        self._choice = choice

    @property
    def names(self) -> Optional[Set[str]]:
        return self._choice if isinstance(self._choice, set) else None

    def __call__(self, tool: Tool, default: bool) -> bool:
        if self._choice is None:
            return default
        return tool.name in self._choice if isinstance(self._choice, set) else bool(self._choice(tool))


def check_source(client: Any) -> None:
    """Check what a program gave as the client whose tools a model gets.

    :raises TypeError: it has no tools to list.
    """
    if not hasattr(client, "list_tools"):
        raise TypeError("give a Client, as from connect(server), or a Group of several, as from connect_all(...), not"
                        f" {quoted(client)}")


def chooser(parameter: str, choice: Choice) -> _Chooser:
    """Return an object that says whether a tool is chosen by *parameter*.

    :raises TypeError: the choice is one string.
    """
    if isinstance(choice, str):
        raise TypeError(f"{parameter}= takes a list of names or a function, so write {parameter}=[{choice!r}]")
    return _Chooser(choice if choice is None or callable(choice) else set(choice))
