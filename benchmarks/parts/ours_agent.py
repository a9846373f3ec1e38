"""An agent with mcplite: opens several servers at once and prints how many tools they have."""

import sys

from mcplite import connect_all


def main(count, command, *arguments):
    servers = {f"s{number}": {"command": command, "args": arguments} for number in range(int(count))}
    with connect_all({"mcpServers": servers}) as group:
        print(len(group.list_tools()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
