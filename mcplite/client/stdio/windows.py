"""Child processes on Windows: finding npx.cmd, arguments of batch files, and ending a tree of processes."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, List, Mapping, Optional

from ...errors import TransportError

__all__ = ["CREATION_FLAGS", "Job", "check_batch_arguments", "resolve"]

#: CREATE_NEW_PROCESS_GROUP, so that our Ctrl-C is not the child's; CREATE_NO_WINDOW, no console pops up; CREATE_SUSPENDED, so
#: that it starts no process before it is in its job.
CREATION_FLAGS = 0x00000200 | 0x08000000 | 0x00000004
#: Characters that cmd.exe, which runs batch files, interprets, quoted or not.
_METACHARACTERS = frozenset("&|<>^%!\"()\r\n")


def resolve(arguments: List[str], env: Mapping[str, str]) -> List[str]:
    """Return the command with its program found through the child's PATH and PATHEXT (``npx`` -> ``npx.cmd``).

    :raises TransportError: it is a batch file, and cmd.exe would change an argument.
    """
    import shutil

    program = shutil.which(arguments[0], path=env.get("PATH")) or arguments[0]
    check_batch_arguments(program, arguments[1:])
    return [program] + arguments[1:]


def check_batch_arguments(program: str, arguments: List[str]) -> None:
    """Refuse arguments that cmd.exe would interpret when *program* is a batch file (SEC-62).

    :raises TransportError: there is such an argument.
    """
    # Windows ignores dots and spaces at the end of a file name.
    if not program.rstrip(". ").lower().endswith((".bat", ".cmd")):
        return
    for position, argument in enumerate(arguments, 1):
        found = sorted(_METACHARACTERS.intersection(argument))
        if found:
            raise TransportError(
                f"cannot start {os.path.basename(program)}: argument {position} contains {' '.join(map(repr, found))},"
                f" which cmd.exe would interpret; start the program behind the batch file itself (node, python)")


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _KILL_ON_JOB_CLOSE = 0x2000
    _EXTENDED_LIMIT_INFORMATION = 9

    class _BasicLimits(ctypes.Structure):
        _fields_ = [
            ("PerProcessUserTimeLimit", ctypes.c_int64), ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD), ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t), ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t), ("PriorityClass", wintypes.DWORD), ("SchedulingClass", wintypes.DWORD),
        ]

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = [
            ("BasicLimitInformation", _BasicLimits), ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t), ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t), ("PeakJobMemoryUsed", ctypes.c_size_t),
        ]


class Job:
    """A job object with a child and all processes that it starts; they end with it, even if we are killed.

    :param process: the child, started with ``CREATION_FLAGS``; it runs from now on.
    :param name: the child's, for errors.
    :raises TransportError: there cannot be a job for it; the caller ends the child, which does not run yet.
    """

    def __init__(self, process: Any, name: str) -> None:
        #: Guards ``_handle``: the thread that watches the child ends the job that another thread closes.
        self._lock = threading.Lock()
        self._handle: Optional[int] = None
        self._kernel: Any = None
        if sys.platform == "win32":
            kernel = self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            kernel.CreateJobObjectW.restype = wintypes.HANDLE
            kernel.CreateJobObjectW.argtypes = [ctypes.c_void_p, wintypes.LPCWSTR]
            kernel.SetInformationJobObject.argtypes = [
                wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD]
            kernel.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
            kernel.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]
            kernel.CloseHandle.argtypes = [wintypes.HANDLE]
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
            try:
                self._handle = kernel.CreateJobObjectW(None, None)
                if not self._handle or not kernel.SetInformationJobObject(
                        self._handle, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)) \
                        or not kernel.AssignProcessToJobObject(self._handle, int(process._handle)):
                    raise ctypes.WinError(ctypes.get_last_error())
                resume = ctypes.WinDLL("ntdll").NtResumeProcess
                resume.argtypes = [wintypes.HANDLE]
                status = resume(int(process._handle))
                if status:
                    raise OSError(f"NtResumeProcess returned {status & 0xFFFFFFFF:#x}")
            except OSError as error:
                self.close()
                raise TransportError(f"cannot start {name}: there is no job object to end it and its processes with:"
                                     f" {error}") from error

    def terminate(self) -> None:
        """End every process in the job."""
        with self._lock:
            if self._handle is not None:
                self._kernel.TerminateJobObject(self._handle, 1)

    def close(self) -> None:
        """Close the job, which ends the processes that are left in it."""
        with self._lock:
            if self._handle is not None:
                handle, self._handle = self._handle, None
                self._kernel.CloseHandle(handle)
