"""A peer whose other side is the test itself, message by message."""

import json
import threading

from mcplite.protocol import jsonrpc
from mcplite.rpc.channels import MemoryChannel
from mcplite.rpc.peer import Peer
from mcplite.rpc.request import MessageHandler
from mcplite.rpc.threads import Workers


class Recorder(MessageHandler):
    """A handler that records notifications and runs the task that a test sets."""

    def __init__(self):
        self.notes, self.closed, self.task, self.batches = [], [], None, False

    def on_request(self, incoming):
        if self.task is None:
            incoming.respond({"echo": incoming.params})
            return None
        return lambda: self.task(incoming)

    def on_notification(self, message):
        if message.method == "raise":
            raise ValueError("a note that fails")
        self.notes.append((message.method, message.params))

    def on_close(self, error):
        self.closed.append(error)

    def cancel_notice(self, id, reason):
        return jsonrpc.Notification("cancelled", {"id": id, "reason": reason})

    def accepts_batches(self):
        return self.batches


class Conversation:
    """A peer, and the raw other end of its channel."""

    def __init__(self, serving=False, slots=4, queue=100, queued_bytes=None, **options):
        self.raw, ours = MemoryChannel.pair(("the other side", "us"))
        self.handler = Recorder()
        self.workers = Workers(slots, queue, "test worker", queued_bytes=queued_bytes)
        self.peer = Peer(ours, self.handler, workers=self.workers, serving=serving, **options)
        self.peer.start()

    def say(self, message):
        self.raw.write(message if isinstance(message, bytes) else json.dumps(message).encode())

    def hear(self, timeout=20):
        data = self.raw.read(timeout)
        return None if data is None else json.loads(data)

    def call(self, *arguments, **options):
        """Start a call on a thread; returns a function that waits for its outcome."""
        box = {}

        def run():
            try:
                box["value"] = self.peer.call(*arguments, **options)
            except Exception as error:
                box["value"] = error

        thread = threading.Thread(target=run)
        thread.start()

        def outcome():
            thread.join(20)
            assert not thread.is_alive()
            return box["value"]

        return outcome

    def close(self):
        self.peer.close()
        self.raw.close()
        self.workers.stop()


def reply(request, result):
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}
