"""Where a test can run: on POSIX only, or on Windows too, and what Wine does otherwise than Windows.

Windows' Python runs in the Windows lane of ``.ci/run`` under Wine. Each fault of Wine that keeps a test from running has a
small program here that shows it. The test is skipped where the program shows the fault, so it runs on Windows, and under a
Wine that has mended it.
"""

import functools
import os
import subprocess
import sys
import tempfile

import pytest

__all__ = ["LINKS", "needs_links", "open_descriptors", "posix_only", "wine_fault", "windows_only"]

#: For tests of what only POSIX has: signals to one process, modes of files, pseudo-terminals, forks, polling of pipes.
posix_only = pytest.mark.skipif(os.name != "posix", reason="POSIX only")
#: For tests of what only Windows has.
windows_only = pytest.mark.skipif(os.name != "nt", reason="Windows only")


def _links():
    """Make a symbolic link; return what came of it: the number of an error, or whether it is there.

    Wine 8: ``CreateSymbolicLinkW`` is a stub that returns success and makes nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        link = os.path.join(folder, "link")
        try:
            os.symlink("target", link)
        except OSError as error:
            return getattr(error, "winerror", None)
        return "made" if os.path.islink(link) else "not made"


FAULTS = {}


def _fault(text):
    """Register a program that returns whether Wine has the fault."""
    def register(program):
        FAULTS[program.__name__] = functools.lru_cache(maxsize=None)(program), text
        return program

    return register


@_fault("a program is started with a command line that is too long, where Windows refuses it (error 206)")
def long_arguments():
    try:
        process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "", *["x" * 100_000] * 10])
    except OSError:
        return False
    process.kill()
    process.wait()
    return True


@_fault("the host of a console that has no window keeps the standard streams of its process open")
def console_keeps_streams():
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import os, time; os.close(1); time.sleep(3)"],
                               stdout=subprocess.PIPE, creationflags=0x08000000)  # CREATE_NO_WINDOW
    process.stdout.read()
    ended = process.poll() is not None
    process.kill()
    process.wait()
    process.stdout.close()
    return ended


@_fault("a console sends no CTRL_BREAK_EVENT")
def no_break_event():
    body = "import os, signal\nsignal.signal(signal.SIGBREAK, signal.SIG_IGN)\nos.kill(0, signal.CTRL_BREAK_EVENT)"
    process = subprocess.run([sys.executable, "-I", "-S", "-c", body], stderr=subprocess.DEVNULL,
                             creationflags=0x08000000)  # CREATE_NO_WINDOW: a console of its own
    return process.returncode != 0


def wine_fault(name):
    """Return the mark of tests that a fault of Wine keeps from running."""
    program, text = FAULTS[name]
    return pytest.mark.skipif(sys.platform == "win32" and program(), reason=f"Wine's own fault: {text}")


_made = _links()
#: Whether symbolic links can be made. On Windows a user needs a privilege for that (its error 1314).
LINKS = _made == "made"
needs_links = pytest.mark.skipif(not LINKS, reason="links need a privilege on Windows" if _made == 1314 else
                                 "Wine's own fault: symbolic links are reported as made, and are not")


def open_descriptors():
    """Return the open descriptors of this process, each with what it is of; on Windows sockets are not among them."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    found = {}
    if os.name == "nt":
        for descriptor in range(256):
            try:
                status = os.fstat(descriptor)
            except OSError:
                continue
            found[descriptor] = f"kind {status.st_mode:o}, file {status.st_ino}"
        return found
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            found[int(name)] = os.readlink(f"{folder}/{name}") if folder.startswith("/proc") else "open"
        except OSError:
            pass  # the one that listed the folder
    return found
