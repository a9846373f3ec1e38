"""The official JSON Schemas as an oracle: the messages of each side are validated against them.

The schemas are no part of this project. They are looked for in the folder that the environment variable
``MCPLITE_SCHEMAS`` names, else in ``shared/schema`` beside the checkout; below it each revision has a folder with
its ``schema.json``. Without them ``FOLDER`` is None, and a test that needs them skips itself with ``REASON``.

The files differ in dialect and in names (``definitions`` or ``$defs``, ``JSONRPCError`` or
``JSONRPCErrorResponse``, params that became types of their own); users of this module see one shape.

=====================================================  ================================================================
``validator_for(revision, name)``                      the jsonschema validator of one definition
``check(revision, name, value)``                       raises AssertionError with every problem, in sentences
``validate_message(revision, direction, message, …)``  the same for a whole JSON-RPC message or batch
``properties(revision, name)``                         what members a definition has, and which of them must be there
``check_answers(revision, questions, answers)``        the same for the answers that a modern request brings
``methods(revision, direction, kind)``                 method names to the names of their definitions
=====================================================  ================================================================

A revision is given as its row of ``mcplite.revisions`` or by its name.
"""

import functools
import json
import os
from pathlib import Path

import jsonschema

from mcplite.revisions import NEWEST, REVISIONS, Revision, find_revision
from mcplite.types.tasks import CreateTaskResult

from .task_schemas import with_tasks

REASON = "the official schemas are not here; MCPLITE_SCHEMAS names their folder"

#: The definitions that list the messages of each direction and kind.
_UNIONS = {
    ("client", "request"): "ClientRequest", ("client", "notification"): "ClientNotification",
    ("server", "request"): "ServerRequest", ("server", "notification"): "ServerNotification",
}
#: A definition's name today, and its names in older files; a dot leads into its properties.
_OLDER_NAMES = {
    "JSONRPCResultResponse": "JSONRPCResponse",
    "JSONRPCErrorResponse": "JSONRPCError",
    "ContentBlock": "CallToolResult.content[]",
    "Error": "JSONRPCError.error",
    "Annotations": "Annotated.annotations",
    "ResourceTemplateReference": "ResourceReference",
    "ElicitRequestFormParams": "ElicitRequest.params",
}
#: Members whose content the definitions do not list in full: JSON Schemas, and custom keys.
_FREE_FORM = {"inputSchema", "outputSchema", "_meta"}
#: Members that older schemas do not name and do not forbid, and that are sent in all revisions: extensions are negotiated
#: in each (SEP-2133), and one that works with the metadata of definitions, as MCP Apps does, needs it in each.
BEYOND = {
    "ClientCapabilities": {"extensions"}, "ServerCapabilities": {"extensions"}, "Tool": {"_meta"}, "Prompt": {"_meta"},
    "Resource": {"_meta"}, "ResourceTemplate": {"_meta"}, "TextResourceContents": {"_meta"}, "BlobResourceContents": {"_meta"},
}


def find_folder(environ=os.environ):
    """Return the folder of the official schemas, or None; a folder that was named but lacks one is an error."""
    named = environ.get("MCPLITE_SCHEMAS")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "schema"
    missing = [revision.name for revision in REVISIONS if not (folder / revision.name / "schema.json").is_file()]
    if not missing:
        return folder
    if named:
        raise FileNotFoundError(f"MCPLITE_SCHEMAS names {named!r}, which has no schema.json for {', '.join(missing)}")
    return None


FOLDER = find_folder()


def _name(revision):
    name = revision.name if isinstance(revision, Revision) else revision
    if find_revision(name) is None:
        raise LookupError(f"there is no revision {name!r}")
    return name


@functools.lru_cache(maxsize=None)
def _load(revision_name):
    if FOLDER is None:
        raise FileNotFoundError(REASON)
    root = json.loads((FOLDER / revision_name / "schema.json").read_text("utf-8"))
    return with_tasks(root) if revision_name == NEWEST.name else root


def definitions(revision):
    """Return all definitions of a revision, by name."""
    root = _load(_name(revision))
    return root["$defs"] if "$defs" in root else root["definitions"]


def schema_of(revision, name):
    """Return the schema of one definition, wherever the revision's file has it.

    :param name: as the newest file that has it spells it. The params of a request or notification are found under
        ``…RequestParams`` and ``…NotificationParams`` in every file.
    :raises LookupError: the revision has no such thing.
    """
    known = definitions(revision)
    if name in known:
        return known[name]
    older = _OLDER_NAMES.get(name)
    if older is None and name.endswith("Params"):
        older = name[:-len("Params")] + ".params"
    if older is None and "." in name:
        older = name
    if older is None:
        raise LookupError(f"{_name(revision)} has no definition {name!r}")
    first, *steps = older.replace("[]", ".[]").split(".")
    if first not in known:
        raise LookupError(f"{_name(revision)} has no definition {name!r} ({first} would have been the older place)")
    schema = known[first]
    for step in steps:
        schema = resolve(revision, schema)
        schema = schema["items"] if step == "[]" else schema["properties"][step]
    return schema


def has(revision, name):
    """Tell whether the revision has the definition, under this name or an older one."""
    try:
        schema_of(revision, name)
    except LookupError:
        return False
    return True


def resolve(revision, schema):
    """Return the target of a schema's ``$ref``; the schema itself if it has none."""
    while "$ref" in schema:
        schema = definitions(revision)[schema["$ref"].rpartition("/")[2]]
    return schema


@functools.lru_cache(maxsize=None)
def _validator_of_all(revision_name):
    root = _load(revision_name)
    return (jsonschema.Draft202012Validator if "$defs" in root else jsonschema.Draft7Validator)(root)


def _validator(revision_name, schema):
    # The validator of the whole file, which resolves the names in it.
    # allOf, since siblings of a $ref are ignored in the older dialect.
    return _validator_of_all(revision_name).evolve(schema={"allOf": [schema]})


@functools.lru_cache(maxsize=None)
def _validator_for(revision_name, name):
    return _validator(revision_name, schema_of(revision_name, name))


def validator_for(revision, name):
    """Return the validator of one definition.

    :raises LookupError: the revision has no such definition.
    """
    return _validator_for(_name(revision), name)


def properties(revision, name):
    """Return the members of an object definition as ``{wire name: required}``, inherited ones included."""
    return _properties(revision, schema_of(revision, name))


def _properties(revision, schema):
    found = {}
    for part in _parts(revision, schema):
        must = part.get("required", [])
        for member in part.get("properties", {}):
            found[member] = found.get(member, False) or member in must
    return found


def _parts(revision, schema):
    """Return the schemas that all hold for one value: the schema, and those of its ``allOf``."""
    schema = resolve(revision, schema)
    found = [schema]
    for part in schema.get("allOf", []):
        found.extend(_parts(revision, part))
    return found


# --- values -----------------------------------------------------------------------------------------


def problems(revision, schema, value, path="$", strict=True):
    """Return the errors of a value, as sentences.

    :param schema: a schema of the revision's file.
    :param strict: also name members that the revision does not have. The schemas leave objects open, so that a
        member of a later revision passes them.
    """
    validator = _validator(_name(revision), schema)
    wrong = [f"{path}{_steps(error.absolute_path)}: {error.message[:300]}" for error in validator.iter_errors(value)]
    if not wrong and strict:
        wrong = [f"{where}: {_name(revision)} has no such member" for where in strangers(revision, schema, value, path)]
    return wrong


def _steps(path):
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def strangers(revision, schema, value, path="$"):
    """Return the paths of all members that the schema neither names nor leaves free by ``additionalProperties``.

    :param value: a value that the schema holds for.
    """
    parts = _parts(revision, schema)
    found = []
    for part in parts:
        branches = part.get("anyOf") or part.get("oneOf")
        if branches:
            fitting = [branch for branch in branches if _validator(_name(revision), branch).is_valid(value)]
            found.extend(min((strangers(revision, branch, value, path) for branch in fitting), key=len, default=[]))
    if isinstance(value, list):
        for part in parts:
            for index, item in enumerate(value if isinstance(part.get("items"), dict) else []):
                found.extend(strangers(revision, part["items"], item, f"{path}[{index}]"))
    if isinstance(value, dict) and any("properties" in part or isinstance(part.get("additionalProperties"), dict)
                                       for part in parts):
        found.extend(_strange_members(revision, parts, value, path))
    return found


def _strange_members(revision, parts, value, path):
    known = definitions(revision)
    beyond = {member for name, members in BEYOND.items() for member in members
              if any(part is known.get(name) for part in parts)}
    found = []
    for member, item in value.items():
        homes = [part["properties"][member] for part in parts if member in part.get("properties", {})]
        if member in _FREE_FORM and homes:
            continue
        if not homes:
            homes = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
            if not homes and member not in beyond:
                found.append(f"{path}.{member}")
        for home in homes:
            if isinstance(home, dict):
                found.extend(strangers(revision, home, item, f"{path}.{member}"))
    return found


def check(revision, name, value, strict=True):
    """Return if *value* is a valid instance of the definition.

    :raises AssertionError: with all problems.
    """
    _report(problems(revision, schema_of(revision, name), value, strict=strict), f"{name} of {_name(revision)}", value)


def _report(wrong, what, value):
    if wrong:
        listed = "\n".join(f"  {line}" for line in wrong[:20])
        raise AssertionError(f"this is no valid {what}:\n{listed}\n{json.dumps(value, indent=1, default=repr)[:4000]}")


# --- messages ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def _methods(revision_name, direction, kind):
    known = definitions(revision_name)
    union = _UNIONS[direction, kind]
    if union not in known:
        return {}
    branches = known[union].get("anyOf", [known[union]])
    found = {}
    for branch in branches:
        method = resolve(revision_name, branch)["properties"]["method"]["const"]
        found[method] = branch["$ref"].rpartition("/")[2] if "$ref" in branch else _named_by(known, method)
    return found


def _named_by(known, method):
    """The definition of a method, in a file that repeats it in place of a union of one."""
    unions = set(_UNIONS.values())
    return next(name for name, schema in known.items()
                if name not in unions and schema.get("properties", {}).get("method", {}).get("const") == method)


def methods(revision, direction, kind):
    """Return the messages of one side, as ``{method: name of its definition}``.

    :param direction: who sends: "client" or "server".
    :param kind: "request" or "notification".
    """
    return dict(_methods(_name(revision), direction, kind))


def validate_message(revision, direction, message, request_method=None, strict=True):
    """Return if the revision allows this side to send *message*.

    :param revision: the one that the two sides agreed on.
    :param direction: who sent it: "client" or "server".
    :param message: the parsed JSON, or its text; a list is a batch.
    :param request_method: for an answer, the method that it answers: as a name, or as a mapping from request ids,
        which is the only way for a batch of several.
    :param strict: also refuse members that the revision does not have; False for tests that send such on purpose.
    :raises AssertionError: with what is wrong, and the message.
    """
    if direction not in ("client", "server"):
        raise ValueError(f"the direction says who sent it, 'client' or 'server', not {direction!r}")
    revision = find_revision(_name(revision))
    if isinstance(message, (bytes, str)):
        message = json.loads(message)
    if isinstance(message, list):
        _report(_batch_problems(revision, message), f"batch of {revision}", message)
        for item in message:
            validate_message(revision, direction, item, request_method, strict)
        return
    what, wrong = _message_problems(revision, direction, message, request_method, strict)
    _report(wrong, f"{what} from a {direction} of {revision}", message)


def _batch_problems(revision, batch):
    if not revision.batches:
        return ["this revision has no batches"]
    if not batch:
        return ["a batch must not be empty"]
    asking = [isinstance(item, dict) and "method" in item for item in batch]
    return [] if len(set(asking)) == 1 else ["a batch holds requests and notifications, or answers, not both"]


def _message_problems(revision, direction, message, request_method, strict):
    if not isinstance(message, dict):
        return "message", ["a message is an object"]
    if "method" in message:
        kind = "request" if "id" in message else "notification"
        return kind, _asking_problems(revision, direction, kind, message, strict)
    if direction == "client" and not _methods(revision.name, "server", "request"):
        return "message", [f"a client of {revision} has nothing to answer"]  # STAT-22
    if "error" in message:
        return "error", _error_problems(revision, message, strict)
    if "result" in message:
        return "result", _result_problems(revision, direction, message, request_method, strict)
    return "message", ["it has none of the members 'method', 'result' and 'error'"]


def _asking_problems(revision, direction, kind, message, strict):
    known = _methods(revision.name, direction, kind)
    method = message["method"]
    if not isinstance(method, str) or method not in known:
        return [f"the method {method!r} is no {kind} that a {direction} may send; those are {', '.join(sorted(known))}"]
    envelope = schema_of(revision, f"JSONRPC{kind.capitalize()}")
    wrong = problems(revision, envelope, message, strict=strict)
    schema = schema_of(revision, known[method])
    # Older files do not repeat the envelope, and _meta of params, in each definition.
    own = message if "jsonrpc" in _properties(revision, schema) else {
        name: value for name, value in message.items() if name not in ("jsonrpc", "id")}
    params = own.get("params")
    if isinstance(params, dict) and "_meta" not in _properties(revision, _member_schema(revision, schema, "params")):
        own = {**own, "params": {name: value for name, value in params.items() if name != "_meta"}}
    return wrong or problems(revision, schema, own, strict=strict)


def _member_schema(revision, schema, member):
    return next((part["properties"][member] for part in _parts(revision, schema)
                 if member in part.get("properties", {})), {})


def _error_problems(revision, message, strict):
    if not revision.error_id_optional and message.get("id", "") is None:
        # These files require an id; JSON-RPC itself requires null when the request's id could not be read (RPC-11).
        message = {**message, "id": 0}
    wrong = problems(revision, schema_of(revision, "JSONRPCErrorResponse"), message, strict=strict)
    for name, schema in definitions(revision).items():
        if not wrong and name.endswith("Error") and "error" in schema.get("properties", {}):
            parts = _parts(revision, schema["properties"]["error"])
            codes = [part.get("properties", {}).get("code", {}).get("const") for part in parts]
            if message["error"]["code"] in codes:
                wrong = problems(revision, schema, message, strict=strict)
    return wrong


def _result_problems(revision, direction, message, request_method, strict):
    wrong = problems(revision, schema_of(revision, "JSONRPCResultResponse"), message, strict=strict)
    if wrong:
        return wrong
    method = request_method if isinstance(request_method, str) else (request_method or {}).get(message["id"])
    asked = _methods(revision.name, "server" if direction == "client" else "client", "request")
    if method not in asked:
        return [f"it answers the method {method!r}, which the other side cannot ask for" if method is not None
                else "request_method must say which method this answers"]
    name, result = asked[method].replace("Request", "Result"), message["result"]
    if result.get("resultType") == "input_required" and has(revision, "InputRequiredResult"):
        if not _may_ask(revision.name, name):
            return [f"{method!r} cannot be answered with questions"]  # MRTR-03
        if "inputRequests" not in result and "requestState" not in result:
            return ["$.result: it has neither 'inputRequests' nor 'requestState'"]  # MRTR-05; the schema has it as text
        name = "InputRequiredResult"
    elif CreateTaskResult.describes(result) and has(revision, "CreateTaskResult"):
        name = "CreateTaskResult"
    schema = schema_of(revision, name if has(revision, name) else "EmptyResult")
    return problems(revision, schema, result, "$.result", strict)


@functools.lru_cache(maxsize=None)
def _may_ask(revision_name, result_name):
    """Whether the responses with these results may have questions in place of the result."""
    result = definitions(revision_name).get(result_name + "Response", {}).get("properties", {}).get("result", {})
    return any(branch.get("$ref", "").endswith("/InputRequiredResult") for branch in result.get("anyOf", []))


@functools.lru_cache(maxsize=None)
def _answers(revision_name):
    """Return the answers to the questions inside of results, as ``{method: name of its definition}``."""
    known = definitions(revision_name)
    names = [branch["$ref"].rpartition("/")[2] for branch in known.get("InputRequest", {}).get("anyOf", [])]
    return {known[name]["properties"]["method"]["const"]: name.replace("Request", "Result") for name in names}


def check_answers(revision, questions, answers):
    """Return if each of the answers in a request fits its question.

    That they are answers to something is part of the request's own definition.

    :param questions: the methods that each key was asked with, by key; a key that is not there was not asked for here.
    :raises AssertionError: with all problems.
    """
    revision = find_revision(_name(revision))
    for key, answer in answers.items():
        wrong = []
        for method in sorted(questions.get(key, ())):
            name = _answers(revision.name).get(method)
            found = ([f"$: {method!r} cannot be asked"] if name is None
                     else problems(revision, schema_of(revision, name), answer))
            if not found:
                wrong = []
                break
            wrong += found
        _report(wrong, f"answer to the question {key!r} of {revision}", answer)
