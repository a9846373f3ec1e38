"""The vocabulary and the table of revisions against the official schemas: names, marks, and what is encoded."""

import dataclasses
import json

import pytest

from mcplite import types
from mcplite.errors import (
    HeaderMismatch,
    InternalError,
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    RemoteError,
    UnsupportedVersion,
    remote_error,
)
from mcplite.protocol import elicitation_forms, jsonrpc, meta
from mcplite.revisions import JULY_2026, JUNE_2025, LEGACY, MARCH_2025, NOVEMBER_2024, NOVEMBER_2025, REVISIONS
from mcplite.server.sessions import modern
from mcplite.types import *  # noqa: F403
from mcplite.types import codec
from mcplite.types.content import downgrade
from tests.support import schemas

if schemas.FOLDER is None:
    pytest.skip(schemas.REASON, allow_module_level=True)

CLASSES = [item for item in (getattr(types, name) for name in types.__all__)
           if isinstance(item, type) and dataclasses.is_dataclass(item) and item is not types.UnknownContent]

#: The definitions of classes that are not called like them; a form and a URL question are one class of ours.
DEFINITIONS = {
    types.CreateMessageRequest: ["CreateMessageRequestParams"],
    types.ElicitRequest: ["ElicitRequestFormParams", "ElicitRequestURLParams"],
    types.Progress: ["ProgressNotificationParams"],
    types.LogMessage: ["LoggingMessageNotificationParams"],
    types.Completion: ["CompleteResult.completion"],
}
#: Members of the schemas that the classes do without, and why.
WITHOUT = {
    types.Progress: {"progressToken", "_meta"},  # notifications are the engine's; what else they say is in extra
    types.LogMessage: {"_meta"},
}
#: Members that must be there on the wire although the classes have defaults for them, and why.
LENIENT = {
    types.CallToolResult: {"content"},  # many servers leave it out beside structured content
    types.ToolResultContent: {"content"},
    types.ElicitRequest: {"requestedSchema", "url", "mode", "elicitationId"},  # by mode
}
#: What the newest revision has a session stamp on results; no constructor asks for it.
STAMPED = {"resultType", "ttlMs", "cacheScope"}


def definitions_of(cls, revision):
    return [name for name in DEFINITIONS.get(cls, [cls.__name__]) if schemas.has(revision, name)]


def official(cls, revision):
    """Return the members of a class as the schemas have it, and those beyond it: ``{wire name: required}``."""
    found = dict.fromkeys(schemas.BEYOND.get(cls.__name__, ()), False)
    for name in definitions_of(cls, revision):
        found.update(schemas.properties(revision, name))
    if cls in (types.CreateMessageRequest, types.ElicitRequest) and not revision.modern:
        found.setdefault("_meta", False)  # older files say so once, for all requests
    if hasattr(cls, "wire_type"):
        del found["type"]
    return {member: must for member, must in found.items() if member not in WITHOUT.get(cls, set())}


def marked(cls, revision):
    """Return the members of a class as its marks have it: ``{wire name: field}``."""
    found = {}
    for field in dataclasses.fields(cls):
        if revision.has(field.metadata.get("since"), field.metadata.get("until")):
            first, *rest = field.name.split("_")
            found[field.metadata.get("wire") or first + "".join(word.capitalize() for word in rest)] = field
    return found


def is_required(field):
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def pairs(revisions=REVISIONS):
    for revision in revisions:
        for cls in CLASSES:
            if definitions_of(cls, revision):
                yield pytest.param(cls, revision, id=f"{cls.__name__}-{revision}")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_is_in_some_revision(cls):
    assert any(definitions_of(cls, revision) for revision in REVISIONS)


@pytest.mark.parametrize("cls, revision", list(pairs()))
def test_the_marks_are_those_of_the_schema(cls, revision):
    assert set(marked(cls, revision)) == set(official(cls, revision))


@pytest.mark.parametrize("cls, revision", list(pairs()))
def test_schemas_allow_the_members_that_they_do_not_name(cls, revision):
    if cls.__name__ in schemas.BEYOND:
        for name in definitions_of(cls, revision):
            assert schemas.definitions(revision)[name].get("additionalProperties") is not False


@pytest.mark.parametrize("cls, revision", list(pairs()))
def test_required_members_are_those_of_the_schema(cls, revision):
    must = {member for member, needed in official(cls, revision).items() if needed}
    ours = {member for member, field in marked(cls, revision).items() if is_required(field)}
    assert ours == must - STAMPED - LENIENT.get(cls, set())


def test_excluded_members_are_still_in_the_schemas():
    for table in (WITHOUT, LENIENT):
        for cls, members in table.items():
            known = set()
            for revision in REVISIONS:
                for name in definitions_of(cls, revision):
                    known.update(schemas.properties(revision, name))
            assert members <= known, cls


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
@pytest.mark.parametrize("direction", ["client", "server"])
@pytest.mark.parametrize("kind", ["request", "notification"])
def test_the_table_has_the_methods_of_the_schema(revision, direction, kind):
    listed = set(schemas.methods(revision, direction, kind))
    tasks = {method for method in listed if method.startswith(("tasks/", "notifications/tasks"))}
    assert bool(tasks) <= (revision in (NOVEMBER_2025, JULY_2026))
    assert tasks <= revision.task_requests | {revision.task_notification}
    assert getattr(revision, f"{direction}_{kind}s") == listed - tasks


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_the_table_has_the_content_kinds_of_the_schema(revision):
    block = schemas.resolve(revision, schemas.schema_of(revision, "ContentBlock"))
    kinds = {schemas.resolve(revision, branch)["properties"]["type"]["const"] for branch in block["anyOf"]}
    assert revision.content_kinds == kinds


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_the_table_has_the_other_facts_of_the_schema(revision):
    known = schemas.definitions(revision)
    assert revision.batches == ("JSONRPCBatchRequest" in known)
    assert revision.structured_output == ("structuredContent" in schemas.properties(revision, "CallToolResult"))
    structured = known["CallToolResult"]["properties"].get("structuredContent", {"type": "object"})
    assert revision.object_output_only == (structured.get("type") == "object")
    assert revision.progress_message == ("message" in schemas.properties(revision, "ProgressNotificationParams"))
    assert revision.sampling_tools == schemas.has(revision, "ToolUseContent")
    assert revision.elicitation_modes == ("mode" in official(types.ElicitRequest, revision))
    assert revision.elicitation_ids == ("elicitationId" in official(types.ElicitRequest, revision))
    assert revision.completions_capability == ("completions" in schemas.properties(revision, "ServerCapabilities"))
    assert revision.error_id_optional == (not schemas.properties(revision, "JSONRPCErrorResponse")["id"])
    assert revision.modern == ("InitializeRequest" not in known)
    enums = {"LegacyTitledEnumSchema": "titled", "EnumSchema": "names"}
    assert revision.elicitation_enums == next((form for name, form in enums.items() if name in known
                                               and (form == "titled" or "oneOf" not in known)), "none")


# --- encoding ---------------------------------------------------------------------------------------

META = {"com.example/key": {"deep": [1, None, "x"]}}
NOTES = Annotations(audience=["user", "assistant"], priority=0.5, last_modified="2026-01-02T03:04:05Z")
ICONS = [Icon(src="https://example.com/i.png", mime_type="image/png", sizes=["48x48", "any"], theme="dark")]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANY_TEXT = TextContent(text="hello", annotations=NOTES, meta=META)
TEXT_CONTENTS = TextResourceContents(uri="file:///a.txt", text="a", mime_type="text/plain", meta=META)
BLOB_CONTENTS = BlobResourceContents(uri="file:///a.bin", blob="AAEC", mime_type="image/png", meta=META)
HINTS = ToolAnnotations(title="T", read_only_hint=True, destructive_hint=True, idempotent_hint=True,
                        open_world_hint=True)
TOOL = Tool(name="t", input_schema=SCHEMA, description="d", title="T", annotations=HINTS, output_schema=SCHEMA,
            icons=ICONS, execution={"taskSupport": "optional"}, meta=META)
LINK = ResourceLink(uri="file:///a.txt", name="a", title="A", description="d", mime_type="text/plain", size=3,
                    annotations=NOTES, icons=ICONS, meta=META)
RESOURCE = Resource(uri="file:///a.txt", name="a", description="d", mime_type="text/plain", size=3, annotations=NOTES,
                    title="A", icons=ICONS, meta=META)
TEMPLATE = ResourceTemplate(uri_template="file:///{name}", name="a", description="d", mime_type="text/plain",
                            annotations=NOTES, title="A", icons=ICONS, meta=META)
ARGUMENT = PromptArgument(name="city", description="d", required=True, title="City")
PROMPT = Prompt(name="p", description="d", arguments=[ARGUMENT], title="P", icons=ICONS, meta=META)
MESSAGE = PromptMessage(role="user", content=ANY_TEXT)
SAID = SamplingMessage(role="user", content=[ANY_TEXT], meta=META)
PREFERENCES = ModelPreferences(hints=[ModelHint(name="m")], cost_priority=0.0, speed_priority=0.5,
                               intelligence_priority=1)
IMPLEMENTATION = Implementation(name="n", version="1", title="N", description="d", website_url="https://example.com",
                                icons=ICONS)
TASKS = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
SERVER = ServerCapabilities(experimental={"x": {}}, logging={}, completions={}, prompts={"listChanged": True},
                            resources={"subscribe": True, "listChanged": True}, tools={"listChanged": False},
                            tasks=TASKS, extensions={"com.example/x": {}})
ROOT = Root(uri="file:///home", name="home", meta=META)
COMPLETION = Completion(values=["a"], total=2, has_more=True)
PAGE = {"next_cursor": "c", "meta": META, "result_type": "complete", "ttl_ms": 5, "cache_scope": "public"}

#: One instance of each class with every field set; two where one cannot have them all.
SAMPLES = [
    NOTES, ICONS[0], TEXT_CONTENTS, BLOB_CONTENTS, ANY_TEXT, HINTS, TOOL, LINK, RESOURCE, TEMPLATE, ARGUMENT, PROMPT, MESSAGE,
    SAID, PREFERENCES, PREFERENCES.hints[0], IMPLEMENTATION, SERVER, ROOT, COMPLETION,
    ImageContent(data="AAEC", mime_type="image/png", annotations=NOTES, meta=META),
    AudioContent(data="AAEC", mime_type="audio/wav", annotations=NOTES, meta=META),
    EmbeddedResource(resource=TEXT_CONTENTS, annotations=NOTES, meta=META),
    EmbeddedResource(resource=BLOB_CONTENTS, annotations=NOTES, meta=META),
    ToolUseContent(id="1", name="t", input={"city": "Rome"}, meta=META),
    ToolResultContent(tool_use_id="1", content=[ANY_TEXT], structured_content={"a": 1}, is_error=False, meta=META),
    ListToolsResult(tools=[TOOL], **PAGE), ListResourcesResult(resources=[RESOURCE], **PAGE),
    ListResourceTemplatesResult(resource_templates=[TEMPLATE], **PAGE), ListPromptsResult(prompts=[PROMPT], **PAGE),
    CallToolResult(content=[ANY_TEXT], structured_content={"a": 1}, is_error=True, meta=META, result_type="complete"),
    ReadResourceResult(contents=[TEXT_CONTENTS, BLOB_CONTENTS], meta=META, result_type="complete", ttl_ms=0,
                       cache_scope="private"),
    GetPromptResult(messages=[MESSAGE], description="d", meta=META, result_type="complete"),
    CompleteResult(completion=COMPLETION, meta=META, result_type="complete"),
    ElicitRequest(message="m", mode="form", requested_schema=SCHEMA, task={"ttl": 5}, meta=META),
    ElicitRequest(message="m", mode="url", url="https://example.com", elicitation_id="e", task={}, meta=META),
    ElicitResult(action="accept", content={"city": "Rome"}, meta=META), ToolChoice(mode="auto"),
    CreateMessageRequest(messages=[SAID], max_tokens=5, system_prompt="s", include_context="none", temperature=0.5,
                         stop_sequences=["x"], metadata={"k": 1}, model_preferences=PREFERENCES, tools=[TOOL],
                         tool_choice=ToolChoice(mode="none"), task={"ttl": 5}, meta=META),
    CreateMessageResult(role="assistant", content=[ANY_TEXT], model="m", stop_reason="endTurn", meta=META),
    ListRootsResult(roots=[ROOT], meta=META),
    ClientCapabilities(experimental={"x": {}}, roots={"listChanged": True}, sampling={"tools": {}, "context": {}},
                       elicitation={"form": {}, "url": {}}, tasks={"requests": {"elicitation": {"create": {}}}},
                       extensions={"com.example/x": {}}),
    InitializeResult(protocol_version="x", capabilities=SERVER, server_info=IMPLEMENTATION, instructions="i", meta=META),
    DiscoverResult(supported_versions=["x"], capabilities=SERVER, instructions="i", meta=META, result_type="complete",
                   ttl_ms=5, cache_scope="private"),
    Progress(progress=1, total=2.5, message="m"), LogMessage(level="info", data={"a": None}, logger="l"),
]


def sample_pairs():
    for sample in SAMPLES:
        for revision in REVISIONS:
            url = getattr(sample, "mode", None) == "url"
            if definitions_of(type(sample), revision) and (revision.elicitation_modes or not url):
                yield pytest.param(sample, revision, id=f"{type(sample).__name__}-{revision}")


def test_there_is_a_sample_of_each_class_with_every_field_set():
    missing = {(cls, field.name) for cls in CLASSES for field in dataclasses.fields(cls)}
    for sample in SAMPLES:
        for field in dataclasses.fields(sample):
            if getattr(sample, field.name) is not None:
                missing.discard((type(sample), field.name))
    assert missing == set()


@pytest.mark.parametrize("sample, revision", list(sample_pairs()))
def test_encoded_objects_are_valid_and_complete(sample, revision):
    data = json.loads(json.dumps(codec.encode(sample, revision)))
    cls = type(sample)
    expected = set(official(cls, revision)) | ({"type"} if hasattr(cls, "wire_type") else set())
    if cls is types.ElicitRequest:
        # One class for both modes: a form has no url, a URL no form, and "form" goes without saying.
        other = {"mode", "url", "elicitationId"} if sample.mode == "form" else {"requestedSchema"}
        name = "ElicitRequestFormParams" if sample.mode == "form" else "ElicitRequestURLParams"
        expected -= other
    else:
        name = definitions_of(cls, revision)[0]
    assert set(data) == expected
    value = {key: item for key, item in data.items() if key != "_meta"} if name.endswith("Params") else data
    if cls is types.Progress:
        value["progressToken"] = 1
    schemas.check(revision, name, value)


def bare(cls):
    """Return an instance with only what its constructor asks for."""
    sample = next(item for item in SAMPLES if type(item) is cls)
    return cls(**{field.name: getattr(sample, field.name) for field in dataclasses.fields(cls) if is_required(field)})


@pytest.mark.parametrize("cls, revision", list(pairs(LEGACY)))
def test_the_least_that_a_constructor_takes_is_valid(cls, revision):
    value = bare(cls)
    if cls is types.ElicitRequest:
        value.requested_schema = SCHEMA
    data = json.loads(json.dumps(codec.encode(value, revision)))
    if cls is types.Progress:
        data["progressToken"] = 1
    schemas.check(revision, definitions_of(cls, revision)[0], data)


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_every_content_kind_is_valid_in_a_tool_result_after_downgrading(revision):
    content = [item for item in SAMPLES if isinstance(item, types.Model) and hasattr(item, "wire_type")]
    content.append(UnknownContent({"type": "video", "data": "x"}))
    result = CallToolResult(content=downgrade(content, revision), result_type="complete")
    schemas.check(revision, "CallToolResult", json.loads(json.dumps(codec.encode(result, revision))))


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_every_content_kind_of_sampling_is_valid_in_a_message(revision):
    schema = schemas.resolve(revision, schemas.schema_of(revision, "SamplingMessage"))["properties"]["content"]
    kinds = set()
    for branch in schema["anyOf"]:
        kinds.add(schemas.resolve(revision, branch).get("properties", {}).get("type", {}).get("const"))
    kinds.discard(None)
    for item in SAMPLES:
        if not hasattr(item, "wire_type"):
            continue
        if item.wire_type in kinds:
            data = codec.encode(SamplingMessage("user", item), revision)
            schemas.check(revision, "SamplingMessage", json.loads(json.dumps(data)))
        else:
            with pytest.raises(ValueError, match=item.wire_type):
                codec.encode(SamplingMessage("user", item), revision)


# --- the official examples ----------------------------------------------------------------------------

BY_NAME = {name: cls for cls in CLASSES for name in DEFINITIONS.get(cls, [cls.__name__])}
QUESTIONS = {"elicitation/create": types.ElicitRequest, "sampling/createMessage": types.CreateMessageRequest}
NEWS = {"notifications/progress": types.Progress, "notifications/message": types.LogMessage}
#: The exceptions that the examples of errors are for a caller.
ERRORS = {
    "HeaderMismatchError": HeaderMismatch, "InternalError": InternalError, "InvalidParamsError": InvalidParams,
    "MethodNotFoundError": MethodNotFound, "MissingRequiredClientCapabilityError": MissingCapability,
    "ParseError": RemoteError, "UnsupportedProtocolVersionError": UnsupportedVersion,
}
#: Examples that consist of nothing but members which no class of ours stands for.
PLAIN = {
    "CancelledNotification", "CancelledNotificationParams", "ListRootsRequest", "PromptListChangedNotification",
    "ResourceListChangedNotification", "ResourceUpdatedNotification", "ResourceUpdatedNotificationParams",
    "SubscriptionsAcknowledgedNotification", "SubscriptionsListenResult", "SubscriptionsListenResultResponse",
    "ToolListChangedNotification",
}
#: Defaults, which the examples spell out and we do not.
IMPLIED = {"isError": False, "mode": "form"}


def parts(name, data):
    """Return what stands in an example that there are classes for, as pairs of a class and JSON data."""
    if name in BY_NAME:
        return [(BY_NAME[name], data)]
    if name.endswith("ResultResponse"):
        return parts(name[:-len("Response")], data["result"])
    if name == "InputRequiredResult":
        return parts("InputRequests", data.get("inputRequests", {}))
    if name == "InputRequests":
        return [(QUESTIONS[request["method"]], request["params"]) for request in data.values()]
    if name == "InputResponses":
        return [(types.ElicitResult if "action" in answer else types.CreateMessageResult, answer)
                for answer in data.values()]
    if data.get("method") in QUESTIONS:
        return [(QUESTIONS[data["method"]], data["params"])]
    if data.get("method") in NEWS:
        return [(NEWS[data["method"]], data["params"])]
    if name == "MissingRequiredClientCapabilityError":
        return [(types.ClientCapabilities, data["error"]["data"]["requiredCapabilities"])]
    held = data.get("params", data).get("_meta", {})
    found = [(types.ClientCapabilities, held.get(meta.CAPABILITIES)),
             (types.Implementation, held.get(meta.CLIENT_INFO))]
    return [(cls, part) for cls, part in found if part is not None]


def all_examples():
    return [(path.parent.name, json.loads(path.read_text("utf-8")), f"{path.parent.name}/{path.stem}")
            for path in sorted((schemas.FOLDER / JULY_2026.name / "examples").glob("*/*.json"))]


def examples(wanted=lambda name: True):
    return [pytest.param(name, data, id=id) for name, data, id in all_examples() if wanted(name)]


def example_parts():
    for name, data, id in all_examples():
        for number, (cls, part) in enumerate(parts(name, data)):
            yield pytest.param(cls, part, id=f"{id}-{number}-{cls.__name__}")


@pytest.mark.parametrize("cls, data", list(example_parts()))
def test_official_examples_survive_decoding(cls, data):
    instance = codec.decode(cls, data)
    again = codec.encode(instance, JULY_2026)
    assert again == {name: value for name, value in data.items() if name not in IMPLIED or value != IMPLIED[name]
                     or name in again}
    strangers = set(vars(instance).get("_extra", {}))
    assert strangers <= WITHOUT.get(cls, set()), "every other member has a field"


@pytest.mark.parametrize("name, data", examples())
def test_official_examples_are_read_and_written_as_messages(name, data):
    """What is no message by itself is read and written inside of one."""
    if "jsonrpc" not in data:
        around = {"jsonrpc": "2.0", "id": 1}
        data = {**around, "error": data} if name in ERRORS else {**around, "method": "m", "params": data}
    message = jsonrpc.parse(json.dumps(data).encode())
    assert not isinstance(message, jsonrpc.Invalid)
    assert json.loads(jsonrpc.dump(message)) == data


@pytest.mark.parametrize("name, data", examples(lambda name: name.endswith(("Request", "RequestParams"))))
def test_official_envelopes_are_read_and_written(name, data):
    params = data.get("params", {}) if "method" in data else data
    if params.get("_meta") is None:
        assert name in ("CreateMessageRequest", "CreateMessageRequestParams", "ElicitRequest", "ListRootsRequest"), (
            "what rides in a result needs none")
        return
    assert modern.names_revision(params)
    read = modern.read_envelope(params)
    written = meta.members(modern.revision_of(read, [JULY_2026]), read.capabilities, read.info, read.log_level)
    without = {key: value for key, value in params["_meta"].items() if key not in written}
    assert meta.stamp({**params, "_meta": without}, written) == params


@pytest.mark.parametrize("name, data", examples(lambda name: name in ERRORS))
def test_official_errors_are_known_to_callers(name, data):
    error = data.get("error", data)
    raised = remote_error(error["code"], error["message"], error.get("data"))
    assert type(raised) is ERRORS[name]
    assert {"code": raised.code, "message": raised.message, "data": raised.data} == {"data": None, **error}
    if isinstance(raised, UnsupportedVersion):
        assert list(raised.supported) == error["data"]["supported"]
    if isinstance(raised, MissingCapability):
        assert raised.required == error["data"]["requiredCapabilities"]


@pytest.mark.parametrize("name, data", examples(lambda name: name.endswith("Schema")))
def test_official_form_fields_can_be_asked_for(name, data):
    form = {"type": "object", "properties": {"field": data}, "required": ["field"]}
    elicitation_forms.check_form(form)
    assert elicitation_forms.adapt_form(form, JULY_2026) == form
    filled = elicitation_forms.fill_defaults(form, {})
    assert filled == {"field": data["default"]} and elicitation_forms.check_answer(form, filled) == []


def test_every_example_is_used():
    names = {name for name, _, _ in all_examples()}
    bare = {name for name, data, _ in all_examples() if not parts(name, data)}
    bare -= {name for name in names if name in ERRORS or name.endswith("Schema")} | {"InputRequiredResult"}
    assert bare == PLAIN
    assert set(ERRORS) <= names and len(all_examples()) >= 125


def test_the_shapes_of_capabilities_follow_the_revision():
    capabilities = next(item for item in SAMPLES if isinstance(item, ClientCapabilities))
    shapes = {revision: codec.encode(capabilities, revision) for revision in REVISIONS}
    assert [shapes[revision].get("elicitation") for revision in REVISIONS] == [
        None, None, {}, {"form": {}, "url": {}}, {"form": {}, "url": {}}]
    assert [shapes[revision]["sampling"] for revision in REVISIONS] == [
        {}, {}, {}, {"tools": {}, "context": {}}, {"tools": {}, "context": {}}]
    assert [shapes[revision]["roots"] for revision in REVISIONS] == [{"listChanged": True}] * 4 + [{}]
    oldest = set(codec.encode(SERVER, NOVEMBER_2024))
    assert [sorted(set(codec.encode(SERVER, revision)) - oldest) for revision in REVISIONS] == [
        [], ["completions"], ["completions"], ["completions", "tasks"], ["completions"]]


def test_the_rows_are_the_ones_of_the_folder():
    names = {path.name for path in schemas.FOLDER.iterdir() if (path / "schema.json").is_file()}
    assert {revision.name for revision in (NOVEMBER_2024, MARCH_2025, JUNE_2025, NOVEMBER_2025, JULY_2026)} == names
