"""JSON Schemas of the extension for tasks, as its specification describes it; the schema of the revision does not have them."""

TEXT, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 1}
_HEAD = {
    "taskId": TEXT, "statusMessage": TEXT, "createdAt": TEXT, "lastUpdatedAt": TEXT,
    "ttlMs": {"anyOf": [WHOLE, {"type": "null"}]}, "pollIntervalMs": WHOLE,
    "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
}
_NEEDED = ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"]
#: What belongs to one status alone.
_OWN = {"completed": {"result": {"$ref": "#/$defs/CallToolResult"}}, "failed": {"error": {"$ref": "#/$defs/Error"}},
        "input_required": {"inputRequests": {"$ref": "#/$defs/InputRequests"}}, "working": {}, "cancelled": {}}


def _detailed(more, needed):
    """Return the schema of a task with what its status has, and nothing of another status."""
    return {"type": "object", "oneOf": [{
        "type": "object", "properties": {**_HEAD, **own, **more, "status": {"const": status}},
        "required": [*_NEEDED, *own, *needed], "additionalProperties": False} for status, own in _OWN.items()]}


def _request(method, **members):
    params = {"type": "object", "properties": {"_meta": {"$ref": "#/$defs/RequestMetaObject"}, "taskId": TEXT, **members},
              "required": ["_meta", "taskId", *members]}
    return {"type": "object", "properties": {"jsonrpc": {"const": "2.0"}, "id": {"$ref": "#/$defs/RequestId"},
                                             "method": {"const": method, "type": "string"}, "params": params},
            "required": ["jsonrpc", "id", "method", "params"]}


_RESULT = {"_meta": {"$ref": "#/$defs/ResultMetaObject"}}
_ACKNOWLEDGED = {"type": "object", "properties": {**_RESULT, "resultType": {"const": "complete"}}, "required": ["resultType"],
                 "additionalProperties": False}
DEFINITIONS = {
    "GetTaskRequest": _request("tasks/get"), "CancelTaskRequest": _request("tasks/cancel"),
    "UpdateTaskRequest": _request("tasks/update", inputResponses={"$ref": "#/$defs/InputResponses"}),
    "GetTaskResult": _detailed({**_RESULT, "resultType": {"const": "complete"}}, ["resultType"]),
    "CancelTaskResult": _ACKNOWLEDGED, "UpdateTaskResult": _ACKNOWLEDGED,
    "CreateTaskResult": {"type": "object", "properties": {**_HEAD, **_RESULT, "resultType": {"const": "task"}},
                         "required": [*_NEEDED, "resultType"], "additionalProperties": False},
    "TaskStatusNotification": {
        "type": "object", "properties": {"jsonrpc": {"const": "2.0"},
                                         "method": {"const": "notifications/tasks", "type": "string"},
                                         "params": _detailed({"_meta": {"$ref": "#/$defs/NotificationMetaObject"}}, [])},
        "required": ["jsonrpc", "method", "params"]},
}


def with_tasks(root):
    """Return the schema of the newest revision with the extension in it."""
    known = root["$defs"]
    requests = [*known["ClientRequest"]["anyOf"],
                *({"$ref": f"#/$defs/{name}"} for name in DEFINITIONS if name.endswith("Request"))]
    notifications = [*known["ServerNotification"]["anyOf"], {"$ref": "#/$defs/TaskStatusNotification"}]
    listens = known["SubscriptionFilter"]
    filter = {**listens, "properties": {**listens["properties"], "taskIds": {"type": "array", "items": TEXT}}}
    return {**root, "$defs": {
        **known, **DEFINITIONS, "ClientRequest": {"anyOf": requests}, "ServerNotification": {"anyOf": notifications},
        "SubscriptionFilter": filter}}
