"""The client that the official conformance suite tests.

    python tests/conformance/client.py URL

The suite says in MCP_CONFORMANCE_SCENARIO what it wants to see, and in MCP_CONFORMANCE_PROTOCOL_VERSION which revision.
"""

import json
import os
import sys
from typing import Any, Callable, Dict

import mcplite

#: Seconds; the suite gives up after thirty.
LIMIT = 20
SCENARIOS: Dict[str, Callable[[str], None]] = {}


def scenario(name: str) -> Callable[[Callable[[str], None]], Callable[[str], None]]:
    def register(function: Callable[[str], None]) -> Callable[[str], None]:
        SCENARIOS[name] = function
        return function

    return register


def connect(url: str, **options: Any) -> mcplite.Client:
    return mcplite.connect(url, timeout=LIMIT, **options)


@scenario("initialize")
def initialize(url: str) -> None:
    with connect(url):
        """The handshake is all that this server can."""


@scenario("tools_call")
def tools_call(url: str) -> None:
    with connect(url) as client:
        client.list_tools()
        client.call_tool("add_numbers", {"a": 5, "b": 3}).raise_for_error()


@scenario("elicitation-sep1034-client-defaults")
def elicitation_defaults(url: str) -> None:
    with connect(url, elicitation_handler=lambda request: mcplite.accept({})) as client:
        client.call_tool("test_client_elicitation_defaults", {}).raise_for_error()


@scenario("sse-retry")
def sse_retry(url: str) -> None:
    with connect(url) as client:
        client.call_tool("test_reconnection", {}).raise_for_error()


@scenario("json-schema-2020-12-preservation")
def schema_preservation(url: str) -> None:
    with connect(url) as client:
        schemas = {tool.name: tool.input_schema for tool in client.list_tools()}
        client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]}).raise_for_error()


def ask(request: mcplite.ElicitRequest) -> object:
    return mcplite.accept({"confirmed": True})


@scenario("request-metadata")
def request_metadata(url: str) -> None:
    with connect(url, elicitation_handler=ask, sampling_handler=lambda request: "a text", roots=[]) as client:
        # The server of this scenario does not say what it has.
        for tool in client.request("tools/list")["tools"]:
            client.request("tools/call", {"name": tool["name"], "arguments": {}})


@scenario("sep-2322-client-request-state")
def request_state(url: str) -> None:
    with connect(url, elicitation_handler=ask) as client:
        for tool in ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"):
            client.call_tool(tool, {}).raise_for_error()


@scenario("http-standard-headers")
def standard_headers(url: str) -> None:
    with connect(url) as client:
        for tool in client.list_tools():
            client.call_tool(tool.name, {})
        for resource in client.list_resources():
            client.read_resource(resource.uri)
        for prompt in client.list_prompts():
            client.get_prompt(prompt.name)


@scenario("http-custom-headers")
def custom_headers(url: str) -> None:
    wanted = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]
    with connect(url) as client:
        client.list_tools()
        for call in wanted:
            client.call_tool(call["name"], call["arguments"])


@scenario("http-invalid-tool-headers")
def invalid_tool_headers(url: str) -> None:
    with connect(url) as client:
        for tool in client.list_tools():
            client.call_tool(tool.name, {})


@scenario("json-schema-ref-no-deref")
def no_dereferencing(url: str) -> None:
    with connect(url) as client:
        client.list_tools()


def main() -> int:
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    run = SCENARIOS.get(name)
    if run is None:
        print(f"no scenario {name!r}; there are {', '.join(SCENARIOS)}", file=sys.stderr)
        return 2
    run(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
