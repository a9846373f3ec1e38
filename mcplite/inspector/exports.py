"""What is recorded, for elsewhere: a request as ``curl``, as Python, as a test for pytest; messages as a cassette.

All of them contain texts of a server, so each text is quoted for its language, by ``shlex``, ``pprint`` or JSON. Secrets in
HTTP heads were masked when the heads were recorded; a command or program gets the environment variable ``TOKEN`` in their
place.
"""

import json
import pprint
import re
import shlex
import time
from typing import Any, Dict, List, Optional, Tuple

from ..testing.recording import head_line, message_line, revision_in
from .inspected_server import InspectedServer
from .page_questions import InspectorError
from .traffic import Message, Traffic

__all__ = ["export", "record_of_server"]

#: Headers that curl sets itself, in lower case.
_OWN_HEADERS = frozenset({"content-length", "connection", "accept-encoding", "user-agent", "host"})
_MASK = "***"
_SENDERS = {"->": "client", "<-": "server"}
#: Members of ``_meta`` that the client sets in each request.
_ENVELOPE = ("io.modelcontextprotocol/", "progressToken")


def export(traffic: Traffic, servers: Dict[str, InspectedServer], number: int, form: str) -> Tuple[str, str]:
    """Return a file name and the text of a message in another form.

    :param number: of the message. If this is an answer, its request is exported.
    :param form: "curl", "python", "pytest" or "cassette".
    :raises InspectorError: the message is not kept any more, or has no such form.
    """
    message = traffic.find(number)
    if message is not None and message.answers is not None:
        message = traffic.find(message.answers)
    if message is None:
        raise InspectorError(f"message {number}, or the request that it answers, is not kept any more", 404)
    server = servers[message.server]
    around = [one for one in traffic.messages(message.server) if one.connection == message.connection]
    if form == "cassette":
        return f"{_file_name(message)}.jsonl", _cassette(server, _exchange(message, around))
    if form not in ("curl", "python", "pytest"):
        raise InspectorError(f"there is no form {form[:50]!r}; there are curl, python, pytest and cassette")
    if message.kind != "request" or message.direction != "->":
        raise InspectorError("choose a request of the client, or an answer to one: only these can be repeated")
    if form == "curl":
        return f"{_file_name(message)}.sh", _curl(message, server, around)
    return (f"{_file_name(message)}.py", _python(message, server, around)) if form == "python" else (
        f"test_{_file_name(message)}.py", _pytest(message, server, around))


def record_of_server(traffic: Traffic, server: InspectedServer) -> str:
    """Return the messages of a server that are kept, as a cassette."""
    return _cassette(server, traffic.messages(server.name))


# --- cassettes -------------------------------------------------------------------------------------------------


def _cassette(server: InspectedServer, messages: List[Message]) -> str:
    values = [(message, _value(message)) for message in messages]
    revision = _revision([value for _, value in values])
    began = messages[0].time if messages else time.time()
    recorded = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    connections: Dict[int, int] = {}
    lines = [head_line(server.target_text, revision, recorded)]
    for message, value in values:
        connection = connections.setdefault(message.connection, len(connections) + 1)
        lines.append(message_line(max(0.0, message.time - began), _SENDERS[message.direction], value, connection))
    return "".join(lines)


def _revision(values: List[Any]) -> Optional[str]:
    """Return the last revision that a message names: a connection may begin with one that the server does not have."""
    return next(filter(None, map(revision_in, reversed(values))), None)


def _exchange(message: Message, around: List[Message]) -> List[Message]:
    """Return the messages that open a connection, a message, its answer, and those in between.

    Other requests of the client, and their answers, are left out.
    """
    answer = next((one for one in around if one.answers == message.number), None)
    end = message.number if answer is None else answer.number
    opening = [one for one in around if one.number < message.number
               and one.method in ("initialize", "server/discover", "notifications/initialized")]
    others = {one.number for one in around if one.kind == "request" and one.direction == "->"} - {message.number}
    between = [one for one in around if message.number <= one.number <= end
               and one.number not in others and one.answers not in others]
    return opening + between


def _value(message: Message) -> Any:
    """Return the JSON value of a message; its text if it is not JSON."""
    text = message.raw.decode("utf-8", "backslashreplace")
    return text if message.kind == "invalid" else json.loads(text)


# --- requests --------------------------------------------------------------------------------------------------


def _curl(message: Message, server: InspectedServer, around: List[Message]) -> str:
    body = message.raw.decode("utf-8")
    if message.http is None:
        if server.argv is None:
            raise InspectorError("only a message over HTTP, or to a process, can be repeated in a shell")
        # Without HTTP the messages are lines on stdin. The "sleep" behind the last one keeps stdin open until the answer comes.
        opening = [_one_line(one) for one in _exchange(message, around)
                   if one.number < message.number and one.direction == "->" and one.method != "server/discover"]
        lines = " ".join(shlex.quote(line) for line in [*opening, json.dumps(json.loads(body), ensure_ascii=False)])
        return f"# Not over HTTP: the messages are lines on stdin of the process.\n(printf '%s\\n' {lines}; sleep 2) |" \
               f" {shlex.join(server.argv)}\n"
    request = message.http["request"]
    parts = [f"curl --no-buffer -X {shlex.quote(request['method'])} {_quoted(request['url'])}"]
    parts += [f"-H {_quoted(f'{name}: {value}')}" for name, value in request["headers"].items()
              if name.lower() not in _OWN_HEADERS]
    return " \\\n  ".join([*parts, f"--data-binary {shlex.quote(body)}"]) + "\n"


def _quoted(text: str) -> str:
    """Return a word of a shell, with the variable TOKEN in place of each mask."""
    pieces = [shlex.quote(piece) if piece else "" for piece in text.split(_MASK)]
    return '"$TOKEN"'.join(pieces)


def _one_line(message: Message) -> str:
    return json.dumps(_value(message), ensure_ascii=False)


def _call(message: Message, server: InspectedServer, around: List[Message]) -> List[str]:
    """Return the lines that connect and send a request, as Python; ``result`` is what it returns."""
    value = _value(message)
    params = _own_params(value.get("params"))
    revision = _revision([_value(one) for one in around])
    options = [] if revision is None else [f"revision={revision!r}"]
    headers = {} if message.http is None else message.http["request"]["headers"]
    if any(name.lower() == "authorization" for name in headers):
        options.append('auth=os.environ["TOKEN"]')
    connect = ", ".join([_target(server), *options])
    given = f"client.request({message.method!r}"
    if params is not None:
        given += f", {_literal(params, 8)}"
    return [f"with mcplite.connect({connect}) as client:", f"    result = {given})"]


def _python(message: Message, server: InspectedServer, around: List[Message]) -> str:
    lines = _call(message, server, around)
    return "\n".join([*_imports(lines), "", *lines, "print(result)", ""])


def _pytest(message: Message, server: InspectedServer, around: List[Message]) -> str:
    answer = next((one for one in around if one.answers == message.number), None)
    lines, check = _call(message, server, around), "    assert isinstance(result, dict)"
    imports = _imports(lines)
    if answer is not None and answer.kind == "response":
        found = _value(answer)["result"]
        check = f"    assert result == {_literal(found, 21)}"
    elif answer is not None:
        imports = [*imports, "import pytest", ""]
        code = _value(answer)["error"].get("code")
        lines[1] = "    " + lines[1].replace("result = ", "", 1)
        lines.insert(1, "    with pytest.raises(mcplite.RemoteError) as raised:")
        check = f"    assert raised.value.code == {code!r}"
    name = re.sub(r"\W+", "_", _file_name(message))
    return "\n".join([*imports, "", f"def test_{name}():", *(f"    {line}" for line in lines), check, ""])


def _imports(lines: List[str]) -> List[str]:
    return [*(["import os", ""] if any("os.environ" in line for line in lines) else []), "import mcplite", ""]


def _literal(value: Any, indent: int) -> str:
    """Return a value as Python, on as many lines as it needs."""
    return pprint.pformat(value, width=100, sort_dicts=False).replace("\n", "\n" + " " * indent)


def _own_params(params: Any) -> Optional[Dict[str, Any]]:
    """Return params without the members that the client adds itself; None if none are left."""
    if not isinstance(params, dict):
        return None
    meta = params.get("_meta")
    kept = {name: value for name, value in (meta if isinstance(meta, dict) else {}).items() if not name.startswith(_ENVELOPE)}
    rest = {name: value for name, value in params.items() if name != "_meta"}
    return {**rest, "_meta": kept} if kept else rest or None


def _target(server: InspectedServer) -> str:
    if server.argv is None and server.url is None:
        raise InspectorError("a server in this process cannot be named in a program")
    return repr(server.target if isinstance(server.target, str) and server.url is None else server.argv or server.target_text)


def _file_name(message: Message) -> str:
    """Return a name for the file of a request, made of what it asks for, in characters that are valid on each system."""
    value = _value(message)
    params = value.get("params") if isinstance(value, dict) else None
    params = params if isinstance(params, dict) else {}
    what = params.get("name") or params.get("uri") or message.method or message.kind
    return re.sub(r"[^A-Za-z0-9]+", "_", str(what))[:60].strip("_").lower() or "message"
