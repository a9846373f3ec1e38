import os
import pathlib
import sys

import pytest

from mcplite.client.stdio.child import DEFAULT_ENVIRONMENT, child_arguments, child_environment, label
from mcplite.errors import TransportError

#: Where a program finds its user's files.
HOME = "USERPROFILE" if os.name == "nt" else "HOME"


#: The way to the network.
PROXIES = {"HTTPS_PROXY": "http://proxy.example:3128", "HTTP_PROXY": "proxy.example:3128", "NO_PROXY": "localhost",
           "NODE_EXTRA_CA_CERTS": "/ca.pem", "SSL_CERT_FILE": "/ca.pem", "REQUESTS_CA_BUNDLE": "/ca.pem"}
if os.name != "nt":  # where names of variables have no case
    PROXIES.update(https_proxy="http://[::1]:3128", http_proxy="http://p:1", no_proxy="*")


@pytest.mark.parametrize("inherited, other", [
    ({"PATH": "/bin", HOME: "/home/me"}, {"AWS_SECRET_ACCESS_KEY": "s3cret", "LD_PRELOAD": "x"}), (PROXIES, {}),
    ({"HTTPS_PROXY": "http://p:1"}, {"REQUEST_METHOD": "GET", "HTTP_PROXY": "http://evil.example"}),  # the header of a request
    ({HOME: "/h"}, {"TERM": "() { :; }; touch x"}),  # a function of a shell
])
def test_only_the_small_default_set_is_inherited(inherited, other):
    assert child_environment(None, {**inherited, **other}) == inherited


def test_the_default_set_has_nothing_that_could_be_a_credential():
    assert set(DEFAULT_ENVIRONMENT) >= {HOME, "PATH", "USERNAME" if os.name == "nt" else "USER"}
    assert not [name for name in DEFAULT_ENVIRONMENT if "KEY" in name or "TOKEN" in name or "SECRET" in name]


@pytest.mark.parametrize("proxy", ["http://user:s3cret@proxy.example:3128", "user:s3cret@proxy.example:3128", "http://token@p"])
def test_a_proxy_with_credentials_is_given_and_not_inherited(proxy):
    assert child_environment(None, {"HTTPS_PROXY": proxy, "PATH": "/bin"}) == {"PATH": "/bin"}
    assert child_environment({"HTTPS_PROXY": proxy}, {}) == {"HTTPS_PROXY": proxy}


def test_given_variables_are_added_and_win():
    source = {"PATH": "/bin", HOME: "/home/me"}
    assert child_environment({"PATH": "/opt/bin", "TOKEN": "t"}, source) == {
        "PATH": "/opt/bin", HOME: "/home/me", "TOKEN": "t"}


def test_our_own_environment_is_the_default_source(monkeypatch):
    monkeypatch.setenv(HOME, "/somewhere")
    monkeypatch.setenv("MY_PASSWORD", "x")
    environment = child_environment()
    assert environment[HOME] == "/somewhere"
    assert "MY_PASSWORD" not in environment
    assert child_environment(os.environ)["MY_PASSWORD"] == "x"


@pytest.mark.parametrize("env", [{"N": 5}, {"N": None}, {3: "x"}])
def test_values_that_are_not_strings_are_named_and_not_shown(env):
    with pytest.raises(TypeError, match="must be a string"):
        child_environment(env)


@pytest.mark.parametrize("env", [{"A=B": "v"}, {"": "v"}, {"A\0": "v"}, {"A": "hidden\0value"}])
def test_variables_that_no_environment_can_hold_are_refused_without_their_values(env):
    with pytest.raises(TransportError) as caught:
        child_environment(env)
    assert "hidden" not in str(caught.value)


def test_arguments_may_be_paths():
    assert child_arguments([pathlib.Path("/usr/bin/env"), "x"]) == [os.path.normpath("/usr/bin/env"), "x"]


@pytest.mark.parametrize("command, error, text", [
    ([], TransportError, None), ([""], TransportError, None), (["server", "a\0b"], TransportError, None),
    ("python server.py", TypeError, "shlex"), (["server", 8080], TypeError, "8080 must be a string"),
])
def test_commands_that_cannot_be_started_are_refused(command, error, text):
    with pytest.raises(error, match=text):
        child_arguments(command)


@pytest.mark.parametrize("arguments, expected", [
    (["/usr/bin/python3", "weather.py", "--key", "s3cret"], "python3 weather.py"),
    (["python", "-m", "weather", "x"], "python -m weather"),
    (["npx", "-y", "@scope/server", "postgres://me:pw@host"], "npx -y @scope/server"),
    (["server", "--token", "s3cret"], "server"),
    (["server", "-k", "s3cret"], "server"),
    (["server", "postgres://me:pw@host"], "server"),
    (["server", "a\nb"], r"server 'a\nb'"),
    (["server"], "server"),
])
def test_a_label_names_the_server_and_no_secret(arguments, expected):
    assert label(arguments) == expected


def test_a_label_is_short():
    assert len(label([sys.executable, "x" * 500])) < 100
