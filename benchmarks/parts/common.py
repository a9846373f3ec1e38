"""Shared by all parts: the texts of the workloads, the resources of a process, and the loop of a driver.

The parts are programs that the benchmarks start: for each peer a server (the tools of the workloads) and
a driver (a client that does what it is told on stdin and measures itself). Standard library only, and
little of it, because the parts' own start is measured too.
"""

import json
import sys
import time

#: The last revision with a handshake, and the one without.
REVISION, STATELESS = "2025-11-25", "2026-07-28"
#: Text as it occurs in results: words and line ends, some of them escaped in JSON.
_PATTERN = 'The quick brown fox said "jump" and jumped.\n'
#: One of a thousand tools.
_TOOL = """
def tool(city: str, days: int = 3, detailed: bool = False) -> str:
    '''Forecast number: the weather of a city for some days ahead, with details if they are wanted.'''
    return city
"""


def text_of(size):
    """Return a text of *size* characters."""
    return (_PATTERN * (size // len(_PATTERN) + 1))[:size]


def make_tools(count):
    """Return *count* functions.

    They are compiled once, since a program loads its own compiled: a compiler that runs here would be a quarter of the start.
    """
    code = compile(_TOOL, "<tools>", "exec")
    functions = []
    for n in range(count):
        names = {}
        exec(code, names)
        function = names["tool"]
        function.__name__ = function.__qualname__ = "tool_%d" % n
        function.__doc__ = function.__doc__.replace("number", "number %d" % n)
        functions.append(function)
    return functions


def peak_rss():
    """Return the peak resident memory of this process in bytes; None if it is not available."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None
    # Outside Linux; there, this one would count the process that we were forked from.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def usage():
    """Return the resources that this process has used: CPU seconds, peak memory, voluntary context switches."""
    switches = None
    try:
        import resource

        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    except ImportError:
        pass
    return {"cpu": time.process_time(), "rss": peak_rss(), "switches": switches}


def allow_files():
    """Let this process open as many files as the system lets it: a thousand clients have a socket each."""
    try:
        import resource
    except ImportError:
        return  # of Windows, which has no such limit
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def listener():
    """Return a socket for a server on asyncio at a free port, and print its address for the benchmarks."""
    import socket

    # asyncio turns Nagle's algorithm off only for sockets whose protocol is TCP.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.bind(("127.0.0.1", 0))
    sock.listen(512)
    print("http://127.0.0.1:%d/mcp" % sock.getsockname()[1], flush=True)
    return sock


def calls_in(run, count):
    """Call ``run(n)`` *count* times; return how long each took, in nanoseconds."""
    clock = time.perf_counter_ns
    taken = []
    for n in range(count):
        begun = clock()
        run(n)
        taken.append(clock() - begun)
    return taken


def expect(what, wanted, got):
    """Raise AssertionError for a wrong answer."""
    if got != wanted:
        raise AssertionError("%s: wanted %.200r, got %.200r" % (what, wanted, got))


def answer_commands(commands):
    """Run the commands on stdin, one JSON object on each line, until it ends; *commands* maps names to functions."""
    for line in sys.stdin:
        order = json.loads(line)
        name = order.pop("do")
        try:
            reply = {"value": usage() if name == "usage" else commands[name](**order)}
        except Exception as error:
            import traceback

            traceback.print_exc()
            reply = {"error": "%s: %s" % (type(error).__name__, error)}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
