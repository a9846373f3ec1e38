"""The client that the official conformance suite tests.

    python tests/conformance/client.py URL

The suite says in MCP_CONFORMANCE_SCENARIO what it wants to see, and in MCP_CONFORMANCE_PROTOCOL_VERSION which revision.
"""

import json
import os
import sys
from typing import Any, Callable, Dict

import requests

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
    with connect(url, elicitation_handler=lambda request: {}) as client:
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


def ask(request: mcplite.types.ElicitRequest) -> object:
    return {"confirmed": True}


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


# --- skills ------------------------------------------------------------------------------------------------


@scenario("sep-2640-client-no-prefetch")
def list_skills(url: str) -> None:
    with connect(url) as client:
        assert [skill.name for skill in client.skills.list()] == ["pdf-processing"]


def load_skill(url: str) -> None:
    with connect(url) as client:
        try:
            client.skills.load(client.skills.list()[0]).read("references/FORMS.md")
        except mcplite.errors.ProtocolError as error:
            print(f"as it must be: {error}")
        else:
            raise AssertionError("the skill should have been refused")


for name in ("digest", "size", "frontmatter"):
    scenario(f"sep-2640-client-verify-{name}")(load_skill)


# --- authorization -----------------------------------------------------------------------------------------

#: Where the suite's user comes back to, who never goes there.
REDIRECT = "http://127.0.0.1:8765/callback"
#: The document that the suite's authorization servers know; it is not hosted.
DOCUMENT = "https://conformance-test.local/client-metadata.json"
CODE_FLOWS = """metadata-default metadata-var1 metadata-var2 metadata-var3 basic-cimd scope-from-www-authenticate
    scope-from-scopes-supported scope-omitted-when-undefined scope-step-up token-endpoint-auth-basic token-endpoint-auth-post
    token-endpoint-auth-none offline-access-scope offline-access-not-supported iss-supported iss-not-advertised
    2025-03-26-oauth-metadata-backcompat 2025-03-26-oauth-endpoint-fallback""".split()
REFUSED_FLOWS = """scope-retry-limit resource-mismatch iss-supported-missing iss-wrong-issuer iss-unexpected iss-normalized
    metadata-issuer-mismatch""".split()


def context() -> Dict[str, Any]:
    return dict(json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"]))


def visit(url: str) -> str:
    """Be the user, who agrees to everything."""
    return requests.get(url, allow_redirects=False, timeout=LIMIT).headers["Location"]


def login(**options: Any) -> mcplite.OAuth:
    return mcplite.OAuth(client_name="mcplite conformance", redirect_uri=REDIRECT, client_metadata_url=DOCUMENT, ask=visit,
                         **options)


def use(url: str, auth: object) -> None:
    with connect(url, auth=auth) as client:
        for tool in client.list_tools()[:1]:
            client.call_tool(tool.name, {}).raise_for_error()


def log_in_and_use(url: str) -> None:
    use(url, login())


def be_refused(url: str) -> None:
    try:
        use(url, login())
    except mcplite.errors.AuthError as error:
        print(f"as it must be: {error}")
    else:
        raise AssertionError("the login should have been refused")


for name in CODE_FLOWS:
    scenario(f"auth/{name}")(log_in_and_use)
for name in REFUSED_FLOWS:
    scenario(f"auth/{name}")(be_refused)


@scenario("auth/pre-registration")
def pre_registration(url: str) -> None:
    given = context()
    use(url, login(client_id=given["client_id"], client_secret=given["client_secret"], issuer=given["issuer"]))


@scenario("auth/authorization-server-migration")
def migration(url: str) -> None:
    with connect(url, auth=login()) as client:
        for _ in range(3):
            tools = client.request("tools/list")["tools"]  # past the cache: each goes to the server
            client.call_tool(tools[0]["name"], {}).raise_for_error()


def trusted(url: str) -> str:
    """Be the administrator, who looks up which authorization server is meant; the suite does not say."""
    return mcplite.auth.find_authorization(url).issuers[0]


@scenario("auth/client-credentials-basic")
def client_credentials(url: str) -> None:
    given = context()
    use(url, mcplite.auth.ClientCredentials(given["client_id"], given["client_secret"], issuer=trusted(url)))


@scenario("auth/client-credentials-jwt")
def client_credentials_by_key(url: str) -> None:
    given = context()
    use(url, mcplite.auth.ClientCredentials(given["client_id"], private_key=given["private_key_pem"],
                                       algorithm=given["signing_algorithm"], issuer=trusted(url)))


@scenario("auth/enterprise-managed-authorization")
def enterprise_managed(url: str) -> None:
    given = context()
    use(url, mcplite.auth.EnterpriseManaged(
        given["idp_id_token"], idp_token_endpoint=given["idp_token_endpoint"], idp_client_id=given["idp_client_id"],
        client_id=given["client_id"], client_secret=given["client_secret"], issuer=trusted(url)))


@scenario("auth/wif-jwt-bearer")
def workload_identity(url: str) -> None:
    given = context()
    use(url, mcplite.auth.WorkloadIdentity(given["valid_jwt"], given["client_id"], issuer=trusted(url)))


@scenario("auth/dpop")
@scenario("auth/dpop-nonce")
def proof_of_possession(url: str) -> None:
    use(url, login(dpop=True))


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
