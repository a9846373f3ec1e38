"""Everything that our side sends, held against the official schemas of the revision that was agreed on.

``recording()`` puts a recorder into every ``Peer`` for the time of a block; ``Recorder.problems()`` then says
what was wrong. What the other side sends is followed, to know the revision and which request an answer is
for, but not judged: tests play peers that behave badly.

Judged are conversations with a handshake, from the ``initialize`` request on. Methods that no revision has
are a user's own and pass. Without the official schemas (see ``schemas.py``) nothing is judged.
"""

import contextlib
import json
import threading
import weakref

import schemas
from mcplite.revisions import NEWEST_LEGACY, REVISIONS, find
from mcplite.rpc.peer import Peer


#: Outlines of messages that were found valid; tests send the same ones again and again.
_valid = set()


def _outline(value):
    """Return a value without what no schema looks at: long texts, the size of numbers."""
    if isinstance(value, dict):
        return tuple(sorted((key, _outline(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ("list", *sorted({_outline(item) for item in value}, key=repr))
    if isinstance(value, str):
        return value if len(value) <= 40 else "a long text"
    if isinstance(value, bool) or value is None:
        return repr(value)
    # Minimum and maximum of every number in the schemas are 0 and 1.
    return type(value).__name__, max(-2, min(2, value))


def _mended(message, answers):
    """Return an answer to a form with whole numbers.

    The schema files from June 2025 on allow no other numbers in it, unlike the text that they belong to, which
    lets a form ask for any.
    """
    if not isinstance(message, dict) or answers.get(message.get("id")) != "elicitation/create":
        return message
    result = message.get("result")
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, dict):
        return message
    whole = {name: round(value) if isinstance(value, float) else value for name, value in content.items()}
    return {**message, "result": {**result, "content": whole}}


def _known_methods():
    if schemas.FOLDER is None:
        return frozenset()
    return frozenset(method for revision in REVISIONS for direction in ("client", "server")
                     for kind in ("request", "notification") for method in schemas.methods(revision, direction, kind))


class _Conversation:
    """What is known of one peer: which side we are, the revision, and what the other side has asked."""

    def __init__(self):
        self.side = None
        self.revision = None
        self.handshake_id = None
        self.asked = {}


class Recorder:
    """Follows every peer; thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._conversations = weakref.WeakKeyDictionary()
        self._to_check = {}
        self._methods = _known_methods()

    def observe(self, peer, direction, data):
        """Note one message; what :meth:`Peer._observe` is replaced by."""
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return  # only the other side's can be that
        with self._lock:
            conversation = self._conversations.setdefault(peer, _Conversation())
            for item in message if isinstance(message, list) else [message]:
                if isinstance(item, dict):
                    self._follow(conversation, direction, item)
            if direction == "->" and conversation.side is not None:
                self._note(conversation, message)

    def _follow(self, conversation, direction, message):
        method, id = message.get("method"), message.get("id")
        if not isinstance(id, (str, int, type(None))):
            return
        if method == "initialize" and conversation.side is None:
            conversation.side = "client" if direction == "->" else "server"
            conversation.handshake_id = id
        if isinstance(method, str):
            if direction == "<-" and "id" in message:
                conversation.asked[id] = method
        elif id == conversation.handshake_id and isinstance(message.get("result"), dict) and (
                direction == ("<-" if conversation.side == "client" else "->")):
            conversation.revision = find(message["result"].get("protocolVersion")) or conversation.revision

    def _note(self, conversation, message):
        revision = conversation.revision
        if isinstance(message, dict) and message.get("method") == "initialize":
            params = message.get("params")
            revision = find(params.get("protocolVersion")) if isinstance(params, dict) else None
        revision = revision or NEWEST_LEGACY
        if revision.modern:
            return
        answers = {item.get("id"): conversation.asked.pop(item.get("id"), None)
                   for item in (message if isinstance(message, list) else [message])
                   if isinstance(item, dict) and "method" not in item}
        methods = [item["method"] for item in (message if isinstance(message, list) else [message]) if "method" in item]
        methods += [method for method in answers.values() if method is not None]
        if any(method not in self._methods for method in methods):
            return
        message = _mended(message, answers)
        outline = (revision.name, conversation.side, tuple(sorted(map(str, methods))), _outline(message))
        if outline not in _valid:
            self._to_check.setdefault(outline, (revision, conversation.side, message, answers))

    def problems(self):
        """Return what was wrong with what our side sent, one text for each message."""
        if schemas.FOLDER is None:
            return []
        with self._lock:
            to_check, self._to_check = self._to_check, {}
        found = []
        for outline, (revision, side, message, answers) in to_check.items():
            try:
                schemas.validate_message(revision, side, message, answers)
            except AssertionError as error:
                found.append(str(error))
            else:
                _valid.add(outline)
        return found


@contextlib.contextmanager
def recording():
    """Record every peer of this process for the time of the block."""
    recorder = Recorder()
    before = Peer._observe
    Peer._observe = lambda peer, direction, data: recorder.observe(peer, direction, data)
    try:
        yield recorder
    finally:
        Peer._observe = before
