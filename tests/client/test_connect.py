import dataclasses
import inspect
import sys

import pytest

import mcplite
from mcplite.client.client_options import ClientOptions, ClientSettings
from mcplite.client.config import ServerConfig
from mcplite.client.connect import connect
from mcplite.client.group import connect_all
from mcplite.revisions import TASKS_EXTENSION
from tests.support import connecting
from tests.support.authserver import AuthServer, Protected

LIMIT = 30
EXTENSION = "io.modelcontextprotocol/oauth-client-credentials"


def test_a_url_and_a_configured_url():
    mcp = mcplite.Server("remote")
    with mcplite.serve(mcp, legacy_sse=True) as server:
        with connect(server.url) as client:
            assert client.server_info.name == "remote"
        with connect(ServerConfig("remote", "http", url=server.url, headers={"X-A": "1"}), headers={"X-B": "2"}) as client:
            assert client.state == "open"
        with connect(ServerConfig("remote", "sse", url=server.url.replace("/mcp", "/sse"))) as client:
            assert client.state == "open"


@pytest.mark.parametrize("target, option", [
    ("http://127.0.0.1:1/mcp", {"env": {}}), ("http://127.0.0.1:1/mcp", {"cwd": "/"}), (["true"], {"headers": {}}),
    (["true"], {"auth": "x"}), (mcplite.Server("here"), {"verify": False}), (mcplite.Server("here"), {"env": {}, "cwd": "."}),
])
def test_options_of_another_transport(target, option):
    with pytest.raises(TypeError, match="only for a server"):
        connecting.connect(target, **option)


@pytest.mark.parametrize("target, type, text", [
    ("http://127.0.0.1:1/mcp", "websocket", "'http' or 'sse'"), ("", None, "empty"), ("   ", None, "empty"),
    ("server 'oops", None, "quot"),
])
def test_targets_that_cannot_be(target, type, text):
    with pytest.raises(ValueError, match=text):
        connect(target, options=ClientOptions(type=type))


@pytest.mark.parametrize("target", [None, 3, object(), {"command": "x"}, b"server", (1, 2, 3)])
def test_other_targets_are_refused_with_a_list_of_the_possible(target):
    with pytest.raises(TypeError):
        connect(target)
    if target is None:
        with pytest.raises(TypeError, match="a Server, a Channel"):
            connect(target)


def test_nothing_starts_before_open(tmp_path):
    client = connect([sys.executable, "-c", f"open({str(tmp_path / 'started')!r}, 'w')"])
    assert client.state == "new"
    with pytest.raises(mcplite.errors.ConnectionClosed):
        client.open()
    assert (tmp_path / "started").exists()


@pytest.mark.parametrize("given, declared", [
    (None, {}), ({"com.example/mine": {"a": 1}}, {"com.example/mine": {"a": 1}}),
    ({EXTENSION: {"a": 1}}, {EXTENSION: {"a": 1}}),
])
def test_the_extension_of_a_grant_is_added_to_those_of_the_caller(given, declared):
    # AUX-04
    mcp = mcplite.Server("real")
    mcp.add_tool(lambda: None, name="one")
    with AuthServer() as auth, Protected(auth, mcp.wsgi()) as real:
        auth.know("me", "s3cret")
        grant = mcplite.auth.ClientCredentials("me", "s3cret", issuer=auth.issuer)
        before = None if given is None else dict(given)
        with connect(real.url, auth=grant, extensions=given, timeout=LIMIT, options=ClientOptions(era="modern")) as client:
            client.list_tools()
        said = [request.message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
                for request in real.requests if request.message is not None]
    assert len(said) >= 2 and all(one == {TASKS_EXTENSION: {}, EXTENSION: {}, **declared} for one in said), said
    assert given == before  # the caller's own stays as it is


# --- one option, one name and one default ----------------------------------------------------------------------------


def defaults(function):
    """Return the defaults of the parameters that have one, by name."""
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is not parameter.empty}


def test_connect_has_the_settings_that_are_no_options():
    own = {name: value for name, value in defaults(ClientSettings).items() if name not in defaults(ClientOptions)}
    assert defaults(connect) == {**own, "options": None}
    assert len(defaults(connect)) == 18 and defaults(connect_all) == {**defaults(connect), "separator": "__"}


@pytest.mark.parametrize("documented", [connect, ClientOptions])
def test_each_option_is_documented(documented):
    assert [name for name in defaults(documented) if f":param {name}:" not in documented.__doc__] == []


def test_options_are_an_object_of_their_own():
    with pytest.raises(TypeError, match=r"^options must be a ClientOptions, as in .*, not dict"):
        connect(["x"], options={"cache": False})
    with pytest.raises(TypeError, match="unexpected keyword argument 'cach'"):
        ClientOptions(cach=False)


def test_options_are_compared_and_shown_by_their_values():
    options = ClientOptions(cache=False)
    assert options == ClientOptions(cache=False) != ClientOptions() and hash(options) == hash(ClientOptions(cache=False))
    assert repr(options).startswith("ClientOptions(max_timeout=300.0, ") and "cache=False" in repr(options)
    assert dataclasses.replace(options, cache=True) == ClientOptions()


def test_a_typo_is_reported_with_the_name_that_was_called():
    with pytest.raises(TypeError, match=r"^connect\(\) got an unexpected keyword argument 'timeot'"):
        connect(["x"], timeot=3)
