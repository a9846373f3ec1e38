"""OutputSchema: the declared output schema of a tool; structured results are checked against it.

Listing tools makes them, and ``call_tool`` checks results by them. The validator loads with the first schema that is used.
:class:`Listed` is what a client remembers of listed tools, by name and within bounds: a server chooses the names, and may list
others each time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Collection, Dict, Generic, List, Literal, Mapping, Optional, TypeVar, Union

from ..errors import ProtocolError, RegistrationError
from ..protocol.jsonrpc import memory_size
from ..rpc.tracing import get_logger
from ..types import NULL, CallToolResult

if TYPE_CHECKING:
    from ..protocol.schema.validation import Validator

__all__ = ["Listed", "OutputSchema"]

T = TypeVar("T")
_log = get_logger(__name__)
#: The bounds of a list of several pages in ``calls.py``, so that a list which one call reads is remembered whole. The number of
#: tools is without those of the newest page, the number of bytes is with them.
_MOST_TOOLS = 10_000
_MOST_BYTES = 40 << 20


class Listed(Generic[T]):
    """One value for each listed tool that has one; if there are too many, those that were listed longest ago are forgotten."""

    def __init__(self) -> None:
        #: Guards the fields below; held for dictionary work. Readers of :attr:`found` and :attr:`epoch` need none.
        self._lock = threading.Lock()
        #: The values by name, in the order in which they were listed; replaced as a whole.
        self.found: Dict[str, T] = {}
        #: The bytes of memory of each name and its value.
        self._sizes: Dict[str, int] = {}
        #: The number of changes of the server's list so far; read before the tools are requested.
        self.epoch = 0

    def learn(self, page: Collection[str], found: Mapping[str, T], epoch: Optional[int] = None) -> None:
        """Remember all values of a page of tools, in place of those that are known of these tools.

        :param page: the names of its tools.
        :param found: the values of those that have one.
        :param epoch: :attr:`epoch` from before the request; if it has changed since, the page is ignored. None accepts the page
            in any case.
        """
        sizes = {name: memory_size([name, value], _MOST_BYTES) for name, value in found.items()}
        listed, size = set(page), sum(sizes.values())
        kept: List[str] = []
        with self._lock:
            if epoch not in (None, self.epoch):
                return
            for name in reversed(self.found):
                if name in listed:
                    continue
                size += self._sizes[name]
                if size > _MOST_BYTES or len(kept) == _MOST_TOOLS:
                    break
                kept.append(name)
            kept.reverse()
            self._sizes = {**{name: self._sizes[name] for name in kept}, **sizes}
            self.found = {**{name: self.found[name] for name in kept}, **found}

    def forget(self) -> None:
        """Forget all: the server's list has changed."""
        with self._lock:
            self.found, self._sizes = {}, {}
            self.epoch += 1


class OutputSchema:
    """One tool's output schema, which is compiled when the first result comes."""

    def __init__(self, tool: str, schema: Dict[str, Any]) -> None:
        self._tool = tool
        self._schema = schema
        #: None before the first result, False where results cannot be checked.
        self._validator: "Union[Validator, None, Literal[False]]" = None

    @property
    def of_object(self) -> bool:
        """Whether it describes an object."""
        return self._schema.get("type") == "object"

    def check(self, result: CallToolResult, server: str, present: bool = True) -> None:
        """Check a result against the schema; error results are not checked (TOOL-43).

        :param server: its name, for the error.
        :param present: whether there is structured content, which may be null (TOOL-41).
        :raises ProtocolError: the content does not fit, or is missing (TOOL-44).
        """
        if result.is_error:
            return
        value, problems = result.structured_content, []
        try:
            if self._validator is None:
                self._validator = self._compile()
            if self._validator and present:
                problems = self._validator.problems(value)
        except (ImportError, RegistrationError) as error:
            # The tool has run, so its result is accepted without a check (JSCH-04, JSCH-11). The schema is of another dialect,
            # has a reference to nowhere, or has something that a server's schema must not have, such as a pattern that could
            # run for hours. Or this is a vendored copy without the library that the validator needs in doubtful cases.
            self._validator = False
            _log.warning("%s: results of the tool %.100r are not checked: %.500s", server, self._tool, error)
        if not self._validator:
            return
        if value is None:
            if not present or problems:
                raise ProtocolError(f"{server}: the tool {self._tool!r} has declared an output schema, but its result has no"
                                    f" structuredContent")
            result.structured_content = NULL
        elif problems:
            raise ProtocolError(f"{server}: the result of the tool {self._tool!r} does not fit its declared output schema:"
                                f" {'; '.join(problems[:3])}", value)

    def _compile(self) -> "Validator":
        # Imported only now, since most clients never need the validator.
        from ..protocol.schema.validation import Validator, check_schema

        check_schema(self._schema, what=f"tool {self._tool[:100]!r}: outputSchema", trusted=False)
        return Validator(self._schema, trusted=False)
