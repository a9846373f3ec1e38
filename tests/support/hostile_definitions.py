"""A server whose names, texts and schemas try to become code in a written client, or to break it; run as a program on stdio."""

import json
import sys

ESCAPES = ["\ud800", '"""', '"""\nimport os\nos.abort()\n"""', "'''",
           "\\", '\\"', 'ends with "', 'ends with \\', "a\r\nb\x0cc\u2028d\x85e\x00",
           "\u202eesrever", "{braces} {0}", "%s", "\t tab", '""""""""', "# comment\n\n\n", "\\N{DASH} \\x4 \\u12"]
NAMES = ["class", "def", "self", "client", "__init__", "__class__", "_value", "_given", "str", "int", "None", "Any",
    "Dict", "List",
         "Client", "found", "more", "a b", "a-b", "a.b", "a_b", "a_b_", "1st", "", "\u0438\u043c\u044f", "caf\u00e9",
         "x);import os;(", "\n", "True",
         "print", "Object", "Hostile", "Union", "Literal", "property", "staticmethod", "annotations", "super",
         "type", "x" * 300]
STRANGE = [{"type": "strin"}, {"type": []}, {"type": ["string", 3, None]}, {"enum": []}, {"enum": [[1], {"a": 2}]},
    {"enum": 3},
           {"enum": [1, True, 1.0, None, "a"]}, {"enum": ["x" * 1000]}, {"const": "'''"}, {"const": None},
           {"anyOf": []},
           {"anyOf": [3, None, {}]}, {"$ref": "#"}, {"$ref": "#/nowhere"}, {"$ref": 3},
           {"$ref": "https://example.com/x"},
           {"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Tree"}, {"allOf": [{"$ref": "#/$defs/Tree"},
           {"properties": {"extra": {}}}]},
           {"type": "array"}, {"type": "array", "items": [{"type": "string"}]}, {"type": "array",
           "items": False}, True, False, None, 3, "x", [],
           {"properties": 3}, {"properties": {"a": 3}}, {"properties": {"a": {}}, "required": 3},
           {"properties": {"a": {}}, "required": [3, "b"]},
           {"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "object",
           "patternProperties": {"^a": {}}},
           {"type": {"a": 1}}, {"allOf": 3}, {"oneOf": {"a": 1}}, {"type": "integer", "default": "x"},
           {"type": "number", "default": 1e300},
           {"type": "string",
           "default": '"""\n'}, {"type": "boolean", "default": 1}, {"type": "integer", "default": True},
           {"type": ["string", "null"], "default": None}, {"enum": ["a", "b"], "default": "c"}, {"enum": ["a", "b"],
           "default": "b"},
           {"type": "array", "items": {"type": "string"}, "default": ["a"]}, {"type": "string", "description": 3},
           {"type": "string", "description": '"""\nimport os'}, {"type": "null"}, {"anyOf": [{"type": "null"}]}]
DEFS = {"Loop": {"$ref": "#/$defs/Loop"}, "Tree": {"type": "object", "required": ["children"], "properties": {
    "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}, "class": {"type": "string"},
    "str": {"type": "string"},
    "any thing": {"$ref": "#/$defs/Tree"}, "__x": {"$ref": "#/$defs/Loop"}}}}

def deep(levels):
    return {"type": "object", "properties": {"a": deep(levels - 1)}} if levels else {"type": "string"}

def tools():
    yield from ({"name": name, "inputSchema": {"type": "object"}} for name in NAMES)
    yield from ({"name": f"says {n}", "description": text,
    "inputSchema": {"type": "object"}} for n, text in enumerate(ESCAPES))
    properties = {name: {"type": "string"} for name in NAMES}
    for required in ([], NAMES, NAMES[::2]):
        schema = {"type": "object", "properties": properties, "required": required}
        yield {"name": "names", "inputSchema": schema, "outputSchema": schema}
        inner = {"type": "object", "properties": {"result": schema}, "required": ["result"]}
        yield {"name": "inner", "inputSchema": inner, "outputSchema": inner}
    for number, schema in enumerate(STRANGE):
        for required in ([], ["value"]):
            whole = {"type": "object", "$defs": DEFS, "properties": {"value": schema}, "required": required}
            yield {"name": f"strange {number}", "inputSchema": whole, "outputSchema": whole}
        if isinstance(schema, dict):
            yield {"name": f"top {number}", "inputSchema": {"$defs": DEFS, **schema},
            "outputSchema": {"$defs": DEFS, **schema}}
    yield {"name": "deep", "inputSchema": deep(28), "outputSchema": deep(28)}

PROMPTS = [{"name": name, "description": ESCAPES[n % len(ESCAPES)], "arguments": [{"name": one,
    "required": k % 2 == 0, "description": ESCAPES[k % len(ESCAPES)]}
            for k, one in enumerate(NAMES)]} for n, name in enumerate(NAMES)]
RESOURCES = [{"name": name,
    "uri": f"a://{n}/'\"\\", "description": ESCAPES[n % len(ESCAPES)]} for n, name in enumerate(NAMES)]
TEMPLATES = [{"name": name, "uriTemplate": one} for name in NAMES for one in ("a://{class}/{self}{?str,found}",
    "a://{b", "a://{'\"}")]
RESULTS = {"tools/list": {"tools": list(tools())}, "prompts/list": {"prompts": PROMPTS},
    "resources/list": {"resources": RESOURCES},
           "resources/templates/list": {"resourceTemplates": TEMPLATES},
           "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {},
           "prompts": {}},
                          "serverInfo": {"name": 'hostile """\n', "version": "1", "title": '"""\nimport os\n\\'}}}

def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps(params)}]}
    return RESULTS.get(method)


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            found = answer(message)
            reply = {"result": found} if found is not None else {"error": {"code": -32601, "message": "unknown"}}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
