"""Principals: their key, their scopes, and what they do not show."""

import copy
import dataclasses
import pickle

import pytest

from mcplite.server.principals import ISSUED_HERE, Principal, all_scopes, checked_scopes, least_scopes

TREE = {"admin": ["write", "audit"], "write": ["read"]}


def test_the_key_is_the_same_for_all_tokens_of_one_client_and_subject():
    first = Principal("ada", issuer="https://a.example", client_id="desk", scopes=["read"], expires_at=1.0)
    second = Principal("ada", issuer="https://a.example", client_id="desk", audience="x", claims={"jti": "2"})
    assert first.key == second.key
    others = [Principal("bob", issuer="https://a.example", client_id="desk"), Principal("ada", client_id="desk"),
              Principal("ada", issuer="https://b.example", client_id="desk"), Principal("ada", issuer="https://a.example"),
              Principal('ada"', issuer="https://a.example", client_id="desk"), Principal("desk", client_id="ada")]
    assert len({first.key, *(other.key for other in others)}) == 1 + len(others)


def test_scopes_and_audiences_can_be_strings_or_lists():
    assert Principal("ada", scopes="read write").scopes == Principal("ada", scopes=["write",
                                                                                    "read"]).scopes == {"read", "write"}
    assert Principal("ada", audience="one").audience == ("one",)
    assert Principal("ada", audience=["a", "b"]).audience == ("a", "b")
    assert Principal("ada", scopes="read offline_access").scopes == {"read", "offline_access"}


@pytest.mark.parametrize("options", [
    {"subject": ""}, {"subject": None}, {"issuer": None}, {"client_id": 5}, {"expires_at": "1"}, {"expires_at": True},
    {"expires_at": float("nan")}, {"expires_at": float("inf")}, {"expires_at": 10 ** 400}, {"audience": [1]},
    {"scopes": ["a b"]}, {"scopes": ['"']}, {"scopes": [1]}, {"scopes": ["é"]},
])
def test_invalid_values_are_refused(options):
    with pytest.raises(ValueError):
        Principal(**{"subject": "ada", **options})


def test_claims_are_not_shown_and_principals_are_immutable():
    principal = Principal("ada", claims={"email": "ada@example.com"})
    assert "email" not in repr(principal) and principal.claims["email"] == "ada@example.com"
    with pytest.raises(dataclasses.FrozenInstanceError):
        principal.subject = "bob"
    assert hash(principal) == hash(Principal("ada")) and principal == Principal("ada")


def test_issued_here_keeps_its_identity_when_copied():
    principal = Principal("ada", audience=ISSUED_HERE)
    for one in (copy.copy(principal), copy.deepcopy(principal), pickle.loads(pickle.dumps(principal)),
                dataclasses.replace(principal, scopes=["read"])):
        assert one.audience is ISSUED_HERE and one.key == principal.key
    assert Principal("ada", audience=()).audience is not ISSUED_HERE and "ISSUED_HERE" in repr(principal)


def test_included_scopes_are_found_transitively():
    assert all_scopes(["admin"], TREE) == {"admin", "write", "audit", "read"}
    assert all_scopes(["read"], TREE) == {"read"}
    assert all_scopes(["a"], {"a": ["b"], "b": ["a"]}) == {"a", "b"}


def test_the_least_scopes_include_all_the_others():
    assert least_scopes(["read", "write", "admin", "other"], TREE) == ("admin", "other")
    assert len(least_scopes(["a", "b"], {"a": ["b"], "b": ["a"]})) == 1


def test_offline_access_is_not_a_scope_of_a_server():
    # AUS-22
    with pytest.raises(ValueError, match="offline_access"):
        checked_scopes(["read", "offline_access"], "tool 'x'")
