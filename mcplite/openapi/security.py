"""The credentials of an API: by the security schemes of its document, from the program or its environment.

A credential is never an argument of a tool: a model neither sees nor chooses it.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple, Union
from urllib.parse import quote

from ..errors import RegistrationError, ToolError
from ..net.settings import basic
from .document import Document
from .operations import APIOperation
from .request_building import APIRequest

__all__ = ["Credential", "APICredentials"]

#: A key or token, a user name with a password, or a function that returns one of them for each request.
Credential = Union[str, Tuple[str, str], Callable[[], Union[str, Tuple[str, str]]]]


class APICredentials:
    """The credentials for the security schemes of one document.

    :param given: by the name of the scheme.
    :param prefix: of variables of the environment, such as ``PETSTORE`` for ``PETSTORE_API_KEY`` of the scheme ``api_key``;
        None to read none.
    :raises RegistrationError: the document has no such scheme.
    """

    def __init__(self, document: Document, given: Mapping[str, Credential], prefix: Optional[str] = None) -> None:
        root = document.root
        components = root.get("components")
        schemes: Any = root.get("securityDefinitions") if document.version == "2" else (
            components.get("securitySchemes") if isinstance(components, dict) else None)
        self._schemes: Dict[str, Dict[str, Any]] = {}
        for name, node in (schemes if isinstance(schemes, dict) else {}).items():
            scheme, _ = document.resolve(node, document.location)
            if isinstance(scheme, dict):
                self._schemes[name] = scheme
        unknown = [name for name in given if name not in self._schemes]
        if unknown:
            raise RegistrationError(f"credentials= has {unknown[0]!r}, which is no security scheme of {document.name}; it has:"
                                    f" {', '.join(self._schemes) or 'none'}")
        self._values: Dict[str, Credential] = dict(given)
        for name, value in given.items():
            try:
                if not callable(value):
                    _checked(value)
            except ToolError as error:
                raise RegistrationError(f"{name}: {error}") from None
        self._prefix = prefix
        for name in self._schemes if prefix is not None else ():
            found = os.environ.get(self.variable(name))
            if found and name not in self._values:
                self._values[name] = found

    def variable(self, scheme: str) -> str:
        """Return the variable of the environment that has the credential of a scheme."""
        return re.sub(r"\W", "_", f"{self._prefix}_{scheme}").upper()

    def how_to_give(self, scheme: str) -> str:
        """Return how a program or its user gives the credential of a scheme."""
        given = f"give credentials={{{scheme!r}: ...}}, or session="
        return given if self._prefix is None else f"set the environment variable {self.variable(scheme)}, or {given}"

    def parameters(self, operation: APIOperation) -> Set[Tuple[str, str]]:
        """Return the parameters that the schemes of an operation fill in: place and name, of a header in lower case."""
        found = set()
        for alternative in operation.security:
            for name in alternative:
                scheme = self._schemes.get(name, {})
                place, wire = scheme.get("in"), scheme.get("name")
                if scheme.get("type") == "apiKey" and isinstance(place, str) and isinstance(wire, str):
                    found.add((place, wire.lower() if place == "header" else wire))
        return found

    def apply(self, operation: APIOperation, request: APIRequest) -> None:
        """Add the credentials of the first alternative for which all are given.

        :raises ToolError: one has characters that cannot stand in a header.
        """
        for alternative in operation.security:
            if all(name in self._values for name in alternative):
                for name in alternative:
                    self._add(self._schemes[name], self._values[name], request)
                return

    def missing(self, operation: APIOperation) -> List[str]:
        """Return the schemes of all alternatives if the credentials suffice for none of them; empty if they suffice."""
        alternatives = operation.security
        if not alternatives or any(all(name in self._values for name in one) for one in alternatives):
            return []
        return list(dict.fromkeys(name for one in alternatives for name in one))

    @staticmethod
    def _add(scheme: Mapping[str, Any], value: Credential, request: APIRequest) -> None:
        found = _checked(value() if callable(value) else value)
        kind, how = scheme.get("type"), str(scheme.get("scheme", "")).lower()
        if kind == "basic" or kind == "http" and how == "basic":
            name, _, password = found.partition(":") if isinstance(found, str) else (found[0], "", found[1])
            try:
                header = basic(name, password)
            except UnicodeEncodeError:
                raise ToolError("the user name or the password of the API has characters that cannot be sent") from None
            request.headers["Authorization"] = header
            return
        text = found if isinstance(found, str) else ":".join(found)
        if kind != "apiKey":  # bearer, oauth2, openIdConnect, or another scheme of HTTP
            word = "Bearer" if kind != "http" or how in ("bearer", "") else how.capitalize()
            _add_secret(request, "Authorization", f"{word} {text}")
        elif scheme.get("in") == "query":
            request.query.append(f"{quote(str(scheme.get('name')), safe='')}={quote(text, safe='')}")
        elif scheme.get("in") == "cookie":
            request.cookies.append(f"{scheme.get('name')}={quote(text, safe='')}")
        else:
            _add_secret(request, str(scheme.get("name")), text)


def _checked(value: Any) -> Union[str, Tuple[str, str]]:
    """Return a credential.

    :raises ToolError: it is of no kind that can be sent; the text does not have it.
    """
    if isinstance(value, str) or isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, str) for one in value):
        return value
    raise ToolError(f"credentials= has a {type(value).__name__} for a scheme: give a text, a pair of user name and password, or"
                    " a function that returns one of them")


def _add_secret(request: APIRequest, name: str, value: str) -> None:
    try:
        request.add_header(name, value)
    except ToolError:
        # Without the original error, which may quote the value.
        raise ToolError(f"the credential of the API for {name} has characters that cannot stand in a header") from None
