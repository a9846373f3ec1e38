"""What tools have promised about their structured results, and whether they keep it.

May import: errors, protocol.validation, types
"""

import logging
from typing import Dict, List, Optional

from ..errors import ProtocolError, RegistrationError
from ..protocol.validation import Validator, check_schema
from ..types import CallToolResult, Tool

__all__ = ["Outputs"]

_log = logging.getLogger(__name__)


class Outputs:
    """The output schemas of the tools that were listed.

    Replaced as a whole, never changed in place, so that readers need no lock.

    :param on: whether anything is checked.
    """

    def __init__(self, on: bool) -> None:
        self._on = on
        self._schemas: Dict[str, object] = {}
        self._validators: Dict[str, Optional[Validator]] = {}

    def learn(self, tools: List[Tool]) -> None:
        """Remember the schemas of listed tools."""
        if self._on:
            fresh = {tool.name: tool.output_schema for tool in tools if tool.output_schema is not None}
            names = {tool.name for tool in tools}
            self._schemas = {**{name: schema for name, schema in self._schemas.items() if name not in names}, **fresh}
            self._validators = {name: kept for name, kept in self._validators.items() if name not in names}

    def forget(self) -> None:
        """Forget everything: the server's list has changed."""
        self._schemas, self._validators = {}, {}

    def check(self, tool: str, result: CallToolResult, server: str) -> None:
        """Return when the result keeps the tool's promise; an error result makes none (TOOL-43).

        :raises ProtocolError: it does not, or structured content is missing (TOOL-44).
        """
        if result.is_error or tool not in self._schemas:
            return
        validator = self._validator(tool, server)
        if validator is None:
            return
        if result.structured_content is None:
            raise ProtocolError(f"{server}: the tool {tool!r} has declared an output schema, but its result has no"
                                f" structuredContent", result)
        problems = validator.problems(result.structured_content)
        if problems:
            raise ProtocolError(f"{server}: the result of the tool {tool!r} does not fit its declared output schema:"
                                f" {'; '.join(problems[:3])}", result.structured_content)

    def _validator(self, tool: str, server: str) -> Optional[Validator]:
        if tool not in self._validators:
            schema = self._schemas[tool]
            validator: Optional[Validator] = None
            try:
                check_schema(schema, what=f"tool {tool[:100]!r}: outputSchema", trusted=False)
                assert isinstance(schema, dict)
                validator = Validator(schema)
            except RegistrationError as error:
                # A hostile or broken schema must not keep the tool from being used; it is said once.
                _log.warning("%s: results are not checked: %s", server, error)
            self._validators = {**self._validators, tool: validator}
        return self._validators[tool]
