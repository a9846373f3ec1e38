"""What clients may say about themselves, and how many there may be."""

import pytest

from mcplite.auth.issuer.client_registry import ClientRegistry, InvalidMetadata, TooManyClients, checked_metadata
from mcplite.auth.issuer.grant_store import GrantStore
from mcplite.backend.memory import MemoryBackend
from tests.support.fakes import Clock

URI = "https://app.example/cb"


@pytest.fixture
def clock():
    return Clock(1.8e9)


@pytest.fixture
def registry(clock):
    return ClientRegistry(GrantStore(MemoryBackend(clock), 3600, 1e6, clock=clock), "https://notes.example", clock=clock)


@pytest.mark.parametrize("uri", [
    URI, "http://127.0.0.1:3/cb", "http://localhost/cb", "http://[::1]:80/", "com.example.app:/cb", "cursor://host/oauth/x",
    "vscode://x.y/cb?z=1", "https://app.example", "https://127.0.0.1/cb",
])
def test_redirect_uris(uri):
    assert checked_metadata({"redirect_uris": [uri]})["redirect_uris"] == [uri]


@pytest.mark.parametrize("uris", [
    None, [], "https://app.example/cb", [5], [""], [URI, "javascript:alert(1)"], ["http://app.example/cb"], [URI + "#x"],
    ["https://u:p@app.example/"], ["file:///etc/passwd"], ["data:text/html,x"], ["https://"], ["/cb"],
    ["https://app.example/ x"], ["https://app.example/\n"], ["HTTP://evil.example/"], [URI + "x" * 3000], [URI] * 21,
    ["view-source:https://x"], ["https://app.ex\u00e4mple/"], ["http://127.0.0.1.evil.example/"], ["JavaScript:alert(1)"],
])
def test_redirect_uris_that_cannot_be_used(uris):
    with pytest.raises(InvalidMetadata) as raised:
        checked_metadata({"redirect_uris": uris})
    assert raised.value.code == "invalid_redirect_uri"


@pytest.mark.parametrize("more", [
    {"grant_types": ["implicit"]}, {"grant_types": "authorization_code"}, {"response_types": ["token"]},
    {"token_endpoint_auth_method": "tls_client_auth"}, {"token_endpoint_auth_method": 5},
    {"token_endpoint_auth_method": "private_key_jwt"},
    {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [{}]}, "jwks_uri": URI},
    {"software_id": "x" * 40_000},
])
def test_metadata_that_cannot_be_used(more):
    with pytest.raises(InvalidMetadata):
        checked_metadata({"redirect_uris": [URI], **more})


def test_what_is_not_needed_is_left_out():
    found = checked_metadata({"redirect_uris": [URI], "client_name": "N" * 500, "extra": 1, "logo_uri": 5,
                              "grant_types": ["authorization_code", "implicit"]})
    assert found == {"redirect_uris": [URI], "client_name": "N" * 200, "grant_types": ["authorization_code"],
                     "response_types": ["code"], "token_endpoint_auth_method": "client_secret_basic"}


def test_a_registration_is_gone_after_a_day_unless_it_was_used(registry, clock):
    used, unused = (registry.register(checked_metadata({"redirect_uris": [URI]}), "a")[0] for _ in range(2))
    registry.keep(used)
    clock.now += 86_401
    assert registry.find(unused.id) is None
    assert registry.find(used.id).metadata["redirect_uris"] == [URI]


def test_an_address_registers_some_in_an_hour(registry, clock):
    metadata = checked_metadata({"redirect_uris": [URI]})
    with pytest.raises(TooManyClients):
        for _ in range(1000):
            registry.register(metadata, "10.0.0.1")
    registry.register(metadata, "10.0.0.2")
    clock.now += 3600
    registry.register(metadata, "10.0.0.1")


def test_a_flood_from_many_addresses_has_few_counters(registry, clock):
    refused = 0
    for number in range(12_000):
        try:
            registry.count(f"10.{number >> 8}.{number & 255}.1", "logins")
        except TooManyClients as error:
            assert 0 < error.seconds <= 900
            refused += 1
    assert refused == 7000 and len(registry._store.backend._logs) <= 4097


@pytest.mark.parametrize("id", [
    "https://10.0.0.1/client.json", "https://[::1]/client.json", "https://169.254.169.254/latest/meta-data",
    "https://192.168.1.1/x", "https://100.64.0.1/x", "https://[::ffff:127.0.0.1]/x", "https://[64:ff9b::a00:1]/x",
    "https://localhost/client.json", "http://app.example/client.json", "https://app.example/", "https://app.example",
    "https://app.example/a/../b", "https://app.example/x#y", "https://app.example/%2e%2e/b",
])
def test_a_document_is_fetched_from_public_addresses_only(registry, id, monkeypatch):
    with pytest.raises(InvalidMetadata):
        registry.find(id, "a")


def test_a_failure_to_fetch_is_remembered_for_a_while(registry, clock, monkeypatch):
    fetched = []

    def fetch(self, url, what):
        fetched.append(url)
        raise InvalidMetadata("away")

    monkeypatch.setattr(ClientRegistry, "_get", fetch)
    for _ in range(5):
        with pytest.raises(InvalidMetadata, match="away"):
            registry.find("https://app.example/client.json", "a")
    assert len(fetched) == 1


def test_a_client_whose_document_cannot_be_fetched_for_a_while_keeps_its_logins(registry, clock, monkeypatch):
    url, down = "https://app.example/client.json", []

    def fetch(self, url, what):
        if down:
            raise InvalidMetadata("away")
        return {"client_id": url, "redirect_uris": [URI], "token_endpoint_auth_method": "none"}

    monkeypatch.setattr(ClientRegistry, "_get", fetch)
    assert registry.find(url, "a").domain == "app.example"
    down.append(True)
    for _ in range(3):
        clock.now += 601
        assert registry.find(url).metadata["redirect_uris"] == [URI]  # at the token endpoint
        with pytest.raises(InvalidMetadata, match="away"):
            registry.find(url, "a")  # a new login
    clock.now += 86_400
    with pytest.raises(InvalidMetadata, match="away"):
        registry.find(url)
    down.clear()
    clock.now += 21
    assert registry.find(url, "a").metadata["redirect_uris"] == [URI]


def test_many_clients_with_documents_refresh_in_an_hour(registry, monkeypatch):
    monkeypatch.setattr(ClientRegistry, "_get", lambda self, url, what: {
        "client_id": url, "redirect_uris": [URI], "token_endpoint_auth_method": "none"})
    for number in range(200):
        assert registry.find(f"https://app.example/{number}.json").domain == "app.example"
    with pytest.raises(TooManyClients):
        for number in range(200):
            registry.find(f"https://app.example/new-{number}.json", "10.0.0.1")


@pytest.mark.parametrize("given", [{}, {"client_id": ""}, {"client_id": "x"},
                                   {"client_id": "x", "redirect_uris": ["javascript:1"]}])
def test_given_clients_that_cannot_be_used(registry, given):
    with pytest.raises(ValueError):
        ClientRegistry(registry._store, "https://notes.example", [given])
