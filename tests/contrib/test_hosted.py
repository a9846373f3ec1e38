"""What the adapters of web frameworks share."""

import pytest

import mcplite
from mcplite.contrib.hosted import mounted, principal_of

WELL_KNOWN = "/.well-known/oauth-protected-resource"


class FlaskUser:
    is_authenticated = True

    def get_id(self):
        return "7"


class DjangoUser:
    is_authenticated = True
    pk = 8


class Anonymous:
    is_authenticated = False


class Proxy:
    """As ``current_user`` of Flask-Login is."""

    def __init__(self, user):
        self._user = user

    def _get_current_object(self):
        return self._user


@pytest.mark.parametrize("user, subject", [
    ("ada", "ada"), (FlaskUser(), "7"), (DjangoUser(), "8"), (Proxy(FlaskUser()), "7"), (Proxy("eve"), "eve")])
def test_users_become_principals(user, subject):
    found = principal_of(user)
    assert found == mcplite.Principal(subject, audience=mcplite.auth.ISSUED_HERE)


@pytest.mark.parametrize("user", [None, Anonymous(), Proxy(None), Proxy(Anonymous())])
def test_a_request_without_a_user_has_no_principal(user):
    assert principal_of(user) is None


def test_a_principal_stays_as_it_is():
    found = mcplite.Principal("ada", audience="here", scopes="orders")
    assert principal_of(found) is principal_of(Proxy(found)) is found


@pytest.mark.parametrize("user", [7, object(), type("NoId", (), {"is_authenticated": True})()])
def test_other_values_are_refused(user):
    with pytest.raises(TypeError, match="a Principal, a name, a user with an id, or None"):
        principal_of(user)


@pytest.mark.parametrize("script, path, found", [
    ("", "/mcp", ("/mcp", "")), ("/app", "/mcp", ("/app/mcp", "")), ("", "/", ("/", "")),
    ("", WELL_KNOWN + "/api/mcp", ("/api/mcp", WELL_KNOWN)), ("/app", "/mcp" + WELL_KNOWN, ("/app/mcp", WELL_KNOWN))])
def test_where_an_endpoint_is_mounted(script, path, found):
    assert mounted({"SCRIPT_NAME": script, "PATH_INFO": path}) == found
