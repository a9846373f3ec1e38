"""Asks a process to stop, as a person or a service manager does: by a signal, on Windows by an event of its console."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.systems import wine_fault

__all__ = ["INTERRUPT", "OPTIONS", "STOPS", "ask_to_stop"]

#: Attaches itself to the console of a process, and has an event sent to all processes there.
_SENDING = """
import ctypes, signal, sys
for number in (signal.SIGINT, signal.SIGBREAK):
    signal.signal(number, signal.SIG_IGN)
kernel = ctypes.WinDLL("kernel32", use_last_error=True)
kernel.FreeConsole()
process, event = map(int, sys.argv[1:])
if not kernel.AttachConsole(process) or not kernel.GenerateConsoleCtrlEvent(event, 0):
    raise ctypes.WinError(ctypes.get_last_error())
"""

if sys.platform == "win32":
    #: For ``subprocess.Popen``, so that a process can be asked: a console of its own, without a window.
    OPTIONS = {"creationflags": subprocess.CREATE_NO_WINDOW}
    #: What Ctrl-C sends.
    INTERRUPT = signal.CTRL_C_EVENT
    #: All that asks a process to stop; for ``pytest.mark.parametrize``.
    STOPS = [INTERRUPT, pytest.param(signal.CTRL_BREAK_EVENT, marks=wine_fault("no_break_event"))]
else:
    OPTIONS = {}
    INTERRUPT = signal.SIGINT
    STOPS = [INTERRUPT, signal.SIGTERM]


def ask_to_stop(process, how=STOPS[0]):
    """Ask a process to stop.

    :param process: a ``Popen``, started with ``OPTIONS``.
    :param how: one of ``STOPS``.
    """
    if os.name == "posix":
        process.send_signal(how)
    else:
        subprocess.run([sys.executable, "-I", "-S", "-c", _SENDING, str(process.pid), str(int(how))], check=True, timeout=60)
