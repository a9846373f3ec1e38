"""Cassettes: recorded sessions that are replayed as a server, for tests and demonstrations without the real one.

``connect(Cassette("shop.jsonl"))`` connects to one in this process, ``mcplite replay shop.jsonl`` serves it. A request is found
by its method and params; ids, tokens, the trace context and the client's description are not compared. If a request was
recorded several times, its answers are sent in their order, and then the last one again and again. Notifications and questions
of the server are sent where they were recorded: before the answer to the request that was open, or after the message of the
client that they followed::

    recorded   -> tools/call 7        <- progress  <- elicitation 1  -> answer 1   <- result 7
    replayed   -> tools/call 2        <- progress  <- elicitation 1  -> answer 1   <- result 2
                  (this is on the cassette)              (the answer is compared with the recorded one)

A request that is not on the cassette gets an error that names the nearest one that is. :mod:`.recording` writes the files.
"""

import json
import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ..errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    ConnectionClosed,
    ProtocolError,
    TransportError,
)
from ..protocol.error_text import abridged
from ..revisions import find_revision
from ..rpc.interfaces import Channel
from ..rpc.threads import start_thread
from ..rpc.tracing import get_logger, masked

__all__ = ["Cassette", "Difference", "differences"]

_log = get_logger(__name__)
_META = "io.modelcontextprotocol/"
#: Members of ``_meta`` that differ from one run to the next, besides those whose names begin with ``_META``.
_PASSING = frozenset({"progressToken", "traceparent", "tracestate", "baggage"})
#: Requests that are found by their method alone: their params describe the client.
_OPENING = frozenset({"initialize", "server/discover"})
#: Questions whose answers differ from machine to machine, so that they are not compared.
_LOCAL = frozenset({"roots/list", "ping"})
#: By method of a list: the member of its result with the entries, the method that uses an entry, and the member of that
#: method's params that names the entry.
_LISTS = {"tools/list": ("tools", "tools/call", "name"), "resources/list": ("resources", "resources/read", "uri"),
          "prompts/list": ("prompts", "prompts/get", "name"), "resources/templates/list": ("resourceTemplates", "", "")}
#: Differences that an error names.
_MOST_NAMED = 3


class Difference(NamedTuple):
    """One place at which two values of JSON differ, such as ``arguments.city``; a side that lacks it has None."""

    place: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.place} is {abridged(self.before)} on the cassette, and {abridged(self.after)} here"


def differences(before: Any, after: Any, place: str = "") -> Iterator[Difference]:
    """Yield the places at which two values of JSON differ, the innermost ones."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            yield from differences(before.get(name), after.get(name), f"{place}.{name}" if place else str(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (left, right) in enumerate(zip(before, after)):
            yield from differences(left, right, f"{place}[{number}]")
    elif before != after or isinstance(before, bool) != isinstance(after, bool):
        yield Difference(place or "it", before, after)


class _Step(NamedTuple):
    """A message of the server: its kind is "answer", "notification" or "question"."""

    kind: str
    message: Dict[str, Any]


class _Exchange:
    """One recorded message of the client, and the messages of the server that belong to it."""

    def __init__(self, message: Dict[str, Any]) -> None:
        self.method = str(message.get("method"))
        self.params = _comparable(self.method, message.get("params"))
        self.id, self.token = message.get("id"), _token(message)
        self.steps: List[_Step] = []
        #: The client's answers to the questions among the steps, by their ids.
        self.answers: Dict[str, Dict[str, Any]] = {}
        self.answered = self.cancelled = False

    @property
    def lasting(self) -> bool:
        return self.method == "subscriptions/listen"


class Cassette:
    """A recorded session; :class:`CassetteWriter` writes one. It is a target of :func:`connect`, any number of times.

    :param path: of the file.
    :param complete: whether requests for lists and for subscriptions that were not recorded are answered: a list has the tools,
        resources or prompts that were used, and a subscription gets no changes. A bridge needs both. By default such a request
        gets an error.
    :raises ValueError: the file is no cassette, or a newer one than this version reads. If a line is wrong, the text names it.
    :raises OSError: the file cannot be read.
    """

    def __init__(self, path: "Union[str, os.PathLike[str]]", *, complete: bool = False) -> None:
        self.path = os.fspath(path)
        #: Whether lists and subscriptions that were not recorded are answered.
        self.complete = complete
        self.name = f"the cassette {os.path.basename(self.path)}"
        with open(self.path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        head = _parsed(lines[0], 1, self.path)
        if head.get("mcplite") != "cassette":
            raise ValueError(f"{self.path} is no cassette: its first line must begin with {{\"mcplite\": \"cassette\"")
        if head.get("version") != 1:
            raise ValueError(f"{self.path} has the version {head.get('version')!r} of cassettes, and this program reads 1")
        #: What was recorded, as its user wrote it.
        self.target = str(head.get("target", ""))
        #: The revision of the recorded session; None if none was agreed on.
        self.revision: Optional[str] = head.get("revision")
        #: When it was recorded, in ISO 8601.
        self.recorded = str(head.get("recorded", ""))
        self._first: List[_Step] = []
        #: By method, and then by params as text, in the order of the recording.
        self._exchanges: Dict[str, Dict[str, List[_Exchange]]] = {}
        self._read(_parsed(line, number, self.path) for number, line in enumerate(lines[1:], 2) if line.strip())

    def __repr__(self) -> str:
        return f"<Cassette {self.path} of {self.target}>"

    @property
    def messages(self) -> Iterator[Dict[str, Any]]:
        """The recorded requests and notifications of the client with what followed them, as method, params and steps."""
        for found in self._exchanges.values():
            for exchanges in found.values():
                for one in exchanges:
                    yield {"method": one.method, "params": one.params, "server": [step.message for step in one.steps]}

    def serve_channel(self, channel: Channel) -> None:
        """Replay to one client on a thread of its own, which ends with the channel; ``connect(cassette)`` calls this."""
        start_thread(lambda: self.serve(channel), f"mcplite {self.name}")

    def serve(self, channel: Channel) -> None:
        """Replay to one client until it disconnects, on this thread; each client begins at the beginning."""
        try:
            _Player(self, channel).run()
        finally:
            channel.close()

    # --- the file --------------------------------------------------------------------------------------

    def _read(self, lines: Iterator[Dict[str, Any]]) -> None:
        sessions: Dict[str, _Assembly] = {}
        for line in lines:
            session = sessions.setdefault(_text(line.get("connection", 1)), _Assembly(self._first, self._add))
            message = line.get("message")
            for one in message if isinstance(message, list) else [message]:  # a batch
                if isinstance(one, dict):
                    session.take(str(line.get("from")), one)

    def _add(self, exchange: _Exchange) -> None:
        known = self._exchanges.setdefault(exchange.method, {})
        known.setdefault(_text(exchange.params), []).append(exchange)

    # --- what the player asks ---------------------------------------------------------------------------

    @property
    def first(self) -> List[_Step]:
        """What the server sent before the first message of the client."""
        return self._first

    def find(self, method: str, params: Any) -> List[_Exchange]:
        """Return the recorded messages of this method and these params; empty if there is none."""
        return self._exchanges.get(method, {}).get(_text(_comparable(method, params)), [])

    def listed(self, method: str) -> Optional[Dict[str, Any]]:
        """Return the result of a list that was not recorded; None if there is none."""
        if not self.complete or method not in _LISTS:
            return None
        member, used, key = _LISTS[method]
        exchanges = [one for found in self._exchanges.get(used, {}).values() for one in found]
        names = dict.fromkeys(one.params[key] for one in exchanges if isinstance(one.params.get(key), str))
        entries = [{"name": name, **({"inputSchema": {"type": "object"}} if member == "tools" else {"uri": name} if key == "uri"
                                     else {})} for name in names]
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self._is_modern() else {}
        return {member: entries, **more}

    def missing(self, method: str, params: Any) -> Dict[str, Any]:
        """Return the error for a request that is not on the cassette."""
        if method == "initialize" and self._is_modern():
            return {"code": UNSUPPORTED_VERSION, "data": {"supported": [self.revision]}, "message":
                    f"{self.name} was recorded in {self.revision}, which has no handshake: connect in that revision"}
        recorded = [one for found in self._exchanges.get(method, {}).values() for one in found]
        if not recorded:
            names = ", ".join(self._exchanges) or "nothing"
            return {"code": METHOD_NOT_FOUND, "message": f"record {method} as well: {self.name} has {names}"}
        wanted = _comparable(method, params)
        # The one about the entry of this name comes first, then the one with the fewest differences.
        nearest = min(recorded, key=lambda one: (_subject(one.params) != _subject(wanted),
                                                 len(list(differences(one.params, wanted)))))
        found = list(differences(nearest.params, wanted))
        named = "; ".join(map(str, found[:_MOST_NAMED])) + ("; ..." if len(found) > _MOST_NAMED else "")
        named = named or "a member that is null on one side is absent on the other, or a number is written otherwise (1, 1.0)"
        subject = _subject(nearest.params)
        return {"code": INVALID_PARAMS, "data": {"nearest": nearest.params}, "message":
                f"record it again: {self.name} has no {method} with these params; in the nearest"
                f"{f', of {subject}' if subject else ''}: {named}"}

    def _is_modern(self) -> bool:
        found = find_revision(self.revision)
        return found is not None and found.modern


class _Assembly:
    """Makes exchanges of the messages of one connection.

    :param first: gets what the server sends before the first message of the client.
    :param add: called with the exchange of each request and notification of the client, but not of a cancellation.
    """

    def __init__(self, first: List[_Step], add: Callable[[_Exchange], object]) -> None:
        self._first, self._add = first, add
        self._open: Dict[str, _Exchange] = {}
        self._last: Optional[_Exchange] = None
        #: By the id of a question of the server that is not answered yet: the exchange with this question.
        self._asked: Dict[str, _Exchange] = {}

    def take(self, sender: str, message: Dict[str, Any]) -> None:
        """Take the next message.

        :param sender: "client" or "server".
        """
        if sender == "client":
            self._take_sent(message)
        elif "method" in message:
            self._take_step(message)
        else:
            exchange = self._open.pop(_text(message.get("id")), None)
            if exchange is not None:
                exchange.answered = True
                exchange.steps.append(_Step("answer", message))

    def _take_sent(self, message: Dict[str, Any]) -> None:
        if "method" not in message:
            asked = self._asked.pop(_text(message.get("id")), None)
            if asked is not None:
                asked.answers[_text(message.get("id"))] = message
            return
        exchange = _Exchange(message)
        if exchange.method == "notifications/cancelled":
            cancelled = self._open.get(_text(_member(message.get("params"), "requestId")))
            if cancelled is not None:
                cancelled.cancelled = True
            return
        if "id" in message:
            self._open[_text(message["id"])] = exchange
        self._last = exchange
        self._add(exchange)

    def _take_step(self, message: Dict[str, Any]) -> None:
        owner = self._owner(message)
        question = "id" in message
        (self._first if owner is None else owner.steps).append(_Step("question" if question else "notification", message))
        if question and owner is not None:
            self._asked[_text(message["id"])] = owner

    def _owner(self, message: Dict[str, Any]) -> Optional[_Exchange]:
        params = message.get("params")
        token, listened = _member(params, "progressToken"), _member(_member(params, "_meta"), _META + "subscriptionId")
        for one in reversed(list(self._open.values())):
            if token is not None and one.token == token or listened is not None and one.id == listened:
                return one
        return next((one for one in reversed(list(self._open.values())) if not one.lasting), self._last)


class _Player:
    """Replays a cassette to one client, on one thread, which reads, finds and answers.

    :param cassette: replayed to each client from its beginning.
    :param channel: to the client.
    """

    def __init__(self, cassette: Cassette, channel: Channel) -> None:
        self._cassette, self._channel = cassette, channel
        #: How often the client has sent each recorded message, by the ``id()`` of the list of its exchanges.
        self._asked: Dict[int, int] = {}
        self._questions = 0
        #: By the id of a question that is not answered yet: the steps that are left to play, the exchange, the client's
        #: request, and the recorded question.
        self._waiting: Dict[int, Tuple[Iterator[_Step], _Exchange, Dict[str, Any], Dict[str, Any]]] = {}

    def run(self) -> None:
        """Replay until the client disconnects."""
        try:
            self._play(iter(self._cassette.first), _Exchange({}), {})
            while True:
                try:
                    data = self._channel.read()
                except ProtocolError as error:
                    self._refuse(None, INVALID_REQUEST, str(error))
                    continue
                if data is not None:
                    self._channel.consume()
                    self._take(data)
        except ConnectionClosed:
            return
        except TransportError as error:
            _log.warning("%s ends: %s", self._cassette.name, error)

    def _take(self, data: bytes) -> None:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError) as error:
            return self._refuse(None, PARSE_ERROR, f"the message is no JSON: {error}")
        for one in message if isinstance(message, list) else [message]:
            if not isinstance(one, dict) or not isinstance(one.get("method", ""), str):
                self._refuse(None, INVALID_REQUEST, "a message must be an object of JSON, and its method a text")
            elif "method" not in one:
                self._take_answer(one)
            elif "id" not in one:
                self._take_notification(one)
            else:
                self._take_request(one)

    def _take_request(self, request: Dict[str, Any]) -> None:
        method, params = request["method"], request.get("params")
        found = self._cassette.find(method, params)
        if found:
            self._play_next(found, request)
        elif method == "subscriptions/listen" and self._cassette.complete:
            asked = _member(params, "notifications")
            self._send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                        "params": {"_meta": {_META + "subscriptionId": request["id"]}, "notifications": asked or {}}})
        else:
            result = {} if method == "ping" else self._cassette.listed(method)
            outcome = {"error": self._cassette.missing(method, params)} if result is None else {"result": result}
            self._send({"jsonrpc": "2.0", "id": request["id"], **outcome})

    def _take_notification(self, message: Dict[str, Any]) -> None:
        if message["method"] == "notifications/cancelled":
            gone = _member(message.get("params"), "requestId")
            self._waiting = {id: one for id, one in self._waiting.items() if one[2].get("id") != gone}
            return
        found = self._cassette.find(message["method"], message.get("params"))
        if found:
            self._play_next(found, message)

    def _play_next(self, found: List[_Exchange], message: Dict[str, Any]) -> None:
        count = self._asked.get(id(found), 0)
        self._asked[id(found)] = count + 1
        exchange = found[min(count, len(found) - 1)]
        self._play(iter(exchange.steps), exchange, message)

    def _play(self, steps: Iterator[_Step], exchange: _Exchange, request: Dict[str, Any]) -> None:
        """Send the rest of an exchange, up to its next question; the answer to that question continues the exchange."""
        for kind, message in steps:
            if kind == "question":
                self._questions += 1
                self._waiting[self._questions] = steps, exchange, request, message
                return self._send({**message, "id": self._questions})
            self._send({**message, "id": request["id"]} if kind == "answer" else _addressed(message, exchange, request))
        if "id" in request and not (exchange.answered or exchange.cancelled or exchange.lasting):
            self._refuse(request["id"], INVALID_PARAMS, f"record it again: {self._cassette.name} ends before the answer to"
                                                        f" this {exchange.method}")

    def _take_answer(self, answer: Dict[str, Any]) -> None:
        waiting = self._waiting.pop(answer["id"], None) if isinstance(answer.get("id"), int) else None
        if waiting is None:
            return
        steps, exchange, request, question = waiting
        recorded, method = exchange.answers.get(_text(question["id"])), question["method"]
        found = [] if recorded is None or method in _LOCAL else list(differences(_answer(recorded), _answer(answer)))
        if found and "id" in request:
            named = "; ".join(map(str, found[:_MOST_NAMED]))
            return self._refuse(request["id"], INVALID_PARAMS, f"answer {method} as it was recorded, or record it again:"
                                                               f" {named} ({self._cassette.name})")
        self._play(steps, exchange, request)

    def _refuse(self, id: Any, code: int, message: str) -> None:
        self._send({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    def _send(self, message: Dict[str, Any]) -> None:
        self._channel.write(json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def _parsed(line: str, number: int, path: str) -> Dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no cassette: line {number} is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no cassette: line {number} is no object")
    return found


def _comparable(method: str, params: Any) -> Dict[str, Any]:
    """Return params without members that differ from one run to the next, with secrets masked as they are on the cassette."""
    if method in _OPENING or not isinstance(params, dict):
        return {}
    meta = params.get("_meta")
    kept = {name: value for name, value in (meta if isinstance(meta, dict) else {}).items()
            if name not in _PASSING and not name.startswith(_META)}
    found = {name: value for name, value in params.items()
             if name != "_meta" and not (name == "arguments" and value in ({}, None))}  # without arguments
    shown: Dict[str, Any] = masked({**found, "_meta": kept} if kept else found)
    return shown


def _answer(message: Dict[str, Any]) -> Any:
    """Return the part of a client's answer to a question that is compared; for an error, only that it is one."""
    result = message.get("result")
    if not isinstance(result, dict):
        return {"error": True}
    return masked({name: value for name, value in result.items() if name != "_meta"})


def _addressed(message: Dict[str, Any], exchange: _Exchange, request: Dict[str, Any]) -> Dict[str, Any]:
    """Return a recorded notification for the present request: with the progress token, or the subscription id, of this one."""
    params = message.get("params")
    if not isinstance(params, dict):
        return message
    changed, meta = dict(params), params.get("_meta")
    if exchange.token is not None and params.get("progressToken") == exchange.token:
        changed["progressToken"] = _token(request)
    if isinstance(meta, dict) and _META + "subscriptionId" in meta:
        changed["_meta"] = {**meta, _META + "subscriptionId": request.get("id")}
    return {**message, "params": changed}


def _token(message: Dict[str, Any]) -> Any:
    return _member(_member(message.get("params"), "_meta"), "progressToken")


def _member(value: Any, name: str) -> Any:
    """Return a member of a value; None if the value is no object, or has no such member."""
    return value.get(name) if isinstance(value, dict) else None


def _subject(params: Dict[str, Any]) -> Any:
    """Return what a request is about: the name of a tool or a prompt, or a URI."""
    return params.get("name") or params.get("uri")


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
