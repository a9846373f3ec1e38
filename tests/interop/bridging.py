"""Bridges of ours between the two sides of a test: with MCPLITE_BRIDGED=1 in the environment, each test here that says so runs
behind ``python -m mcplite bridge``, and expects what it expects without.

As a program it is that command, which also checks each message that it sends; see ``everything.py`` for WIRE_REPORT.
"""

import contextlib
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
BRIDGED = os.environ.get("MCPLITE_BRIDGED") == "1"


def not_bridged(reason):
    """Return the mark of a test that is no test of a bridge."""
    return pytest.mark.skipif(BRIDGED, reason=f"not behind a bridge: {reason}")


def bridge(target, *options):
    """Return the command of a bridge to a URL or a command."""
    if isinstance(target, list):
        target = shlex.join(map(str, target))
    return [sys.executable, str(Path(__file__).resolve()), target, *options]


def accepting(revision):
    """Return the options of a bridge that speaks one revision with its server; by default the newest one that both know.

    A server of two eras does not do the same in both, so a bridge must keep to that of the client to change nothing.
    """
    return [] if revision is None else ["--revision", getattr(revision, "name", revision)]


class BridgedServer:
    """A server over HTTP behind two bridges: one that offers it on stdio, and one that offers that over HTTP.

    :param inner: the server.
    :param outer: the bridge over HTTP.
    """

    def __init__(self, inner, outer):
        self._inner, self._outer = inner, outer
        self.url, self.inner_url = outer.url, inner.url

    @property
    def output(self):
        return self._inner.output + self._outer.output

    def leave(self):
        """End both, the bridges first; return the exit status of the server, or of the bridge if that failed."""
        self._outer.process.send_signal(signal.SIGTERM)
        status = self._outer.process.wait(60)
        return status or self._inner.leave()


@contextlib.contextmanager
def bridged_twice(inner, serving, *options, revision=None, **env):
    """Give a server over HTTP behind two bridges, one of each direction."""
    words = accepting(revision)
    with serving(bridge(bridge(inner.url, *words), "--http", "0", "--legacy-sse", *words, *options), **env) as outer:
        yield BridgedServer(inner, outer)


def stdio_program(url, folder, revision=None):
    """Return a program that is a bridge to a URL whatever its arguments are, in place of a Python that starts a server."""
    if os.name != "posix":
        pytest.skip("a program is a shell script")
    path = folder / "bridge"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(bridge(url, *accepting(revision)))}\n', "utf-8")
    path.chmod(0o700)
    return str(path)


@contextlib.contextmanager
def passed(target, serving, options):
    """Give what a client of ours connects to for *target*, and its options; if there are bridges, that is one.

    The bridge has the other transport, and accepts the revision that the client accepts.
    """
    if not BRIDGED:
        yield target, options
        return
    from mcplite.revisions import NEWEST, NEWEST_LEGACY

    options = dict(options)
    era, revision = options.get("era"), options.get("revision")
    if era is not None:
        revision = NEWEST if era == "modern" else NEWEST_LEGACY
    words = accepting(revision)
    for name, value in options.pop("env", {}).items():
        words += ["--env", f"{name}={value}"]
    if isinstance(target, str):
        yield bridge(target, *words), options
        return
    with serving(bridge(target, "--http", "0", *words)) as server:
        yield server.url, options


def main(words):
    from mcplite.__main__ import main as command_line

    report = os.environ.get("WIRE_REPORT")
    if not report:
        return command_line(["bridge", *words])
    from tests.support import wire

    with wire.recording() as recorder:
        status = command_line(["bridge", *words])
    wire.save(recorder.take(), report)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
