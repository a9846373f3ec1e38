"""An OpenAPI document: loaded from a dict, a file or a URL, and its references, which may lead to other files.

A reference leads nowhere outside: from a file to files in its folder and below, from a URL to URLs of its origin, and from a
dict to the dict itself. So a document of another author reads no files of this machine and reaches no other server.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from ..errors import RegistrationError
from ..protocol.error_text import quoted, shown
from ..protocol.uris import safe_join

__all__ = ["Document", "Located"]

#: Bytes of one file; the largest public documents have some 15 MB.
MOST_BYTES = 64 << 20
#: The most references that are followed, from one to the next.
_MOST_STEPS = 32
#: Files of one document.
_MOST_FILES = 500
#: What a scalar of YAML without quotes is in the core schema of YAML 1.2, which OpenAPI prescribes: the pattern of a tag, and
#: the characters that such a scalar begins with. Any other is a text, and so is a number with a leading zero, as a postal code.
_YAML_SCALARS = {
    "null": (r"(~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    "bool": (r"(true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    "int": (r"([-+]?(0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+)\Z", list("-+0123456789")),
    "float": (r"([-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z",
              list("-+.0123456789")),
    "merge": (r"<<\Z", ["<"])}  # of YAML 1.1 alone, and in use with anchors
#: A part of a document, and the file that it stands in: a URL, a path, or empty for a dict.
Located = Tuple[Any, str]
#: Returns the body of a URL.
Fetch = Callable[[str], bytes]


class Document:
    """One OpenAPI document of any supported version.

    :param spec: the document as a dict, the path of its file, or its URL.
    :param fetch: loads URLs; None if none can be loaded.
    :raises RegistrationError: it cannot be read, or is no OpenAPI document.
    """

    def __init__(self, spec: "Union[Mapping[str, Any], str, os.PathLike[str]]", fetch: Optional[Fetch] = None) -> None:
        self._fetch = fetch
        #: The URL or the path of the document; empty for a dict.
        self.location = ""
        self._folder = ""
        self._files: Dict[str, Any] = {}
        self._heirs: Optional[Dict[int, List[Any]]] = None
        if isinstance(spec, Mapping):
            root: Any = _as_json(spec, {}, [])
        else:
            self.location = os.fspath(spec)
            if not self.is_remote:
                self.location = os.path.realpath(self.location)
                self._folder = os.path.dirname(self.location)
            root = self._read(self.location)
        if not isinstance(root, dict):
            raise RegistrationError(f"{self.name} is no OpenAPI document: it holds {type(root).__name__}, not an object")
        self.root: Dict[str, Any] = root
        self._files[self.location] = root
        #: "2", "3.0", or "3.1" for 3.1 and later versions.
        self.version = self._version()
        paths = root.get("paths")
        if paths is not None and not isinstance(paths, dict):
            raise RegistrationError(f"{self.name}: paths must be an object, not {quoted(paths)}")

    @property
    def is_remote(self) -> bool:
        """Whether it was loaded from a URL."""
        return urlsplit(self.location).scheme in ("http", "https")

    @property
    def name(self) -> str:
        """The document, for errors."""
        return "the document" if not self.location else shown(self.location) if self.is_remote else self.location

    def _version(self) -> str:
        swagger, openapi = self.root.get("swagger"), self.root.get("openapi")
        if swagger is not None and str(swagger).startswith("2"):
            return "2"
        found = str(openapi or "")
        if found.startswith("3.0"):
            return "3.0"
        if found.startswith("3."):
            return "3.1"
        raise RegistrationError(f"{self.name} is no OpenAPI document of the versions 3.0, 3.1 or 2 (Swagger): it has"
                                f" openapi={quoted(openapi)} and swagger={quoted(swagger)}")

    # --- references -------------------------------------------------------------------------------------

    def resolve(self, node: Any, place: str) -> Located:
        """Return a part of the document, or the part that its ``$ref`` leads to, and the file of the part returned.

        :param place: the file in which *node* stands.
        :raises RegistrationError: the reference leads to nothing, in a circle, or outside.
        """
        for _ in range(_MOST_STEPS):
            reference = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(reference, str):
                return node, place
            node, place = self._find(reference, place)
        raise RegistrationError(f"{self.name}: the reference {quoted(node)} leads in a circle")

    def _find(self, reference: str, place: str) -> Located:
        uri, fragment = urldefrag(reference)
        if uri:
            place = self._locate(uri, place, reference)
            if place not in self._files:
                if len(self._files) >= _MOST_FILES:
                    raise RegistrationError(f"{self.name} refers to more than {_MOST_FILES} files")
                self._files[place] = self._read(place)
        target = self._files[place]
        for step in fragment[1:].split("/") if fragment.startswith("/") else ():
            target = self._step(target, step, reference)
        if fragment and not fragment.startswith("/"):
            raise RegistrationError(f"{self.name}: the reference {reference[:200]!r} is no pointer; write '#/components/...'")
        return target, place

    def _step(self, target: Any, step: str, reference: str) -> Any:
        # Names with percent signs are often written as they are.
        for name in (unquote(step), step):
            name = name.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                return target[name]
            if isinstance(target, list) and name.isdecimal() and int(name[:9]) < len(target):
                return target[int(name[:9])]
        raise RegistrationError(f"{self.name}: the reference {reference[:200]!r} leads to nothing")

    def _locate(self, uri: str, place: str, reference: str) -> str:
        """Return the file that a reference names.

        :raises RegistrationError: it is outside of the document's folder or origin.
        """
        if not self.location:
            raise RegistrationError(f"the reference {reference[:200]!r} is to another file, and a dict has no place:"
                                    " give the path or the URL of the document")
        if self.is_remote:
            target = urljoin(place, uri)
            if urlsplit(target)[:2] != urlsplit(self.location)[:2]:
                raise RegistrationError(f"{self.name}: the reference {reference[:200]!r} is to another origin, from which"
                                        " nothing is loaded: put the file beside the document")
            return target
        try:
            if urlsplit(uri).scheme:
                raise ValueError("it is a URL, and the document is a file")
            below = os.path.relpath(os.path.join(os.path.dirname(place), unquote(uri)), self._folder)
            return safe_join(self._folder, below.replace(os.sep, "/"))
        except ValueError as error:
            raise RegistrationError(f"{self.name}: the reference {reference[:200]!r} leads out of the document's folder,"
                                    f" from which nothing is loaded: put the file there ({error})") from error

    def heirs(self, schema: Any) -> List[Any]:
        """Return the schemas of the document that list *schema* under ``allOf``."""
        if self._heirs is None:
            found: Dict[int, List[Any]] = {}
            root = self.root
            components = root.get("components") if self.version != "2" else {"schemas": root.get("definitions")}
            listed = components.get("schemas") if isinstance(components, dict) else None
            for heir in listed.values() if isinstance(listed, dict) else ():
                parts = heir.get("allOf") if isinstance(heir, dict) else None
                for part in parts if isinstance(parts, list) else ():
                    try:
                        found.setdefault(id(self.resolve(part, self.location)[0]), []).append(heir)
                    except RegistrationError:
                        continue  # it leads to nothing
            self._heirs = found
        return self._heirs.get(id(schema), [])

    # --- files --------------------------------------------------------------------------------------------

    def _read(self, location: str) -> Any:
        if urlsplit(location).scheme in ("http", "https"):
            if self._fetch is None:
                raise RegistrationError(f"{shown(location)} cannot be loaded here; give the document as a dict or a file")
            data = self._fetch(location)
        else:
            try:
                with open(location, "rb") as file:
                    data = file.read(MOST_BYTES + 1)
            except OSError as error:
                raise RegistrationError(f"the OpenAPI document {location!r} cannot be read: {error.strerror or error}"
                                        ) from error
        if len(data) > MOST_BYTES:
            raise RegistrationError(f"{location} has more than {MOST_BYTES} bytes")
        return parse(data, location)


def parse(data: bytes, location: str) -> Any:
    """Return the content of a JSON or YAML file.

    :param location: names it in errors.
    :raises RegistrationError: it is neither JSON nor YAML, or it is YAML and PyYAML is not installed.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RegistrationError(f"{location} is not UTF-8: {error}") from error
    try:
        return json.loads(text, parse_constant=lambda name: None, parse_float=_finite)
    except RecursionError as error:
        raise RegistrationError(f"{location} is nested too deeply") from error
    except ValueError as error:
        if text.lstrip()[:1] in ("{", "["):
            raise RegistrationError(f"{location} is not JSON: {error}") from error
    return _parse_yaml(text, location)


def _parse_yaml(text: str, location: str) -> Any:
    try:
        from yaml import SafeLoader, YAMLError
    except ImportError as error:
        raise RegistrationError(f"{location} is no JSON, and YAML needs PyYAML: pip install PyYAML") from error
    try:
        # The loader in C takes a fifth of the time, and itself refuses 1,000 levels.
        from yaml import CSafeLoader as Loader
    except ImportError:
        Loader = SafeLoader  # a build of PyYAML without the part in C

    class Core(Loader):  # type: ignore[misc]
        yaml_implicit_resolvers: Dict[str, Any] = {}

    for tag, (pattern, first) in _YAML_SCALARS.items():
        Core.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    try:
        loader = Core(text)
        root = loader.get_single_node()
        version = root
        for name in ("info", "version"):
            members = version.value if version is not None and version.id == "mapping" else ()
            version = next((item for key, item in members if key.value == name), None)
        if version is not None and version.tag.endswith((":int", ":float")):
            version.tag = "tag:yaml.org,2002:str"  # the version of an API is a text, and 1.10 is not 1.1
        return None if root is None else _as_json(loader.construct_document(root), {}, [])
    except (YAMLError, RecursionError, ValueError) as error:
        raise RegistrationError(f"{location} is neither JSON nor YAML: {str(error)[:300]}") from error


def _finite(text: str) -> Optional[float]:
    """Return a number of JSON; None for a number that is too large to be sent."""
    number = float(text)
    return number if math.isfinite(number) else None


def _as_json(value: Any, done: Dict[int, Any], kept: List[Any]) -> Any:
    """Return a value of YAML or of a program as JSON has it: the names of members are texts, and dates too.

    The value of an alias is converted once, so that aliases multiply nothing.
    """
    if isinstance(value, (Mapping, list, tuple)):
        if id(value) in done:
            return done[id(value)]
        kept.append(value)
        if isinstance(value, Mapping):
            made: Any = {}
            done[id(value)] = made
            for name, item in value.items():
                made[_as_name(name)] = _as_json(item, done, kept)
        else:
            made = []
            done[id(value)] = made
            made.extend(_as_json(item, done, kept) for item in value)
        return made
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _as_name(name: Any) -> str:
    if isinstance(name, bool):
        return "true" if name else "false"
    return "null" if name is None else str(name)
