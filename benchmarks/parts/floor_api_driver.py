"""The floor of an API's server: ``requests``, which calls the API itself; its start only reads the document."""

import json
import sys

from common import answer_commands, calls_in


def count_of(path):
    """Return the number of operations of a document."""
    with open(path, "rb") as file:
        return sum(len(item) for item in json.load(file)["paths"].values())


class Commands:
    """The commands of a driver: ``open`` makes what the calls go through, and returns how many operations there are."""

    def __init__(self):
        self.session = self.url = None

    def open(self, target, document):
        import requests

        self.session, self.url = requests.Session(), target
        return count_of(document)

    def call(self, count):
        def run(n):
            if self.session.get(self.url + "/items/%d" % n, params={"limit": 5}).json()["id"] != n:
                raise AssertionError("wrong item")

        return calls_in(run, count)

    def close(self):
        self.session.close()


def main(arguments):
    if arguments:
        print(count_of(arguments[1]))
        return
    commands = Commands()
    answer_commands({name: getattr(commands, name) for name in ("open", "call", "close")})


if __name__ == "__main__":
    main(sys.argv[1:])
