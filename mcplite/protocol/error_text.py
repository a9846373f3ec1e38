"""The texts of errors and logs: what a peer wrote, cut and cleaned, and options, named as the reader knows them.

The one place that decides how much of a foreign text an error may repeat, and in which form.
"""

from __future__ import annotations

import re
import reprlib
from typing import Any, Iterable, List, Mapping, Optional, Tuple

#: What an installation brings along, by the modules that are imported.
_NEEDED = {"requests": "requests", "urllib3": "requests", "jsonschema": "jsonschema", "referencing": "jsonschema"}
_WORDS = {"True": "true", "False": "false", "None": "null"}
#: A string in a repr, which may be cut off, or a whole word.
_QUOTED_OR_WORD = r"""'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)|\w+"""
_UNPRINTABLE = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


def quoted(value: Any, most: int = 80) -> str:
    """Return a value as errors quote it: its ``repr``, of at most *most* characters."""
    text = repr(value[:most] if type(value) is str else value)
    return text if len(text) <= most else text[:most - 3] + "..."


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return the end of an error about an unknown name, such as "; did you mean 'forecast'?"; empty if no known one is near.

    :param most: how many of the known ones it may list.
    """
    import difflib  # only for errors

    near = difflib.get_close_matches(name[:200], list(known), most)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def missing_library(error: ImportError) -> Optional[ImportError]:
    """Return the error for a library that the package needs and a copy of it may lack; None for any other library.

    :param error: of the import.
    """
    library = _NEEDED.get((error.name or "").partition(".")[0])
    if library is None:
        return None
    return ModuleNotFoundError(f"install {library}, which this needs: pip install {library}", name=library)


def json_words(text: str) -> str:
    """Return the text of an error for a model with JSON's words for Python's: ``true`` for ``True``, ``null`` for ``None``.

    :param text: quotes values by their ``repr``; what stands in quotation marks there is left as it is.
    """
    if "True" not in text and "False" not in text and "None" not in text:
        return text
    return re.sub(_QUOTED_OR_WORD, lambda found: _WORDS.get(found.group(), found.group()), text)


def abridged(value: Any) -> str:
    """Return the ``repr`` of a nested value, cut at each level, so that a huge one is never written out whole."""
    return reprlib.repr(value)


def shown(url: str) -> str:
    """Return a URL as errors and logs show it: without credentials and query, which may be secrets."""
    from urllib.parse import urlsplit  # for those that have URLs

    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def printable(text: str) -> str:
    """Return *text* with control characters and lone surrogates spelled out: it can steer no terminal or log, and is UTF-8."""
    return re.sub(_UNPRINTABLE, lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def well_formed(text: str) -> str:
    """Return *text* with a replacement character for each lone surrogate, which JSON can say and UTF-8 cannot."""
    return text if text.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", text)


def one_line(text: str, most: Optional[int] = None) -> str:
    """Return *text* as one printable line.

    :param most: characters of the result; None for any number.
    """
    return printable(" ".join(text.split()))[:most]


class Option:
    """An option that the text of an error names; Python and a command line spell it differently.

    :param name: the keyword in Python, by which the table of a command line finds its own name.
    :param python: how Python spells it here; by default ``name=``.
    :param value: what stands behind the option on a command line; empty for nothing.
    """

    def __init__(self, name: str, python: Optional[str] = None, value: str = "") -> None:
        self._name, self._python, self._value = name, f"{name}=" if python is None else python, value

    def __str__(self) -> str:
        return self._python

    def on_command_line(self, names: Mapping[str, str]) -> str:
        """Return how a command line spells it; as Python does, if the table *names* lacks it."""
        return f"{names[self._name]} {self._value}".rstrip() if self._name in names else self._python


class OptionText(str):
    """The text of an error that names options: as a string it names them as Python does.

    :param parts: in their order strings, each :class:`Option`, and other texts of this kind.
    """

    parts: Tuple[Any, ...]

    def __new__(cls, *parts: Any) -> "OptionText":
        flat: List[Any] = []
        for part in parts:
            flat.extend(part.parts if isinstance(part, OptionText) else [part])
        text = super().__new__(cls, "".join(map(str, flat)))
        text.parts = tuple(flat)
        return text

    def on_command_line(self, names: Mapping[str, str]) -> str:
        """Return the text with the options as a command line spells them.

        :param names: the command line's names, by keywords in Python.
        """
        return "".join(part.on_command_line(names) if isinstance(part, Option) else str(part) for part in self.parts)


def worded(error: BaseException, names: Mapping[str, str]) -> str:
    """Return the text of an error for a command line; one that names no options is as it is.

    :param names: the command line's names of options, by keywords in Python.
    """
    text = error.args[0] if error.args else None
    return text.on_command_line(names) if isinstance(text, OptionText) else str(error)
