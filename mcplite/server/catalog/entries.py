"""Makes the entries of the registry from what a user registers: the checks, and the parts that follow from the function.

A module of its own so that the facade of the server shows what can be registered, and not how an entry is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from ... import types
from ...errors import RegistrationError
from ..functions.function import Function, compile_function
from .options import (
    check_hint,
    checked_icons,
    checked_list,
    checked_meta,
    checked_record,
    checked_size,
    checked_text,
    checked_timeout,
    find_marks,
    registered_scopes,
)
from .registry import PromptEntry, ResourceEntry, TemplateEntry, ToolEntry, check_name

if TYPE_CHECKING:
    from ...protocol.uritemplate import Template
    from .cache_hints import CacheHint
    from .directory import Directory

__all__ = ["completer", "directory_entries", "prompt_arguments", "prompt_entry", "resource_entry", "tool_entry"]

Scopes = Union[str, Iterable[str]]


def tool_entry(function: Function, tool: types.Tool, timeout: Optional[float], scopes: Scopes, task: str = "forbidden",
               restartable: bool = False) -> ToolEntry:
    """Return the entry of a tool.

    :param tool: the definition as the user gave it: its annotations and icons may be dicts.
    :param task: whether it may be called as a task.
    :param restartable: whether such a task is begun again.
    :raises RegistrationError: a part of it cannot be used.
    """
    what = f"tool {check_name('tool', tool.name)!r}"
    if timeout is not None:
        timeout = checked_timeout(timeout, what)
    if tool.title is not None:
        tool.title = checked_text(tool.title, what, "title")
    if tool.annotations is not None:
        tool.annotations = checked_record(types.ToolAnnotations, tool.annotations, what, "annotations")
    if tool.icons is not None:
        tool.icons = checked_icons(tool.icons, what)
    if tool.meta is not None:
        tool.meta = checked_meta(tool.meta, what)
    if task not in ("forbidden", "optional", "required"):
        raise RegistrationError(f"{what}: task must be 'optional', 'required' or 'forbidden', not {task!r}")
    if task != "forbidden":
        tool.execution = {"taskSupport": task}
    elif restartable:
        raise RegistrationError(f"{what}: restartable=True is for tasks: add task='optional' or task='required'")
    return ToolEntry(tool, function, timeout, find_marks(function, what), registered_scopes(scopes, what), task, restartable)


def resource_entry(function: Function, resource: types.Resource, cache: "Optional[CacheHint]", scopes: Scopes
                   ) -> Union[ResourceEntry, TemplateEntry]:
    """Return the entry of a resource, or of a template if its URI has variables.

    :param resource: the definition as the user gave it: its annotations and icons may be dicts.
    :raises RegistrationError: the URI is not valid, or its variables are not the function's parameters.
    """
    uri = resource.uri = resource_uri(resource.uri)
    check_name("resource", resource.name)
    what = f"resource {uri!r}"
    resource.title = checked_text(resource.title, what, "title")
    resource.mime_type, resource.size = checked_text(resource.mime_type, what, "mime_type"), checked_size(resource.size, what)
    if resource.annotations is not None:
        resource.annotations = checked_record(types.Annotations, resource.annotations, what, "annotations")
    resource.icons, resource.meta = checked_icons(resource.icons, what), checked_meta(resource.meta, what)
    if cache is not None:
        check_hint(cache, f"{what}: cache=")
    needed = registered_scopes(scopes, what)
    if "{" in uri:
        pattern = _pattern(function, uri, what)
        template = types.ResourceTemplate(
            uri_template=pattern.text, name=resource.name, title=resource.title, description=resource.description,
            mime_type=resource.mime_type, annotations=resource.annotations, icons=resource.icons, meta=resource.meta)
        return TemplateEntry(template, pattern, function, cache, needed)
    if any(required for _, required, _ in function.parameters):
        parameters = [parameter for parameter, _, _ in function.parameters]
        raise RegistrationError(f"{what}: its reader takes {parameters}, which the URI does not have;"
                                f" write them into it, as in '{uri}/{{{parameters[0]}}}'")
    return ResourceEntry(resource, function, cache, needed)


def resource_uri(uri: str) -> str:
    """Return a URI in its normal form; a template as it is.

    :raises RegistrationError: no request can name it (RSRC-26).
    """
    from ...protocol.uris import normal_uri, uri_problem  # for servers that have resources

    problem = uri_problem(uri)
    if problem:
        raise RegistrationError(f"resource {uri!r}: as the URI of a resource {problem}")
    return uri if "{" in uri else normal_uri(uri)


def _pattern(function: Function, uri: str, what: str) -> "Template":
    from ...protocol.uritemplate import Template  # for servers that have templates

    try:
        pattern = Template(uri)
    except ValueError as error:
        raise RegistrationError(f"{what}: {error}") from error
    parameters = [parameter for parameter, _, _ in function.parameters]
    missing = [parameter for parameter, required, _ in function.parameters if required and parameter not in pattern.names]
    unknown = [variable for variable in pattern.names if variable not in parameters] if parameters or pattern.names else []
    if missing or unknown:
        raise RegistrationError(f"{what}: its variables are {list(pattern.names)}, its reader's parameters"
                                f" {parameters}; they must be the same")
    return pattern


def directory_entries(directory: "Directory", template: types.ResourceTemplate, listed: bool, scopes: Scopes
                      ) -> List[Union[ResourceEntry, TemplateEntry]]:
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
    needed = registered_scopes(scopes, what)
    root = compile_function(directory.read_root, name=template.name, kind="resource")
    reader = compile_function(directory.read, name=template.name, kind="resource")
    entries: List[Union[ResourceEntry, TemplateEntry]] = [
        TemplateEntry(template, pattern, reader, None, needed, directory.resources if listed else None, directory.size)]
    bare = directory.uri[:-1]
    for uri in (directory.uri, bare):
        if not uri.endswith((":", ":/")) and normal_uri(uri) == uri:
            resource = types.Resource(uri=uri, name=template.name, title=template.title, mime_type="inode/directory",
                                      description=f"The names of the files in {bare}")
            entries.append(ResourceEntry(resource, root, None, needed, unlisted=uri == bare))
    return entries


def prompt_entry(function: Function, prompt: types.Prompt, scopes: Scopes) -> PromptEntry:
    """Return the entry of a prompt.

    :param prompt: the definition as the user gave it: its icons may be dicts.
    :raises RegistrationError: a part of it cannot be used.
    """
    what = f"prompt {check_name('prompt', prompt.name)!r}"
    if prompt.arguments is None:
        titles, said = function.titles(), function.written_as_json()
        prompt.arguments = [
            types.PromptArgument(name=parameter, required=required, title=titles[parameter],
                                 description=" ".join(filter(None, (text, said.get(parameter)))) or None)
            for parameter, required, text in function.parameters]
    prompt.description, prompt.arguments = function.description, prompt.arguments or None
    prompt.title = checked_text(prompt.title, what, "title")
    prompt.icons, prompt.meta = checked_icons(prompt.icons, what), checked_meta(prompt.meta, what)
    return PromptEntry(prompt, function, registered_scopes(scopes, what))


def prompt_arguments(given: Optional[Sequence[Union[types.PromptArgument, Dict[str, Any]]]], name: str
                     ) -> Tuple[Optional[List[types.PromptArgument]], Optional[Dict[str, Any]]]:
    """Return the declared arguments of a prompt as objects, and the schema that they make; None twice if none are declared.

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
        raise RegistrationError(f"prompt {name!r}: two of its arguments have the same name: {', '.join(names)}")
    return arguments, {"type": "object", "properties": {one: {"type": "string"} for one in names},
                       "required": [argument.name for argument in arguments if argument.required],
                       "additionalProperties": False}


def completer(function: Function, prompt: Optional[str], resource: Optional[str]) -> Tuple[str, str]:
    """Return the kind and the name of what a completer completes.

    :raises RegistrationError: not exactly one of the two is given, or the completer takes too many parameters.
    """
    if len(function.parameters) > 2:
        raise RegistrationError(f"the completion {function.name!r} takes {len(function.parameters)} parameters;"
                                f" it gets the value and, as the second, the other arguments")
    return ("prompt", prompt) if prompt is not None else ("resource", str(resource))
