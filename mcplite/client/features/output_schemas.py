"""What tools have promised about their structured results, and whether they keep it."""

import logging
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ...errors import ProtocolError, RegistrationError
from ...types import CallToolResult, Tool

if TYPE_CHECKING:
    from ...protocol.schema.validation import Validator

__all__ = ["OutputSchemas"]

_log = logging.getLogger(__name__)


class _Promise:
    """One tool's output schema, which is looked at when the first result comes."""

    def __init__(self, tool: str, schema: Dict[str, Any]) -> None:
        self._tool = tool
        self._schema = schema
        self._ready = False
        self._validator: "Optional[Validator]" = None

    def validator(self, server: str) -> "Optional[Validator]":
        """Return what checks results; None where nothing can be checked.

        :raises ProtocolError: nobody knows what the tool promises (JSCH-04, JSCH-11).
        """
        if not self._ready:
            # Only now, since most clients meet no promise, and all of them would have to load it.
            from ...protocol.schema.rules import ForeignSchema
            from ...protocol.schema.validation import Validator, check_schema

            try:
                check_schema(self._schema, what=f"tool {self._tool[:100]!r}: outputSchema", trusted=False)
                self._validator = Validator(self._schema, trusted=False)
            except ForeignSchema as error:
                raise ProtocolError(f"{server}: the result cannot be checked: {str(error)[:500]}; connect with"
                                    " validate=False to take results unchecked", self._schema) from error
            except RegistrationError as error:
                # Known, but more than is checked of a stranger's schema, such as a pattern that could run for hours.
                _log.warning("%s: results are not checked: %.500s", server, error)
            except ImportError as error:
                # A vendored copy may have come without it; a result that nobody can check is still a result.
                _log.warning("%s: results of the tool %.100r are not checked: %s", server, self._tool, error)
            self._ready = True
        return self._validator


class OutputSchemas:
    """The output schemas of the tools that were listed.

    :param on: whether anything is checked.
    """

    def __init__(self, on: bool) -> None:
        self._on = on
        #: Guards the two fields below; readers need none, since the dictionary is replaced as a whole.
        self._lock = threading.Lock()
        self._promises: Dict[str, _Promise] = {}
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """How often the server's list has changed; to be taken before the tools are asked for."""
        return self._epoch

    def learn(self, tools: List[Tool], epoch: int) -> None:
        """Remember the schemas of listed tools, unless the list has changed since it was asked for."""
        if not self._on:
            return
        listed = {tool.name for tool in tools}
        promises = {tool.name: _Promise(tool.name, tool.output_schema) for tool in tools
                    if tool.output_schema is not None}
        with self._lock:
            if epoch == self._epoch:
                kept = {name: promise for name, promise in self._promises.items() if name not in listed}
                self._promises = {**kept, **promises}

    def forget(self) -> None:
        """Forget everything: the server's list has changed."""
        with self._lock:
            self._promises = {}
            self._epoch += 1

    def check(self, tool: str, result: CallToolResult, server: str, present: bool = True) -> None:
        """Return when the result keeps the tool's promise; an error result makes none (TOOL-43).

        :param present: whether there is structured content; null is some, too (TOOL-41).
        :raises ProtocolError: it does not, or structured content is missing (TOOL-44).
        """
        promise = self._promises.get(tool)
        if promise is None or result.is_error:
            return
        validator = promise.validator(server)
        if validator is None:
            return
        if result.structured_content is None and (not present or validator.problems(None)):
            raise ProtocolError(f"{server}: the tool {tool!r} has declared an output schema, but its result has no"
                                f" structuredContent")
        problems = validator.problems(result.structured_content)
        if problems:
            raise ProtocolError(f"{server}: the result of the tool {tool!r} does not fit its declared output schema:"
                                f" {'; '.join(problems[:3])}", result.structured_content)
