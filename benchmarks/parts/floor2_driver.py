"""The second floor as a client: descriptors are read and written directly, and JSON's coders are made once."""

import os
import subprocess

import floor_driver
import web_clients
from common import answer_commands
from floor2_server import decode, encode, lines


class Connection(floor_driver.Connection):
    """A child process."""

    def __init__(self, command, meta=None):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.last_id = 0
        self.meta = meta
        self.input = self.child.stdin.fileno()
        self.lines = lines(self.child.stdout.fileno())

    def send(self, message):
        os.write(self.input, encode(message) + b"\n")

    def answer(self, wanted, progress=None):
        for line in self.lines:
            message = decode(line)
            if message.get("id") == wanted:
                if "error" in message:
                    raise RuntimeError(str(message["error"])[:500])
                return message["result"]
        raise EOFError("the server left, status %r" % self.child.wait())


class Commands(floor_driver.Commands):
    """The commands of a driver; over HTTP it is a socket's client."""

    def connect(self, target, client, meta):
        return (web_clients.SocketWeb if isinstance(target, str) else Connection)(target, meta)


if __name__ == "__main__":
    web_clients.encode, web_clients.decode = encode, decode
    commands = Commands()
    answer_commands({name: getattr(commands, name) for name in ("open", "add", "server_usage", "close")})
