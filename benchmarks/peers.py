"""The measured implementations, and how their programs are started and driven.

A peer has programs below ``parts/``: a server for stdio, one for HTTP, and a driver. Any driver works with any
server, so that a pair says what both cost together, and a half pair with the floor what one of them costs.
An older commit of mcplite is a peer too: its package, with the programs of today.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

__all__ = ["Driver", "Failed", "Peer", "WebServer", "check_out", "find_peers", "run"]

ROOT = Path(__file__).resolve().parent.parent
#: Seconds that one step of a workload may take; far more than it needs.
LIMIT = 300.0


class Failed(Exception):
    """A peer failed in a workload; the text ends with its stderr."""


@dataclass(frozen=True)
class Peer:
    """An implementation: its name in the table, its programs' prefix, and the Python that runs them."""

    name: str
    prefix: str
    python: str
    #: What to import for a server and for a client.
    server_import: str = "pass"
    client_import: str = "pass"
    #: Whether it is measured over stdio; all are over HTTP.
    stdio: bool = True
    #: Whether it is measured by small calls alone.
    calls_only: bool = False
    #: The checkout that its programs import mcplite from, if they do.
    root: Path = ROOT

    def _part(self, kind: str) -> str:
        return str(self.root / "benchmarks" / "parts" / f"{self.prefix}_{kind}.py")

    def server(self, *arguments: str) -> List[str]:
        """Return the command of its server; a number as argument is how many more tools it has."""
        return [self.python, self._part("server"), *arguments]

    def web_server(self, mode: str) -> List[str]:
        """Return the command of its server over HTTP, which answers in "json" or in "events" if it has to choose."""
        return [self.python, self._part("web"), mode]

    def driver(self, *arguments: str) -> List[str]:
        """Return the command of its driver; with a server's command as arguments it opens, lists, and ends."""
        return [self.python, self._part("driver"), *arguments]


def find_peers(official: Optional[str]) -> Dict[str, Peer]:
    """Return the peers of this run by key: "floor", "floor2", "ours", "tuned", and if they are installed "mcp" and "fastmcp".

    :param official: a Python that has mcp 2; by default the one that tests/interop/install.sh made.
    """
    official = official or installed("mcp2")
    fastmcp = installed("fastmcp4")
    peers = {"floor": Peer("floor", "floor", sys.executable),
             "floor2": Peer("floor2", "floor2", sys.executable, calls_only=True),
             "ours": Peer("mcplite", "ours", sys.executable, "from mcplite import Server", "from mcplite import Client")}
    if official is not None:
        peers["mcp"] = Peer(f"mcp {version(official, 'mcp')}", "official", official,
                            "from mcp.server.mcpserver import MCPServer", "from mcp import Client")
    peers["tuned"] = Peer("http.server", "tuned", sys.executable, stdio=False)
    if fastmcp is not None:
        peers["fastmcp"] = Peer(f"fastmcp {version(fastmcp, 'fastmcp')}", "fastmcp", fastmcp, stdio=False)
    return peers


def check_out(revision: str, folder: Path) -> Peer:
    """Put an older commit's package and programs into *folder*, and return them as a peer.

    Its own programs speak the interface that the package had then.

    :raises Failed: git does not know the commit, or this is no checkout.
    """
    def git(*arguments: str) -> bytes:
        done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            raise Failed(f"git {arguments[0]}: {done.stderr.decode('utf-8', 'replace').strip()}")
        return done.stdout

    name = git("rev-parse", "--short", "--verify", revision + "^{commit}").decode("ascii").strip()
    with tarfile.open(fileobj=io.BytesIO(git("archive", name, "mcplite", "benchmarks/parts"))) as archive:
        archive.extractall(folder)
    return Peer(f"mcplite {name}", "ours", sys.executable, "from mcplite import Server", "from mcplite import Client",
                root=folder)


def installed(name: str) -> Optional[str]:
    """Return the Python of an environment that tests/interop/install.sh made; None if it does not exist."""
    home = Path(os.environ.get("MCPLITE_INTEROP") or ROOT / ".interop") / name
    found = [path for path in (home / "bin" / "python", home / "Scripts" / "python.exe") if path.exists()]
    return str(found[0]) if found else None


def version(python: str, distribution: str) -> str:
    """Return the version of a package that a Python has installed."""
    return run([python, "-c", f"import importlib.metadata as m; print(m.version({distribution!r}))"])


def environment(root: Path) -> Dict[str, str]:
    """Return the environment of a program: ours, with its checkout on Python's path."""
    path = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def run(command: List[str], root: Path = ROOT) -> str:
    """Run a program to its end and return what it printed.

    :param root: the checkout on its path.
    :raises Failed: it failed.
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(root), timeout=LIMIT, encoding="utf-8", errors="replace")
    if done.returncode:
        raise Failed(f"{command} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout.strip()


class WebServer:
    """A running server over HTTP.

    :param variables: more of its environment.
    """

    def __init__(self, peer: Peer, mode: str, variables: Mapping[str, str] = {}) -> None:
        self._stderr = tempfile.TemporaryFile()
        self._process = subprocess.Popen(peer.web_server(mode), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=self._stderr, env={**environment(peer.root), **variables},
                                         encoding="utf-8")
        self.pid = self._process.pid
        assert self._process.stdout is not None
        timer = threading.Timer(LIMIT, self._process.kill)
        timer.start()
        try:
            self.url = self._process.stdout.readline().strip()
        finally:
            timer.cancel()
        if not self.url:
            self._stderr.seek(0)
            tail = self._stderr.read()[-3000:].decode("utf-8", "replace")
            self.close()
            raise Failed(f"the server of {peer.name} did not start:\n{tail}")

    def close(self) -> None:
        """End it. Its clients have left before, so there is nothing to wait for."""
        self._process.kill()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()


class Driver:
    """A driver that runs, with a connection to one server, which it starts by a command or finds by a URL.

    :param options: more arguments for the driver's ``open``.
    """

    def __init__(self, peer: Peer, server: Union[str, List[str]], **options: Any) -> None:
        self.name = f"{peer.prefix} driver with {server if isinstance(server, str) else ' '.join(server[1:])}"
        self._stderr = tempfile.TemporaryFile()
        self._process = subprocess.Popen(peer.driver(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=self._stderr, env=environment(peer.root), encoding="utf-8")
        try:
            self.ask("usage")  # its own start is over
            begun = time.perf_counter()
            self.tools = self.ask("open", target=server, **options)
            #: Seconds from the server's start to its first list.
            self.opened_in = time.perf_counter() - begun
        except BaseException:
            self._end(kill=True)
            raise

    def ask(self, do: str, **arguments: Any) -> Any:
        """Let the driver run one command, and return its value.

        :raises Failed: it could not, or took longer than the limit.
        """
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError as error:
            line = ""
            reason = str(error)
        else:
            reason = "it left, or took too long"
        finally:
            timer.cancel()
        reply = json.loads(line) if line else {"error": reason}
        if "error" in reply:
            self._stderr.seek(0)
            tail = self._stderr.read()[-3000:].decode("utf-8", "replace")
            raise Failed(f"{self.name}, {do}: {reply['error']}\n{tail}")
        return reply["value"]

    def close(self) -> None:
        """End the connection and the driver."""
        try:
            self.ask("close")
        finally:
            self._end(kill=False)

    def _end(self, kill: bool) -> None:
        process = self._process
        if kill:
            process.kill()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
        except OSError:
            process.kill()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
        process.stdout.close()
        self._stderr.close()
