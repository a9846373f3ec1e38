"""Checks all messages of mcplite against the official schemas of their revision.

``recording()`` puts a recorder into every ``Peer`` and every ``Endpoint`` for the time of a block;
``Recorder.problems()`` then says what was wrong. What the other side sends is followed, to know the revision
and which request an answer is for, but not judged: tests play peers that behave badly. ``recording(both=True)``
is for conversations between two of ours of which one is another process.

The revision is the one that a handshake agreed on, or the one that a request names for itself. On a pipe a
client may do both, and some messages do not say in which era they were sent; such a message must be right in
one of those that it can be of. The same holds where several requests with one id are under way, since one
peer speaks for all clients of an HTTP endpoint that have no session. Conversations are judged from the first
message on that says which side is which. Of a user's own methods, which no revision has, only what the
newest revision asks of every message is judged. Without the official schemas (see ``schemas.py``) nothing is.
"""

import contextlib
import functools
import json
import pickle
import threading
import weakref
from pathlib import Path

from mcplite.protocol.meta import VERSION
from mcplite.revisions import NEWEST, NEWEST_LEGACY, REVISIONS, find_revision
from mcplite.rpc.peer import Peer
from mcplite.server.http.endpoint import Endpoint

from . import schemas

#: Outlines of messages that were found valid, since tests send the same ones often.
_valid = set()
_OTHER = {"->": "<-", "<-": "->", "client": "server", "server": "client"}


@functools.lru_cache(maxsize=None)
def _judged_values():
    """Return the texts and numbers that a schema, or the judgement beside it, tells from others.

    Of numbers these are the codes of errors. No schema has a pattern or a length of a text.
    """
    found, waiting = {"input_required", "task"}, [schemas.definitions(revision) for revision in REVISIONS]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            found.update(value for value in (part.get("const"), *part.get("enum", ())) if isinstance(value, (str, int)))
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return found


def _outline(value):
    """Return a value without the parts that no schema checks: other texts, the size of numbers."""
    if isinstance(value, dict):
        return tuple(sorted((key, _outline(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", len(value) > 100, *sorted({_outline(item) for item in value}, key=repr))  # of completions 100 fit
    if isinstance(value, bool) or value is None:
        return repr(value)
    if schemas.FOLDER is not None and value in _judged_values():
        return type(value).__name__, value
    # Minimum and maximum of every number in the schemas are 0 and 1.
    return "a text" if isinstance(value, str) else (type(value).__name__, max(-2, min(2, value)))


def _whole(answer):
    """Return an answer to a form with whole numbers.

    The schema files from June 2025 on allow no other numbers in it, unlike the text that they belong to, which
    lets a form ask for any.
    """
    content = answer.get("content") if isinstance(answer, dict) else None
    if not isinstance(content, dict) or "action" not in answer:
        return answer
    return {**answer, "content": {name: round(value) if isinstance(value, float) else value
                                  for name, value in content.items()}}


def _mended(message, answers):
    """Return a message with whole numbers in the answers to forms, wherever they are."""
    if not isinstance(message, dict):
        return message
    if "method" not in message and "elicitation/create" in answers.get(message.get("id"), ()):
        return {**message, "result": _whole(message["result"])} if "result" in message else message
    responses = _responses(message)
    if not responses:
        return message
    return {**message, "params": {**message["params"],
                                  "inputResponses": {key: _whole(answer) for key, answer in responses.items()}}}


def _responses(message):
    """Return the answers in a request, by key."""
    params = message.get("params") if isinstance(message, dict) else None
    responses = params.get("inputResponses") if isinstance(params, dict) else None
    return responses if isinstance(responses, dict) else {}


@functools.lru_cache(maxsize=None)
def _known_methods():
    if schemas.FOLDER is None:
        return frozenset()
    return frozenset(method for revision in REVISIONS for direction in ("client", "server")
                     for kind in ("request", "notification") for method in schemas.methods(revision, direction, kind))


def _claimed(message):
    """Return the revision that a message names for itself; None when it names none."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(meta, dict) or VERSION not in meta:
        return None
    named = find_revision(meta[VERSION])
    # Who is spoken to in another one says so in the newest.
    return named if named is not None and named.modern else NEWEST


def _side(direction, message):
    """Return which side we are, when a message is one that only clients send; else None."""
    if "id" in message and (message.get("method") == "initialize" or (
            isinstance(message.get("method"), str) and _claimed(message) is not None)):
        return "client" if direction == "->" else "server"
    return None


class _Conversation:
    """The state of one peer: our side, the revision, and the open requests of both."""

    def __init__(self):
        self.side = None
        #: The revision of the handshake.
        self.revision = None
        self.handshake_id = None
        #: The revision that a request named last.
        self.named = None
        #: By direction and id, what was asked and not answered yet: for each request its method and the revisions that
        #: it may be of. Those of one id are all kept until the last of them is answered.
        self.asked = {"->": {}, "<-": {}}
        self._answered = {"->": {}, "<-": {}}
        #: By key, the methods of the questions in a result.
        self.questions = {}

    @property
    def usual(self):
        """The revision of messages that name none."""
        return self.revision or self.named or NEWEST_LEGACY

    def sender(self, direction):
        return self.side if direction == "->" else _OTHER[self.side]

    def ask(self, direction, id, method, revisions):
        self.asked[direction].setdefault(id, []).append((method, revisions))

    def answer(self, direction, id):
        """Return the requests that an answer may be for."""
        asking = _OTHER[direction]
        waiting, answered = self.asked[asking], self._answered[asking]
        found = list(waiting.get(id, ()))
        answered[id] = answered.get(id, 0) + 1
        if answered[id] >= len(found):
            waiting.pop(id, None)
            del answered[id]
        return found

    def under_way(self, direction):
        """Return the revisions of the open requests of one side."""
        return [revision for requests in self.asked[direction].values() for _, revisions in requests
                for revision in revisions]


class Recorder:
    """Follows every peer; thread-safe.

    :param both: whether the other side is one of ours, and judged as well.
    """

    def __init__(self, both=False):
        self._both = both
        self._lock = threading.Lock()
        self._conversations = weakref.WeakKeyDictionary()
        self._to_check = {}
        self._methods = _known_methods()
        #: The checked messages: their sender and kind (the method, for a response that of its request; "error").
        self.judged = set()

    def observe(self, peer, direction, data):
        """Note one message of a peer."""
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return  # only the other side's can be that
        with self._lock:
            conversation = self._conversations.setdefault(peer, _Conversation())
            if conversation.side is None and isinstance(message, dict):  # no conversation begins with a batch
                conversation.side = _side(direction, message)
            readings = [self._follow(conversation, direction, item)
                        for item in (message if isinstance(message, list) else [message])]
            if (direction == "->" or self._both) and conversation.side is not None:
                self._note(conversation, direction, message, readings)

    def _follow(self, conversation, direction, message):
        """Return the possible meanings of a message, as pairs of a revision and the method that it answers."""
        if not isinstance(message, dict) or not isinstance(message.get("id"), (str, int, type(None))):
            return [(conversation.usual, None)]
        if not isinstance(message.get("method"), str):
            return self._follow_answer(conversation, direction, message)
        revisions = self._revisions(conversation, direction, message)
        if "id" in message:
            # A server of handshakes alone answers one or the other request also before there was one.
            before = message["method"] in NEWEST_LEGACY.client_requests - revisions[0].client_requests
            conversation.ask(direction, message["id"], message["method"], revisions + [NEWEST_LEGACY] * before)
        return [(revision, None) for revision in revisions]

    def _revisions(self, conversation, direction, message):
        """Return the revisions that a request or a notification may be of."""
        method, claimed = message["method"], _claimed(message)
        if "id" in message and claimed is not None:
            conversation.named = claimed
            # A server of handshakes alone does not read what the claim says.
            return [claimed] + ([conversation.revision] if conversation.revision else [])
        if method == "initialize":
            if conversation.revision is None:
                conversation.handshake_id = message.get("id")
            params = message.get("params")
            named = find_revision(params.get("protocolVersion")) if isinstance(params, dict) else None
            return [NEWEST_LEGACY if named is None or named.modern else named]
        if "id" in message or conversation.side is None:
            return [conversation.usual]
        if conversation.sender(direction) == "server":
            # It belongs to a request of the client, or to a session.
            found = conversation.under_way(_OTHER[direction])
            found += [conversation.revision] if conversation.revision else []
        else:
            params = message.get("params")
            id = params.get("requestId") if isinstance(params, dict) else None
            known = conversation.asked[direction].get(id, ()) if isinstance(id, (str, int)) else ()
            found = [revision for _, revisions in known for revision in revisions]
        return list(dict.fromkeys(found)) or [conversation.usual]

    def _follow_answer(self, conversation, direction, message):
        id, result = message.get("id"), message.get("result")
        found = conversation.answer(direction, id)
        if isinstance(result, dict):
            if id == conversation.handshake_id and conversation.side and conversation.sender(direction) == "server":
                conversation.revision = find_revision(result.get("protocolVersion")) or conversation.revision
                if any(method == "initialize" for method, _ in found):
                    return [(conversation.usual, "initialize")]
            asked = result.get("inputRequests")
            for key, question in asked.items() if isinstance(asked, dict) else ():
                if isinstance(question, dict) and isinstance(question.get("method"), str):
                    conversation.questions.setdefault(key, set()).add(question["method"])
        return [(revision, method) for method, revisions in found for revision in revisions] or [
            (conversation.usual, None)]

    def _note(self, conversation, direction, message, readings):
        if isinstance(message, list):
            # There are no batches but in conversations with a handshake.
            answers = {item.get("id"): {reading[0][1]} - {None} for item, reading in zip(message, readings)
                       if isinstance(item, dict) and "method" not in item}
            alternatives = [(conversation.usual, {id: next(iter(found), None) for id, found in answers.items()})]
        else:
            answers = {} if "method" in message else {
                message.get("id"): {method for _, method in readings[0]} - {None}}
            alternatives = [(revision, {message.get("id"): method}) for revision, method in readings[0]]
        items = message if isinstance(message, list) else [message]
        sender = conversation.sender(direction)
        methods = {item["method"] for item in items if "method" in item}.union(*answers.values())
        self.judged.update((sender, method) for method in methods)
        self.judged.update((sender, "error") for item in items if "error" in item)
        message = _mended(message, answers)
        questions = {key: frozenset(conversation.questions.get(key, ())) for key in _responses(message)}
        self._add(sender, message, alternatives, questions, bool(methods - self._methods))

    def _add(self, sender, message, alternatives, questions, own=False):
        outline = (sender, tuple((str(revision), tuple(answers.values())) for revision, answers in alternatives),
                   tuple(sorted(questions.items())), _outline(message))
        if outline not in _valid:
            self._to_check.setdefault(outline, (sender, message, alternatives, questions, own))

    def refused(self, endpoint, request, data, response):
        """Note what an endpoint said to a request that no peer has seen, where the newest revision applies."""
        if response.streaming or response.status < 400 or not endpoint.runtime.catalog.revisions[-1].modern:
            return
        try:
            body = json.loads(response.content)
        except ValueError:
            return
        if not isinstance(body, dict) or "jsonrpc" not in body:
            return  # from a plain route of the user's
        try:
            # The claims of an unreadable message are unknown.
            claimed = None if body.get("id") is None else _claimed(json.loads(data))
        except ValueError:
            claimed = None
        named = find_revision(request.headers.get("mcp-protocol-version"))
        if claimed is None and not endpoint.runtime.catalog.revisions[0].modern and not (named is not None and named.modern):
            return  # of what went before, the texts say something else than the schemas: that there is no id (HTTP-07)
        with self._lock:
            self.judged.add(("server", "refusal"))
            self._add("server", body, [(claimed or NEWEST, {})], {})

    def take(self):
        """Return what is to be checked, for :func:`save` or :func:`problems_in`."""
        with self._lock:
            to_check, self._to_check = self._to_check, {}
        return to_check

    def problems(self):
        """Return the errors in our messages, one text for each message."""
        return problems_in(self.take())


def save(to_check, file):
    """Write what a recorder took into a file, for another process: a client may not wait for as long as judging takes."""
    plain = {outline: (sender, message, [(revision.name, answers) for revision, answers in alternatives], questions, own)
             for outline, (sender, message, alternatives, questions, own) in to_check.items()}
    Path(file).write_bytes(pickle.dumps(plain))


def saved_problems(file):
    """Return the errors in the messages that :func:`save` wrote."""
    return problems_in({
        outline: (sender, message, [(find_revision(name), answers) for name, answers in alternatives], questions, own)
        for outline, (sender, message, alternatives, questions, own) in pickle.loads(Path(file).read_bytes()).items()})


def problems_in(to_check):
    """Return the errors in messages, one text for each message."""
    found = []
    if schemas.FOLDER is not None:
        for outline, (sender, message, alternatives, questions, own) in to_check.items():
            wrong = None
            for revision, answers in alternatives:
                try:
                    _judge(sender, message, revision, answers, questions, own)
                except AssertionError as error:
                    wrong = wrong or str(error)
                else:
                    wrong = None
                    break
            if wrong is None:
                _valid.add(outline)
            else:
                found.append(wrong)
    return found


def _judge(sender, message, revision, answers, questions, own):
    """Raise AssertionError if the revision does not allow this side to send the message."""
    if not own or "error" in message:
        schemas.validate_message(revision, sender, message, answers)
    elif revision.modern and "result" in message:
        schemas.check(revision, "JSONRPCResultResponse", message, strict=False)
    elif revision.modern and "id" in message:
        schemas.check(revision, "RequestParams", message.get("params"), strict=False)
    schemas.check_answers(revision, questions, _responses(message))


class _Traced:
    """Stands for ``Peer._trace`` of every peer: shows each message to a recorder, and to the peer's own trace."""

    def __init__(self, recorder):
        self._recorder = recorder

    def __get__(self, peer, owner):
        def trace(direction, data):
            self._recorder.observe(peer, direction, data)
            own = peer.__dict__["_trace"]
            if own is not None:
                own(direction, data)

        return trace

    def __set__(self, peer, trace):
        peer.__dict__["_trace"] = trace


@contextlib.contextmanager
def recording(both=False):
    """Record every peer and every endpoint of this process for the time of the block.

    :param both: whether every peer's other side is one of ours.
    """
    recorder = Recorder(both)
    before, handle = Peer.__dict__.get("_trace"), Endpoint.handle

    def handled(endpoint, request):
        read, data = request.read, []

        def reading(limit):
            data.append(read(limit))
            return data[-1]

        request.read = reading
        response = handle(endpoint, request)
        recorder.refused(endpoint, request, b"".join(data), response)
        return response

    Peer._trace = _Traced(recorder)
    Endpoint.handle = handled
    try:
        yield recorder
    finally:
        Endpoint.handle = handle
        if before is None:
            del Peer._trace
        else:
            Peer._trace = before
