"""mcplite's server of an OpenAPI document, with a client in the same process."""

import os
import sys

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from common import answer_commands, calls_in

import mcplite
from mcplite.openapi import from_openapi


class Commands:
    """The commands of a driver, as in ``floor_api_driver.py``."""

    def __init__(self):
        self.client = None

    def open(self, target, document):
        self.client = mcplite.connect(from_openapi(document, base_url=target)).open()
        return len(self.client.list_tools())

    def call(self, count):
        def run(n):
            if self.client.call_tool("read_item", {"id": n, "limit": 5}).structured_content["id"] != n:
                raise AssertionError("wrong item")

        return calls_in(run, count)

    def close(self):
        self.client.close()


def main(arguments):
    commands = Commands()
    if arguments:
        print(commands.open(*arguments))
        commands.close()
    else:
        answer_commands({name: getattr(commands, name) for name in ("open", "call", "close")})


if __name__ == "__main__":
    main(sys.argv[1:])
