"""Users of other SDKs log in at a provider: the official client for Python, and FastMCP's."""

import json

import pytest

from tests.support.credentials import mint  # noqa: F401
from tests.support.issuers import Clock, Person
from tests.support.provider_logins import Bridge
from tests.support.providers import Provider

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]


@pytest.mark.parametrize("sdk", ["mcp2", "fastmcp4"])
@pytest.mark.parametrize("kind", ["github", "entra"])
def test_a_user_logs_in_and_the_token_is_refreshed(kind, sdk, visitor, mint):  # noqa: F811
    clock, person = Clock(), Person()
    with Provider(kind, mint) as provider, Bridge(provider, {"clock": clock}) as bridge:
        client = visitor(sdk, bridge.url, person)
        assert client.outcome() == {"said": "connected"}
        for _ in range(2):
            assert json.loads(client.call("whoami")["said"])["subject"].partition(":")[0] == kind
            clock.ahead = 3601
            client.process.tell("later 3601")
        assert person.forms == 1
        # Without a refresh token of GitHub's, its user endpoint says whether the account is still there.
        asked = [form["grant_type"] for form in provider.asked]
        assert asked.count("authorization_code") == 1 and ("refresh_token" in asked) is (kind == "entra")
        for secret in (*provider.tokens, *provider.refreshable):
            assert secret not in client.process.told()
