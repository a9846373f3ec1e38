"""Files of configurations, and files of variables.

Placeholders, and inputs of a configuration: what the user is asked.
"""

import json
import os
import re
import socket
import sys
import time

import pytest
from hypothesis import given, strategies as st

import mcplite
from mcplite.client.config import (
    Config,
    ConfigInput,
    Placeholders,
    ServerConfig,
    entry,
    input_values,
    load_config,
    parse,
    read_env_file,
    to_json,
)
from mcplite.errors import TransportError
from tests.support.systems import posix_only


def one(raw, **environ):
    """Load one entry and return it, or raise why it cannot be used."""
    config = load_config({"mcpServers": {"git": raw}}, environ=environ)
    if config.errors:
        raise config.errors["git"]
    return config.servers["git"]


def write(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
    return path


def test_a_file_as_hosts_write_it(tmp_path):
    path = write(tmp_path / "config.json", {"mcpServers": {
        "git": {"command": "uvx", "args": ["mcp-server-git", "--repository", "/repo"], "env": {"TOKEN": "${TOKEN}"}},
        "remote": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    }})
    config = load_config(path, environ={"TOKEN": "t", "HOST": "example.com"})
    assert config.path == str(path)
    assert config.errors == {} and config.warnings == []
    assert config.servers == {
        "git": ServerConfig("git", "stdio", command="uvx", args=["mcp-server-git", "--repository", "/repo"],
                            env={"TOKEN": "t"}),
        "remote": ServerConfig("remote", "http", url="https://example.com/mcp", headers={"Authorization": "Bearer t"}),
    }
    assert config.servers["git"].argv == ["uvx", "mcp-server-git", "--repository", "/repo"]
    assert load_config(str(path), environ={"TOKEN": "t", "HOST": "example.com"}) == config


def test_the_file_of_an_editor_with_comments(tmp_path):
    path = write(tmp_path / ".vscode" / "mcp.json", """\
    {
      // what we use
      "inputs": [{"id": "key", "type": "promptString"}],
      "servers": {
        "files": {"type": "stdio", "command": "node", "args": ["${workspaceFolder}/server.js",],
                  "cwd": "${workspaceFolder}"},
        "asks": {"command": "node", "env": {"KEY": "${input:key}"}},
      },
    }
    """)
    config = load_config(path)
    assert config.servers["files"].argv == ["node", f"{tmp_path}/server.js"]
    assert config.servers["files"].cwd == str(tmp_path)
    assert list(config.servers) == ["files"]
    assert str(config.errors["asks"]).startswith(f"{path}: server 'asks': env.KEY: ${{input:key}} would ask the user")


def test_one_bad_entry_does_not_stop_the_others():
    config = load_config({"mcpServers": {"bad": 5, "good": {"command": "x"}, "worse": {}}})
    assert list(config.servers) == ["good"]
    assert str(config.errors["bad"]) == "the configuration: server 'bad': must be an object, not a number"
    assert list(config.errors) == ["bad", "worse"]


def test_a_missing_variable_names_variable_server_member_and_file(tmp_path):
    path = write(tmp_path / "mcp.json", {"mcpServers": {"git": {"command": "x", "args": ["a", "${NO_SUCH}"]}}})
    error = str(load_config(path, environ={}).errors["git"])
    assert error.startswith(f"{path}: server 'git': args[1]: the environment variable NO_SUCH is not set")


def test_variables_come_from_our_environment_by_default(monkeypatch):
    monkeypatch.setenv("MY_PROGRAM", "/bin/it")
    assert load_config({"mcpServers": {"a": {"command": "${MY_PROGRAM}"}}}).servers["a"].command == "/bin/it"


@pytest.mark.parametrize("named, type", [
    ("stdio", "stdio"), ("STDIO", "stdio"), ("Streamable-HTTP", "http"),
    ("http", "http"), ("streamable-http", "http"), ("streamableHttp", "http"), ("sse", "sse")])
def test_the_type_decides_which_members_count(named, type):
    server = one({"type": named, "command": "x", "args": ["y"], "env": {"A": "b"}, "cwd": "/", "url": "http://h",
                  "headers": {"C": "d"}})
    assert server.type == type
    if type == "stdio":
        assert (server.argv, server.env, server.cwd) == (["x", "y"], {"A": "b"}, "/")
        assert (server.url, server.headers) == (None, {})
    else:
        assert (server.command, server.args, server.env, server.cwd) == (None, [], {}, None)
        assert (server.url, server.headers) == ("http://h", {"C": "d"})


def test_without_a_type_the_members_decide():
    assert one({"command": "x"}).type == "stdio"
    assert one({"url": "https://h"}).type == "http"


@pytest.mark.parametrize("raw, message", [
    ([], "must be an object, not an array"),
    ({}, "needs a 'command' to start, or a 'url'"),
    ({"command": "x", "url": "http://h"}, "both 'command' and 'url'"),
    ({"type": "ftp", "url": "x"}, "'type' is 'ftp'; it can be stdio, http or sse"),
    ({"type": 5, "url": "x"}, "'type' is 5"),
    ({"type": "stdio"}, "'command' is missing"),
    ({"type": "stdio", "url": "http://h"}, "'command' is missing"),
    ({"type": "http"}, "'url' is missing"),
    ({"type": "sse", "command": "x"}, "'url' is missing"),
    ({"command": ""}, "needs a 'command' to start, or a 'url'"),
    ({"command": ["x", "y"]}, "'command' must be a string, not an array"),
    ({"command": "x", "args": "y z"}, "'args' must be an array of strings, not a string"),
    ({"command": "x", "args": ["y", 8080]}, r'args\[1\] must be a string, not a number; write "8080"'),
    ({"command": "x", "args": [None]}, r"args\[0\] must be a string, not null"),
    ({"command": "x", "env": ["A=b"]}, "'env' must be an object of strings, not an array"),
    ({"command": "x", "env": {"A": True}}, "env.A must be a string, not a boolean"),
    ({"command": "x", "env": {"A": {}}}, "env.A must be a string, not an object"),
    ({"command": "x", "cwd": 1.5}, "'cwd' must be a string, not a number"),
    ({"command": "x", "disabled": "no"}, "'disabled' must be true or false, not a string"),
    ({"url": "example.com"}, "'url' must begin with http:// or https://"),
    ({"url": "http://h", "headers": {"A": 1}}, "headers.A must be a string"),
])
def test_entries_that_cannot_be_used(raw, message):
    with pytest.raises(TransportError, match=message):
        one(raw)


def test_disabled_and_enabled():
    assert one({"command": "x", "disabled": True}).disabled
    assert one({"command": "x", "enabled": False}).disabled
    assert not one({"command": "x", "enabled": True, "disabled": False}).disabled
    assert not one({"command": "x", "enabled": None, "disabled": None}).disabled


@pytest.mark.parametrize("raw", [
    {"command": "x", "args": ["${NO_SUCH}"]}, {"command": "${NO_SUCH}"}, {"command": "x", "env": {"A": "${NO_SUCH}"}},
    {"command": "x", "envFile": "/no/such/file"}, {"command": "x", "args": ["${input:key}"]},
    {"url": "https://h", "headers": {"A": "Bearer ${NO_SUCH}"}}, {"command": "x", "cwd": "${workspaceFolder}"},
])
def test_a_disabled_entry_needs_no_variables(raw):
    for flag in ({"disabled": True}, {"enabled": False}):
        assert one({**raw, **flag}).disabled


@pytest.mark.parametrize("member", ["type", "args", "env", "cwd", "url", "headers", "envFile", "disabled", "enabled", "inputs"])
def test_a_member_that_is_null_is_absent(member):
    server = one({"command": "x", member: None})
    assert (server.argv, server.type, server.env, server.cwd) == (["x"], "stdio", {}, None)
    assert not server.disabled and server.extra == {}


def test_members_that_are_empty_are_absent():
    empty = one({"command": "x", "type": "", "args": [], "env": {}, "cwd": "", "url": "", "headers": {}, "envFile": ""})
    assert (empty.argv, empty.type, empty.env, empty.cwd, empty.url) == (["x"], "stdio", {}, None, None)
    remote = one({"url": "https://h", "command": "", "headers": {"A": None, "B": "b"}})
    assert (remote.type, remote.headers) == ("http", {"B": "b"})
    assert one({"command": "x", "env": {"A": None, "B": "b"}}).env == {"B": "b"}


@pytest.mark.parametrize("document, names", [
    ({"mcpServers": None, "servers": {"a": {"command": "x"}}}, ["a"]), ({"mcpServers": None}, []), ({"servers": None}, []),
    ({"mcpServers": {}}, []), ({"mcpServers": {"a": {"command": "x"}}, "inputs": None}, ["a"]),
])
def test_lists_of_servers_that_are_null_or_empty(document, names):
    assert list(load_config(document).servers) == names


def test_unknown_members_are_kept():
    assert one({"command": "x", "autoApprove": ["y"]}).extra == {"autoApprove": ["y"]}


def test_secrets_are_not_in_the_repr():
    server = one({"command": "x", "env": {"KEY": "s3cret"}, "other": "s3cret"})
    assert "s3cret" not in repr(server) + str(server)


def test_a_server_is_shown_with_its_exact_command():
    assert str(one({"command": "/bin/x", "args": ["a b", "$(c)"]})) == "git: /bin/x 'a b' '$(c)'"
    assert str(one({"url": "https://h/mcp"})) == "git: https://h/mcp"
    sent = one({"url": "https://h/mcp", "headers": {"X-Key": "${SECRET}", "Authorization": "Bearer s3cret"}}, SECRET="s3cret")
    assert str(sent) == "git: https://h/mcp (with the headers X-Key, Authorization)"


@pytest.mark.parametrize("raw, warning", [
    ({"command": "./bin/x"}, "command './bin/x' is a relative path"),
    ({"command": "x", "cwd": "sub"}, "cwd 'sub' is a relative path"),
    ({"command": "python", "args": ["server.py"]}, "argument 'server.py' looks like a relative path"),
    ({"command": "uv", "args": ["--directory", "sub", "run", "server.py"]}, "argument 'server.py' looks like a relative path"),
    ({"command": "uv", "args": ["--project", "/srv", "run", "server.py"]}, "argument 'server.py' looks like a relative path"),
    ({"command": "npx -y thing"}, "has spaces and is taken for one program"),
])
def test_warnings(raw, warning):
    (found,) = one(raw).warnings
    assert warning in found


@pytest.mark.parametrize("raw", [
    {"command": "npx", "args": ["-y", "@scope/server"]},
    {"command": "/usr/bin/python", "args": ["/srv/server.py", "--config=x.js"]},
    {"command": "python", "args": ["server.py"], "cwd": "/srv"},
    {"command": "/opt/my tools/x"},
    {"command": "uv", "args": ["--directory", "/srv/weather", "run", "weather.py"]},
    {"command": "uv", "args": ["--directory=/srv/weather", "run", "weather.py"]},
    {"command": "bun", "args": ["--cwd", "/srv", "index.ts"]},
])
def test_no_warnings(raw):
    assert one(raw).warnings == []


def test_duplicate_names_are_warned_about(tmp_path):
    path = write(tmp_path / "mcp.json", '{"mcpServers": {"git": {"command": "a"}, "git": {"command": "b"}}}')
    config = load_config(path)
    assert config.servers["git"].command == "b"
    assert config.warnings == [f"{path}: 'git' is there twice; the last one counts"]


def test_a_config_is_returned_as_it_is():
    config = Config()
    assert load_config(config) is config


def test_a_file_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TransportError, match=re.escape(f"there is no configuration file {tmp_path / 'mcp.json'}")):
        load_config("mcp.json")


def test_the_home_directory_may_be_abbreviated(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write(tmp_path / "mcp.json", {"mcpServers": {}})
    assert load_config("~/mcp.json").path == str(tmp_path / "mcp.json")


def test_a_file_is_utf8_and_may_have_a_byte_order_mark(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_bytes(b'\xef\xbb\xbf{"mcpServers": {}}')
    assert load_config(path).servers == {}
    path.write_bytes(b'{"mcpServers"\xff')
    with pytest.raises(TransportError, match="not UTF-8"):
        load_config(path)


@pytest.mark.parametrize("text, message", [
    ('{"mcpServers": {\n  "git": {"command" "x"}}}', "line 2 column 21 is not JSON"),
    ("[]", 'must be an object such as {"mcpServers": {...}}, not an array'),
    ('{"git": {"command": "x"}}', "has neither 'mcpServers' nor 'servers'; it has 'git'"),
    ("{}", "it has nothing"),
    ('{"mcpServers": []}', "'mcpServers' must be an object of servers by name, not an array"),
])
def test_files_that_cannot_be_used(tmp_path, text, message):
    path = write(tmp_path / "mcp.json", text)
    with pytest.raises(TransportError) as caught:
        load_config(path)
    assert str(caught.value).startswith(str(path)) and message in str(caught.value)


def test_an_entry_for_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert entry("weather.py", ["--fast"], env={"KEY": "k"}, cwd="data") == {
        "command": sys.executable, "args": [str(tmp_path / "weather.py"), "--fast"], "env": {"KEY": "k"},
        "cwd": str(tmp_path / "data")}


@pytest.mark.parametrize("end, program", [("mcp.run()", []), ("if __name__ == '__main__':\n    mcp.run()", []),
                                          ("", ["-m", f"{mcplite.__name__}.server"])])
def test_an_entry_for_a_file_starts_a_server_as_connect_does(tmp_path, end, program):
    file = tmp_path / "weather.py"
    file.write_text(f"import mcplite\nmcp = mcplite.Server('weather')\n{end}\n")
    assert entry(str(file))["args"] == [*program, str(file)]
    if program:  # the others serve as soon as they run
        with mcplite.connect([entry(str(file))["command"], *entry(str(file))["args"]]) as client:
            assert client.server_info.name == "weather"


def test_an_entry_for_an_object_in_a_module_or_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package = mcplite.__name__
    assert entry("weather:mcp") == {"command": sys.executable, "args": ["-m", f"{package}.server", "weather:mcp"]}
    assert entry("weather")["args"] == ["-m", f"{package}.server", "weather"]
    assert entry("weather.py:mcp")["args"] == ["-m", f"{package}.server", f"{tmp_path / 'weather.py'}:mcp"]


def test_an_entry_for_a_url():
    assert entry("https://h/mcp", headers={"A": "b"}) == {"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}}
    assert entry("http://h/mcp") == {"type": "http", "url": "http://h/mcp"}


@pytest.mark.parametrize("made", [entry("weather.py"), entry("weather:mcp", env={"A": "b"}), entry("https://h/mcp")])
def test_entries_can_be_written_and_loaded(made):
    config = load_config(json.loads(json.dumps({"mcpServers": {"weather": made}})), environ={})
    assert config.errors == {}
    server = config.servers["weather"]
    assert server.warnings == []
    assert server.url == made.get("url")
    assert server.env == made.get("env", {})
    assert server.command is None or os.path.isabs(server.command)


def test_variables_of_a_file_count_behind_those_of_the_entry(tmp_path):
    (tmp_path / "secrets.env").write_text("A=1\nB=2\n")
    entries = {name: {"command": "x", "envFile": path, "env": {"B": "own"}} for name, path in (
        ("relative", "secrets.env"), ("filled", "${workspaceFolder}/secrets.env"), ("missing", "no.env"))}
    config = load_config(write(tmp_path / "mcp.json", {"servers": entries}))
    assert [config.servers[name].env for name in ("relative", "filled")] == 2 * [{"A": "1", "B": "own"}]
    assert config.servers["filled"].warnings == [] and config.servers["filled"].extra == {}
    assert str(config.errors["missing"]).endswith(f"server 'missing': 'envFile': there is no file {tmp_path / 'no.env'}")


def test_inputs_are_asked_for_once_and_only_for_the_entries_that_are_read():
    asked = []
    document = {"inputs": [{"id": "key"}, {"id": "unused"}],
                "servers": {"a": {"command": "${input:key}", "args": ["${input:key}"]}, "b": {"command": "${input:unused}"}}}
    config = load_config(document, ask=lambda one: asked.append(one.id) or "value", names=["a"])
    assert asked == ["key"] and list(config.servers) == ["a"] and not config.errors
    assert config.servers["a"].argv == ["value", "value"]


def value(text):
    return parse(text, "settings.json")[0]


@pytest.mark.parametrize("text", [
    "[,]", "{,}", "[1,,]", "[1,,2]", '{"a":,}', "[1] /* open", "/", "// only", ",", "", '["a', "[1],", "{// x\n,}",
])
def test_other_errors_stay_errors(text):
    with pytest.raises(TransportError, match="settings.json: line"):
        value(text)


def test_errors_name_the_position_in_the_original_file():
    with pytest.raises(TransportError, match=r"settings.json: line 3 column 7 is not JSON: Expecting ',' delimiter"):
        value('{ // comment\n "a": [1,], /* x */\n"b":2 "c"}')


def test_duplicate_names_are_returned():
    assert parse('{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}', "x") == ({"a": 3, "b": {"c": 2}}, ["c", "a"])


def test_deep_nesting_is_an_error():
    with pytest.raises(TransportError):
        value("[" * 200_000)


@pytest.mark.parametrize("piece", ["/*", '\\"', "*/*", "/", '"', "/*/"])
@pytest.mark.slow
def test_text_without_an_end_takes_linear_time(piece):
    def seconds(count):
        begun = time.process_time()
        to_json('{"a": "' + piece * count)
        to_json('{"a": /*' + piece * count)
        return time.process_time() - begun

    short = min(seconds(5_000) for _ in range(3))
    # Forty times the text: forty times the time, and not 1,600 times. Windows counts the time in steps of 16 milliseconds.
    assert seconds(200_000) < max(short, 0.016) * 400


@pytest.mark.parametrize("text", ["{} /*", "/*", "{} /*/", "{} /* *", '{} "', '{"a": "\\'])
def test_what_has_no_end_stays_invalid(text):
    assert to_json(text) == text
    with pytest.raises(TransportError, match="^settings[.]json: line [12] column"):
        value(text)


@pytest.mark.parametrize("number", ["9" * 5_000, "-" + "9" * 5_000])
def test_a_number_that_is_too_long_is_an_error_of_the_file(number):
    with pytest.raises(TransportError, match="^settings[.]json is not usable JSON: an integer has more than 4300 digits"):
        value('{"a": ' + number + "}")


def test_many_duplicate_names_take_linear_time():
    names = [f'"n{number % 50_000}": 0' for number in range(100_000)]
    assert len(parse("{" + ", ".join(names) + "}", "x")[1]) == 50_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\/*,]}[{:\n ')),
    lambda inner: (st.lists(inner, max_size=4)
                   | st.dictionaries(st.text(st.sampled_from('a/*,"]'), max_size=3), inner, max_size=4)),
    max_leaves=12)


@given(JSON, st.sampled_from([None, 1]))
def test_plain_json_is_left_as_it_is(document, indent):
    text = json.dumps(document, indent=indent)
    assert to_json(text) == text


def spoilt(document, noise):
    """Write a document with comments between all tokens and with trailing commas."""
    if isinstance(document, list):
        return "[" + noise + "".join(spoilt(item, noise) + noise + "," + noise for item in document) + "]"
    if isinstance(document, dict):
        return "{" + noise + "".join(json.dumps(name) + noise + ":" + noise + spoilt(item, noise) + noise + "," + noise
                                     for name, item in document.items()) + "}"
    return json.dumps(document)


@given(JSON, st.sampled_from(["", " ", "/* , ] \" */", "// } \"\n", "/**/\n", "/* // */"]))
def test_comments_and_trailing_commas_anywhere(document, noise):
    text = noise + spoilt(document, noise) + noise
    assert value(text) == document
    assert len(to_json(text)) == len(text)


def test_lines_that_are_understood(tmp_path):
    (tmp_path / "e").write_text("""\
# a comment

A=1
 export B = two words  # a comment
C='single # \\n'
D="double \\"quoted\\"\\nline" # a comment
E=
F=a#b=c
G=first
G=second
""", encoding="utf-8")
    assert read_env_file(str(tmp_path / "e")) == {
        "A": "1", "B": "two words", "C": "single # \\n", "D": 'double "quoted"\nline', "E": "", "F": "a#b=c", "G": "second"}


@pytest.mark.parametrize("text, problem", [
    ("A=1\nhush", "line 2: write NAME=value"), ("A='hush", "line 1: the quote does not end"),
    ('A="hush" b', "line 1: the quote"),
])
def test_other_lines_are_errors_without_their_text(tmp_path, text, problem):
    (tmp_path / "e").write_text(text)
    with pytest.raises(TransportError, match=problem) as caught:
        read_env_file(str(tmp_path / "e"))
    assert "hush" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "e").write_bytes(b"A=\xff")
    for path, problem in ((tmp_path / "none", "there is no file"), (tmp_path, "cannot read|Permission"),
                          (tmp_path / "e", "UTF-8")):
        with pytest.raises(TransportError, match=problem):
            read_env_file(str(path))


@posix_only
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "pipe", "socket"])
def test_a_configuration_is_in_a_regular_file(path, tmp_path):
    if path == "pipe":
        os.mkfifo(tmp_path / path)
    elif path == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(tmp_path / path))
    for read in (read_env_file, load_config):
        with pytest.raises(TransportError, match="regular file|cannot read the .*file"):
            read(str(tmp_path / path))  # an absolute path stays as it is


def test_a_file_that_is_too_large(tmp_path):
    with open(tmp_path / "e", "wb") as file:
        file.truncate((16 << 20) + 1)
    with pytest.raises(TransportError, match="larger than 16 MiB"):
        read_env_file(str(tmp_path / "e"))


@posix_only
def test_a_link_to_a_file_is_followed(tmp_path):
    (tmp_path / "e").write_text("A=b")
    (tmp_path / "link").symlink_to(tmp_path / "e")
    assert read_env_file(str(tmp_path / "link")) == {"A": "b"}


ENVIRON = {"TOKEN": "t0k", "EMPTY": "", "ProgramFiles(x86)": "C:\\P", "NESTED": "${TOKEN}"}


@pytest.mark.parametrize("text, expected", [
    ("plain", "plain"), ("${TOKEN}", "t0k"), ("Bearer ${TOKEN}!${TOKEN}", "Bearer t0k!t0k"), ("${env:TOKEN}", "t0k"),
    ("${env:ProgramFiles(x86)}", "C:\\P"), ("${EMPTY}", ""), ("${EMPTY:-other}", "other"), ("${MISSING:-other:-x}", "other:-x"),
    ("${MISSING:-}", ""), ("${TOKEN:-other}", "t0k"), ("${NESTED}", "${TOKEN}"), ("${workspaceFolder}/x", "/work space/x"),
    ("${userHome}/x", os.path.expanduser("~") + "/x"), ("$TOKEN $$ $ {TOKEN} ${", "$TOKEN $$ $ {TOKEN} ${"),
    ("${env:MISSING:-x}", "x"), ("${MISSING:-${TOKEN}}", "t0k"), ("${MISSING:-a${ALSO_MISSING:-b${TOKEN}c}d}e", "abt0kcde"),
    ("${MISSING:-${EMPTY:-${env:TOKEN}}}/${TOKEN}", "t0k/t0k"), ("${TOKEN:-${NO_SUCH_VARIABLE}}", "t0k"),
    ("${MISSING:-${NESTED}}", "${TOKEN}"), ('${MISSING:-{"a": {"b": 1}}}', '{"a": {"b": 1}}'),
    ("${MISSING:-${userHome}}", os.path.expanduser("~")), ("${{ secrets.TOKEN }} ${TOKEN}", "${{ secrets.TOKEN }} t0k"),
    ("} ${TOKEN} {", "} t0k {"), ("${ without end, ${TOKEN}", "${ without end, t0k"),
    ("${workspaceFolderBasename}${pathSeparator}${/}", f"work space{os.sep}{os.sep}"),
])
def test_placeholders_are_replaced(text, expected):
    assert Placeholders(ENVIRON, "/work space").fill(text) == expected


@pytest.mark.parametrize("text, message", [
    ("${MISSING}", "variable MISSING is not set"),
    ("${env:MISSING}", "variable MISSING is not set"),
    ("${input:key}", r"\$\{input:key\} would ask the user"),
    ("${command:x}", r"\$\{command:x\} is not supported"),
    ("${}", r"\$\{\} is not supported"),
    ("${a b}", "is not supported"),
    ("${workspaceFolder}", "not in a file"),
    ("${MISSING:-${ALSO_MISSING}}", "variable ALSO_MISSING is not set"),
    ("${A:-" * 50 + "x" + "}" * 50, "more than 20 defaults"),
])
def test_unsupported_placeholders_are_errors(text, message):
    with pytest.raises(TransportError, match=message):
        Placeholders(ENVIRON, None).fill(text)


@pytest.mark.parametrize("piece", ["${", "${A", "{", "}", "${{", "$"])
def test_braces_without_an_end_take_linear_time(piece):
    text = piece * 200_000
    assert Placeholders(ENVIRON, None).fill(text) == text


def test_inputs_with_all_their_members():
    asked = []
    values = input_values({"inputs": [
        5, {"id": "key", "type": "promptString", "description": "The key", "password": True, "default": "d"},
        {"id": "pick", "type": "pickString", "options": ["a", {"value": "b", "label": "B"}]}]},
        lambda one: asked.append(one) or "x")
    assert [values(name) for name in ("key", "pick", "key")] == ["x", "x", "x"]
    assert asked == [ConfigInput("key", "The key", True, "d"), ConfigInput("pick", options=[("a", "a"), ("b", "B")])]


@pytest.mark.parametrize("document, problem", [
    ({}, "no entry with the id 'key'"), ([], "no entry"), ({"inputs": {}}, "no entry"), ({"inputs": [{"id": "x"}]}, "no entry"),
    ({"inputs": [{"id": "key", "type": "command"}]}, "type 'command' works in an editor only"),
])
def test_inputs_that_cannot_be_asked_for(document, problem):
    with pytest.raises(TransportError, match=problem):
        input_values(document, lambda one: "x")("key")
