"""Makes the entries of the registry from what a user registers: the checks, and the parts that follow from the function.

A module of its own so that the facade of the server shows what can be registered, and not how an entry is made of it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from ... import types
from ...errors import ProtocolError, RegistrationError
from ...protocol.error_text import did_you_mean, quoted
from ...protocol.meta import check_meta
from ...rpc.tracing import get_logger
from ...types import codec
from ...types.codec import TAGS
from ...types.lazy_dataclass import fields_of, wire_name
from ..functions.function import Function, compile_function
from ..functions.signature import checked_text
from .registry import CatalogEntry, ToolEntry, check_name

if TYPE_CHECKING:
    from ...protocol.http.routing_headers import Mark
    from .cache_hints import CacheHint
    from .directory import Directory

_log = get_logger(__name__)
M = TypeVar("M", bound=types.Model)
Scopes = Union[str, Iterable[str]]


# --- the members of definitions -----------------------------------------------------------------------


def checked_object(value: Any, what: str, member: str) -> Optional[Dict[str, Any]]:
    """Return a copy of a JSON object of a definition, and None as it is.

    :raises RegistrationError: it is not an object, or a part of it is not JSON.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise RegistrationError(f"{what}: {member}= must be a dict, not {quoted(value)}")
    from ..functions.definitions import definition_json

    try:
        return definition_json(value, member)  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: {error}") from error


def checked_record(cls: Type[M], value: Any, what: str, member: str) -> M:
    """Return a copy of a part of a definition that is given as an object or as a dict.

    The keys of a dict may be those of the protocol, or the names of the attributes.

    :raises RegistrationError: it is neither, or a member is missing or of a wrong type.
    """
    if not isinstance(value, (cls, Mapping)):
        raise RegistrationError(f"{what}: {member} must be {cls.__name__}(...) or a dict, not {quoted(value)}")
    from ..functions.definitions import definition_json

    try:
        made = definition_json(value, member)
        if isinstance(value, Mapping):
            names = {field.name: wire_name(field) for field in fields_of(cls)}
            made = {names.get(key, key): item for key, item in made.items()}
            for key in made.keys() - names.values():
                near = did_you_mean(key, names.values())  # another key may be of a later revision, or of the author's own
                if near:
                    _log.warning("%s: %s has the unknown key %.100r%s", what, member, key, near)
        return codec.decode_own(cls, made)
    except (ProtocolError, TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: {member}: {error}" if isinstance(error, ProtocolError) else f"{what}: {error}"
                                ) from error


def checked_list(value: Any, what: str, member: str, example: str) -> List[Any]:
    """Return a list, or any other iterable that is no text and no mapping, as a list.

    :param example: how to write one, for the error.
    :raises RegistrationError: it is a text, a mapping, or cannot be iterated.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise RegistrationError(f"{what}: {member}= takes a list: write {member}={example}, not {quoted(value)}")
    return list(value)


def checked_icons(icons: Any, what: str) -> Optional[List[types.Icon]]:
    """Return copies of icons, given as objects or dicts.

    :raises RegistrationError: they are no list, or one is not an icon.
    """
    if icons is None:
        return None
    given = checked_list(icons, what, "icons", '[Icon("https://...")]')
    return [checked_record(types.Icon, icon, what, f"icons[{at}]") for at, icon in enumerate(given)]


def with_tags(meta: Any, tags: Any, what: str) -> Any:
    """Return the ``_meta`` of a definition with its tags.

    :raises RegistrationError: the tags are no list of texts.
    """
    if isinstance(tags, tuple) and not tags:
        return meta
    if isinstance(tags, (set, frozenset)):
        tags = sorted(tags, key=str)
    named = list(dict.fromkeys(checked_list(tags, what, "tags", "['admin']")))
    for tag in named:
        if not isinstance(tag, str) or not tag:
            raise RegistrationError(f"{what}: a tag is a text that is not empty, not {quoted(tag)}")
    return {**checked_object({} if meta is None else meta, what, "meta"), TAGS: named}  # type: ignore[dict-item]


def checked_uri(uri: Any, what: str) -> str:
    """Return the URI of a resource as a text.

    :raises RegistrationError: it is no text, and does not stand for one.
    """
    text = checked_text(uri, what, "uri")
    if text is None:
        raise RegistrationError(f"{what} needs a URI, such as 'config://settings', not {uri!r}")
    return text  # type: ignore[no-any-return]


def check_hint(hint: Any, what: str) -> None:
    """Refuse *hint* if it is no cache hint.

    :raises RegistrationError: it is of another type.
    """
    from .cache_hints import CacheHint  # for servers that have hints

    if not isinstance(hint, CacheHint):
        raise RegistrationError(f"{what} must be a CacheHint, not {quoted(hint)}")


def _check_definition(definition: Any, what: str, annotations: Optional[Type[types.Model]] = None) -> None:
    """Check the members that all definitions have, and put the checked ones in their places.

    :param definition: as the user gave it: its annotations and icons may be dicts.
    :param annotations: the class of the annotations; None for that of resources.
    :raises RegistrationError: a member cannot be used. The ``_meta`` cannot if it is not JSON, or if a key breaks the rules or
        is reserved (META-01 to META-03).
    """
    definition.title, definition.icons = checked_text(definition.title, what, "title"), checked_icons(definition.icons, what)
    if getattr(definition, "annotations", None) is not None:
        definition.annotations = checked_record(annotations or types.Annotations, definition.annotations, what, "annotations")
    if definition.meta is None:
        return
    definition.meta = checked_object(definition.meta, what, "meta")
    try:
        check_meta(definition.meta)
    except ValueError as error:
        raise RegistrationError(f"{what}: {error}") from error


def _registered_scopes(scopes: Scopes, what: str) -> Tuple[str, ...]:
    """Return the scopes of an entry, each once.

    :raises RegistrationError: one is not a scope.
    """
    if scopes == () or scopes is None or scopes == "":
        return ()
    if not isinstance(scopes, str):
        scopes = checked_list(scopes, what, "scopes", "['read']")
    from ..principals import checked_scopes  # for entries that require scopes

    try:
        return checked_scopes(scopes, what)
    except (TypeError, ValueError) as error:
        raise RegistrationError(str(error)) from error


# --- tools --------------------------------------------------------------------------------------------


def tool_entry(function: Function, tool: types.Tool, timeout: Optional[float], scopes: Scopes, task: str = "forbidden",
               restartable: bool = False) -> ToolEntry:
    """Return the entry of a tool.

    :param tool: the definition as the user gave it: its annotations and icons may be dicts.
    :param task: whether it may be called as a task.
    :param restartable: whether such a task is begun again.
    :raises RegistrationError: a part of it cannot be used.
    """
    what = f"tool {check_name('tool', tool.name)!r}"
    if timeout is not None and not (type(timeout) in (int, float) and 0 < timeout < math.inf):
        raise RegistrationError(f"{what}: timeout= must be a positive number of seconds, or None for no limit, not"
                                f" {quoted(timeout)}")
    _check_definition(tool, what, types.ToolAnnotations)
    if task not in ("forbidden", "optional", "required"):
        raise RegistrationError(f"{what}: task must be 'optional', 'required' or 'forbidden', not {task!r}")
    if task != "forbidden":
        tool.execution = {"taskSupport": task}
    elif restartable:
        raise RegistrationError(f"{what}: restartable=True is for tasks: add task='optional' or task='required'")
    return ToolEntry(tool, function, timeout, _find_marks(function, what), _registered_scopes(scopes, what), task, restartable)


def _find_marks(function: Function, what: str) -> "Sequence[Mark]":
    """Return the marked parameters of a tool (MHDR-11).

    :raises RegistrationError: a parameter cannot be marked.
    """
    if not function.mentions("x-mcp-header"):
        return ()
    from ...protocol.http.routing_headers import marks  # for servers that have marked parameters

    try:
        found = marks(function.input_schema)
    except ValueError as error:
        raise RegistrationError(f"{what}: {error}") from error
    for mark in found:
        if any(word in mark.path[-1].lower() for word in ("password", "secret", "token", "key", "credential")):
            _log.warning("%s: the parameter %r looks like a secret, which should not travel in a header",  # MHDR-30
                         what, mark.path[-1])
    return found


# --- resources ----------------------------------------------------------------------------------------


def resource_entry(function: Function, resource: types.Resource, cache: "Optional[CacheHint]", scopes: Scopes) -> CatalogEntry:
    """Return the entry of a resource, or of a template if its URI has variables.

    :param resource: the definition as the user gave it: its annotations and icons may be dicts.
    :raises RegistrationError: no request can name the URI (RSRC-26), or its variables are not the function's parameters.
    """
    from ...protocol.uris import normal_uri, uri_problem  # for servers that have resources

    uri = resource.uri
    what = f"resource {uri!r}"
    problem = uri_problem(uri)
    if problem:
        raise RegistrationError(f"{what}: as the URI of a resource {problem}")
    is_template = "{" in uri
    if not is_template:
        uri = resource.uri = normal_uri(uri)
        what = f"resource {uri!r}"
    check_name("resource", resource.name)
    _check_definition(resource, what)
    resource.mime_type, size = checked_text(resource.mime_type, what, "mime_type"), resource.size
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise RegistrationError(f"{what}: size= must be a number of bytes, 0 or more, not {quoted(size)}")
    if cache is not None:
        check_hint(cache, f"{what}: cache=")
    needed = _registered_scopes(scopes, what)
    parameters = [parameter for parameter, _, _ in function.parameters]
    required = [parameter for parameter, needs, _ in function.parameters if needs]
    if not is_template:
        if required:
            raise RegistrationError(f"{what}: its reader takes {parameters}, which the URI does not have;"
                                    f" write them into it, as in '{uri}/{{{parameters[0]}}}'")
        return CatalogEntry("resources", uri, resource, function, needed, cache)
    from ...protocol.uritemplate import Template  # for servers that have templates

    try:
        pattern = Template(uri)
    except ValueError as error:
        raise RegistrationError(f"{what}: {error}") from error
    if not set(required) <= set(pattern.names) <= set(parameters):
        raise RegistrationError(f"{what}: its variables are {list(pattern.names)}, its reader's parameters"
                                f" {parameters}; they must be the same")
    template = types.ResourceTemplate(
        uri_template=pattern.text, name=resource.name, title=resource.title, description=resource.description,
        mime_type=resource.mime_type, annotations=resource.annotations, icons=resource.icons, meta=resource.meta)
    entry = CatalogEntry("templates", pattern.text, template, function, needed, cache)
    entry.pattern = pattern
    return entry


def directory_entries(directory: "Directory", template: types.ResourceTemplate, listed: bool, scopes: Scopes
                      ) -> List[CatalogEntry]:
    """Return the entries of a directory: the template of its files, and its listing with and without a slash.

    :param template: its definition, whose URI is added here.
    :param listed: whether the files are in the list of resources.
    """
    from ...protocol.uris import normal_uri
    from ...protocol.uritemplate import Template

    what = f"directory {directory.uri!r}"
    pattern = Template(directory.uri + "{+path}")
    template.uri_template = pattern.text
    for member in ("name", "title", "description"):
        setattr(template, member, checked_text(getattr(template, member), what, member))
    needed = _registered_scopes(scopes, what)
    root = compile_function(directory.read_root, name=template.name, kind="resource")
    reader = compile_function(directory.read, name=template.name, kind="resource")
    files = CatalogEntry("templates", pattern.text, template, reader, needed)
    files.pattern, files.resources, files.size = pattern, directory.resources if listed else None, directory.size
    entries, bare = [files], directory.uri[:-1]
    for uri in (directory.uri, bare):
        if not uri.endswith((":", ":/")) and normal_uri(uri) == uri:
            resource = types.Resource(uri=uri, name=template.name, title=template.title, mime_type="inode/directory",
                                      description=f"The names of the files in {bare}")
            entries.append(CatalogEntry("resources", uri, resource, root, needed))
            entries[-1].unlisted = uri == bare
    return entries


# --- prompts and completers ---------------------------------------------------------------------------


def prompt_entry(function: Function, prompt: types.Prompt, scopes: Scopes) -> CatalogEntry:
    """Return the entry of a prompt.

    :param prompt: the definition as the user gave it: its icons may be dicts.
    :raises RegistrationError: a part of it cannot be used.
    """
    what = f"prompt {check_name('prompt', prompt.name)!r}"
    if prompt.arguments is None:
        prompt.arguments = function.prompt_arguments()
    prompt.description, prompt.arguments = function.description, prompt.arguments or None
    _check_definition(prompt, what)
    return CatalogEntry("prompts", prompt.name, prompt, function, _registered_scopes(scopes, what))


def prompt_arguments(given: Optional[Sequence[Union[types.PromptArgument, Dict[str, Any]]]], name: str
                     ) -> Tuple[Optional[List[types.PromptArgument]], Optional[Dict[str, Any]]]:
    """Return the declared arguments of a prompt as objects, and the schema that they make; two None if none are declared.

    :param given: as the user gave them.
    :param name: of the prompt, for errors.
    :raises RegistrationError: two have the same name, or one is neither an object nor a dict with a name.
    """
    if given is None:
        return None, None
    what = f"prompt {name!r}"
    listed = checked_list(given, what, "arguments", "[PromptArgument('city')], or dicts with a 'name'")
    arguments = [checked_record(types.PromptArgument, one, what, f"arguments[{at}]") for at, one in enumerate(listed)]
    names = [argument.name for argument in arguments]
    if len(set(names)) < len(names):
        raise RegistrationError(f"{what}: two of its arguments have the same name: {', '.join(names)}")
    return arguments, {"type": "object", "properties": {one: {"type": "string"} for one in names},
                       "required": [argument.name for argument in arguments if argument.required],
                       "additionalProperties": False}


def completer(function: Function, prompt: Optional[str], resource: Optional[str]) -> Tuple[str, str]:
    """Return the kind and the name of what a completer completes.

    :raises RegistrationError: the completer takes too many parameters.
    """
    if len(function.parameters) > 2:
        raise RegistrationError(f"the completion {function.name!r} takes {len(function.parameters)} parameters;"
                                f" it gets the value and, as the second, the other arguments")
    return ("prompt", prompt) if prompt is not None else ("resource", str(resource))
