import pytest

from mcplite.auth.login.discovery import AuthorizationServer, ProtectedResource, choose_scopes
from mcplite.protocol.http.oauth import Challenge


@pytest.mark.parametrize("challenged, given, described, supported, before, expected", [
    (None, [], None, [], [], []),
    (None, [], ["a", "b"], [], [], ["a", "b"]),
    (["c"], [], ["a", "b"], [], [], ["c"]),  # AUC-39, AUC-40: no relation to what is described
    (None, ["g"], ["a", "b"], [], [], ["g"]),
    (["c"], ["g"], ["a"], [], [], ["c", "g"]),
    (None, ["offline_access"], ["a"], ["offline_access"], [], ["a", "offline_access"]),
    (["c", "b"], [], ["a"], [], ["a", "b"], ["a", "b", "c"]),  # AUC-43
    (None, [], ["a", "offline_access"], [], [], ["a"]),  # AUC-47
    (None, [], ["a"], ["offline_access", "a"], [], ["a", "offline_access"]),
    (None, [], None, ["offline_access"], [], []),
    (None, ["offline_access", "a"], None, ["offline_access"], [], ["a", "offline_access"]),
])
def test_which_scopes_are_asked_for(challenged, given, described, supported, before, expected):
    challenge = Challenge("bearer", {"scope": " ".join(challenged)} if challenged else {})
    resource = ProtectedResource("https://s.example/mcp", ["https://a.example"], described)
    server = AuthorizationServer("https://a.example", "https://a.example/token", scopes=supported)
    assert choose_scopes(challenge, resource, server, given, before, True) == expected
    assert choose_scopes(challenge, resource, server, given, before, False) == [s for s in expected if s != "offline_access"]
