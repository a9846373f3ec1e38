"""Users log in at a provider through four workers that share a store: each page, token and refresh is another worker's."""

import os
import signal
import time
from pathlib import Path

import pytest

import mcplite
from tests.support.authserver import REDIRECT
from tests.support.fleets import running_fleet, running_store
from tests.support.issuers import Person
from tests.support.processes import at_once, free_port
from tests.support.providers import SECRET, Provider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180),
              pytest.mark.skipif(os.name != "posix", reason="gunicorn is for POSIX")]


@pytest.fixture
def fleet(tmp_path, mint):
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    with Provider("okta", mint) as provider, running_store("sqlite", tmp_path) as (backend, _):
        provider.redirect_uris = [issuer + "/callback"]
        with running_fleet("tests.auth.issuer.provider_app:application", Path(__file__).parent, tmp_path, backend, port=port,
                           ISSUER=issuer, DOMAIN=provider.origin) as fleet:
            fleet.provider = provider
            yield fleet


def test_logins_calls_and_refreshes_of_four_workers(fleet):
    provider = fleet.provider
    where = {"provider": "okta", "url": provider.origin + provider._paths[2]}
    person, failures = Person(), []

    def log_in(url):
        response = person.visit(url, fleet.url.replace("/mcp", "/callback"))
        os.kill(fleet.workers()[0], signal.SIGKILL)  # between the consent and the provider's response
        fleet.wait_for_start()
        return person.visit(response, REDIRECT)

    with mcplite.connect(fleet.url, auth=mcplite.OAuth(ask=log_in, redirect_uri=REDIRECT)) as client:

        def use():
            for _ in range(15):
                result = client.call_tool("ask_provider", where)
                if result.is_error or result.structured_content["status"] != 200:
                    failures.append(result)
                time.sleep(0.5)

        at_once(use, 4)
    assert failures == [] and person.forms == 1 and provider.reuses == 0
    assert [form["grant_type"] for form in provider.asked].count("authorization_code") == 1
    assert len(fleet.served()) >= 4, fleet.log
    stored = b"".join(path.read_bytes() for path in Path(fleet.folder).glob("store.db*") if path.is_file())
    for secret in (*provider.tokens, *provider.refreshable, SECRET):
        assert secret.encode() not in stored and secret not in fleet.log
