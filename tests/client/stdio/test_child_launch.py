import errno
import os
import pathlib
import subprocess
import sys

import pytest

from mcplite.client.stdio import child
from mcplite.client.stdio.child import DEFAULT_ENVIRONMENT, child_arguments, child_environment, label
from mcplite.client.stdio.stdio_channel import ChildChannel
from mcplite.errors import TransportError
from tests.support.systems import posix_only, wine_fault


def refusal(command, **options):
    """Return the text of the error that starting *command* ends in; the test's end finds what is left behind (REL-09)."""
    with pytest.raises(TransportError) as caught:
        ChildChannel(command, **options)
    return str(caught.value)


def test_a_program_that_is_not_on_the_path():
    text = refusal(["no-such-program", "--key", "s3cret"], env={"PATH": "/nowhere:/bin"})
    assert text.startswith("cannot start no-such-program: install the program 'no-such-program', give its")
    assert "/nowhere:/bin" in text
    assert "s3cret" not in text


@pytest.mark.parametrize("target, text", [
    ("localhost:8000", "for a URL write http://localhost:8000/mcp; there is no program localhost:8000"),
    ("127.0.0.1:5091/mcp", "for a URL write http://127.0.0.1:5091/mcp"), ("example.com/mcp", "write https://example.com/mcp"),
    ("example.com", "write https://example.com/mcp"),
    ("htp://localhost/mcp", "for a URL write http:// or https://, since the scheme 'htp' is none of a server; there is no"),
    ("textwrap", "for a server in the module textwrap write textwrap:name"), ("weather", "for the file weather.py write"),
])
def test_what_a_target_may_have_meant(target, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weather.py").write_text("")
    said = refusal([target])
    assert text in said and said.startswith("cannot start") is (":" not in target)


def test_a_served_file_is_named_and_not_the_way_in_which_it_is_served():
    assert child.label(["/usr/bin/python", "-m", "mcplite.server", "/srv/weather.py", "--token", "s3cret"]) == "weather.py"
    assert child.label(["python", "-m", "mcplite.server"]) == "python -m mcplite.server"


def test_a_missing_python_points_to_this_one():
    assert sys.executable in refusal(["python9.99", "server.py"])


def test_a_path_of_something_else_is_named(tmp_path):
    file, gone, log = tmp_path / "file", tmp_path / "gone", tmp_path / "no" / "log"
    file.write_text("")
    for command, options, text in ((gone, {}, f"there is no file {gone}"), (tmp_path, {}, f"{tmp_path} is a directory"),
                                   (sys.executable, {"cwd": str(gone)}, f"the working directory {gone} does not exist"),
                                   (sys.executable, {"cwd": file}, f"{file} is not a directory"),
                                   (sys.executable, {"stderr": log}, f"cannot write to {log}")):
        assert text in refusal([str(command)], **options)


def test_a_relative_path_is_named_absolutely(tmp_path):
    assert f"there is no file {tmp_path / 'bin' / 'server'}" in refusal([os.path.join("bin", "server")], cwd=tmp_path)
    assert f"there is no file {os.path.abspath('bin/server')}" in refusal(["bin/server"])


@posix_only
def test_a_file_that_is_not_executable(tmp_path):
    path = tmp_path / "server.py"
    path.write_text("print()")
    text = refusal([str(path)])
    assert f"{path} is not executable" in text
    assert "chmod +x" in text


@posix_only
def test_a_file_of_that_name_on_the_path_that_is_not_executable(tmp_path):
    (tmp_path / "server").write_text("")
    text = refusal(["server"], env={"PATH": str(tmp_path)})
    assert "make 'server' executable" in text and str(tmp_path) in text


@posix_only
def test_a_script_without_its_interpreter(tmp_path):
    path = tmp_path / "server"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    assert f"the interpreter that the '#!' line of {path} names does not exist" in refusal([str(path)])


def test_a_program_of_another_machine(tmp_path):
    path = tmp_path / "server"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 57)
    path.chmod(0o755)
    assert f"{path} is not a program for this machine" in refusal([str(path)])


def test_nul_in_the_arguments():
    assert "NUL" in refusal([sys.executable, "a\0b"])


@wine_fault("long_arguments")
def test_too_many_arguments():
    assert "too long" in refusal([sys.executable] + ["x" * 100_000] * 100)


def test_an_error_that_has_no_better_explanation_is_passed_on(monkeypatch):
    def fail(*args, **options):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(subprocess, "Popen", fail)
    assert "Cannot allocate memory" in refusal([sys.executable])
    assert "Cannot allocate memory" in refusal(["server"])


@posix_only
def test_our_own_working_directory_may_be_gone(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "there is no file bin/server" in refusal(["bin/server"])


def test_no_descriptors_left(monkeypatch):
    def fail():
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(child, "make_pipe", fail)
    assert "Too many open files" in refusal([sys.executable])


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
