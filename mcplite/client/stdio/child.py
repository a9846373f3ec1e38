"""One child process: started with three pipes, watched, and ended with its whole process group.

The stdio channel has one. The first part of this module makes its arguments and its environment, and explains why it cannot be
started. The second part is about the process that runs: signals, groups and exit codes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ...errors import TransportError
from ...protocol.error_text import Option, OptionText
from ...rpc.deadline import Deadline, poll_until
from ...rpc.forks import renew
from ...rpc.stdio.descriptors import PIPE_CLOSED, make_pipe
from ...rpc.threads import start_thread
from ...rpc.tracing import get_logger
from .stderr import StderrPump, StderrTarget, open_sink

__all__ = ["Child", "DEFAULT_ENVIRONMENT", "UNKNOWN", "child_arguments", "child_environment", "describe_exit", "label"]

_log = get_logger(__name__)
if sys.platform == "win32":
    _NAMES = (
        "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
    )
    _PROXIES: Tuple[str, ...] = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
else:
    _NAMES = (
        "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER",
    )
    _PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
#: The variables that name the files of trusted certificates. Behind a proxy that opens TLS, npx and uvx need them.
_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
#: The variables that each child inherits (STD-28, NS-32, SEC-61): those by which a program finds its files, its
#: helpers, its encoding and its way to the network. A proxy with a user name or a password is not inherited. All others,
#: and so every credential in our own environment, reach a child only through ``env=``.
DEFAULT_ENVIRONMENT = (*_NAMES, *_PROXIES, *_CERTIFICATES)
#: Arguments that are not private, and stand before the one that names the server.
_PLAIN_FLAGS = {"-m", "-u", "-y", "--yes"}
_LABEL_LENGTH = 80
#: The module by which files are served.
_SERVER = __name__.rpartition(".client.")[0] + ".server"
#: An address without its scheme.
_ADDRESS = r"((?P<here>localhost|127(\.\d+){3}|\[::1\])|[\w-]+(\.[\w-]+)*\.[a-z]{2,})(?P<port>:\d+)?(?P<path>/.*)?"


def child_environment(env: Optional[Mapping[str, str]] = None,
                      source: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """Return the whole environment of a child.

    Values that begin with ``()`` are shell functions and are not inherited. Neither is a proxy with an ``@``, which stands
    behind a user name or a password, nor ``HTTP_PROXY`` in a CGI script, where the header ``Proxy`` of a request sets it.

    :param env: added to the defaults, which it overrides; ``os.environ`` passes all variables on.
    :param source: where the defaults come from; our own environment when None.
    :raises TypeError: *env* has a name or a value that is not a string.
    :raises TransportError: *env* has a name or a value that no environment can hold.
    """
    inherited = os.environ if source is None else source
    result = {name: inherited[name] for name in DEFAULT_ENVIRONMENT
              if name in inherited and not inherited[name].startswith("()")
              and not (name in _PROXIES and "@" in inherited[name])}
    if "REQUEST_METHOD" in inherited:
        result.pop("HTTP_PROXY", None)
    for name, value in ({} if env is None else env).items():
        # The value may be a secret: it is never part of a message.
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env: {name!r} must be a string with a string value, not {type(value).__name__}")
        if not name or "=" in name or "\0" in name + value:
            raise TransportError(f"env: {name!r} cannot be an environment variable: a name is not empty and has"
                                 f" no '=', and neither name nor value has a NUL character")
        result[name.upper() if sys.platform == "win32" else name] = value
    return result


def child_arguments(command: Sequence[str]) -> List[str]:
    """Return *command* as a list that can be started.

    :param command: the program and its arguments; no shell is involved, so nothing needs quoting.
    :raises TypeError: it is one string, or has an item that is neither a string nor a path.
    :raises TransportError: it is empty, or an item has a NUL character.
    """
    if isinstance(command, (str, bytes)):
        raise TypeError(f"command must be a list such as ['python', 'server.py'], not the {type(command).__name__}"
                        f" {command!r}; shlex.split() makes a list of a command line")
    arguments = []
    for item in command:
        text = os.fspath(item) if isinstance(item, os.PathLike) else item
        if not isinstance(text, str):
            raise TypeError(f"command: {item!r} must be a string, not {type(item).__name__}")
        if "\0" in text:
            raise TransportError(f"command: {text!r} has a NUL character, which no argument can hold")
        arguments.append(text)
    if not arguments or not arguments[0]:
        raise TransportError("command is empty: give the program and its arguments, such as ['python', 'server.py']")
    return arguments


def label(arguments: Sequence[str]) -> str:
    """Return how errors and logs name a command: the program and what it runs, but no further arguments.

    Arguments may hold keys and passwords, and names go to logs.
    """
    if list(arguments[1:3]) == ["-m", _SERVER] and len(arguments) > 3:
        arguments = arguments[3:]  # the name of what is served says more than the command that serves it
    words = [os.path.basename(arguments[0]) or arguments[0]]
    for argument in arguments[1:]:
        if argument in _PLAIN_FLAGS:
            words.append(argument)
            continue
        if not argument.startswith("-") and "://" not in argument:
            words.append(argument)
        break
    text = " ".join(word if word.isprintable() else repr(word) for word in words)
    return text if len(text) <= _LABEL_LENGTH else text[:_LABEL_LENGTH] + "..."


def spawn(arguments: List[str], *, env: Dict[str, str], cwd: Optional[str], stdin: int, stdout: int,
          stderr: Optional[int], pass_fds: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
    """Start a program without a shell, as the leader of a session and process group of its own.

    :param arguments: from ``child_arguments``.
    :param env: the whole environment.
    :param cwd: the working directory; None is ours.
    :param stdin: the descriptor that becomes the child's stdin; likewise *stdout* and *stderr*.
    :param stderr: None lets the child write to our own stderr.
    :param pass_fds: other descriptors that the child inherits under their numbers; on Windows there are none.
    :raises TransportError: it cannot be started; the text says why and what to try. No process and no descriptor is left.
    """
    options: Dict[str, Any] = {}
    if sys.platform == "win32":
        from . import windows

        arguments = windows.resolve(arguments, env)
        options["creationflags"] = windows.CREATION_FLAGS
    else:
        options["start_new_session"] = True
    try:
        return subprocess.Popen(arguments, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0, env=env, cwd=cwd,
                                close_fds=True, pass_fds=pass_fds, **options)
    except (OSError, ValueError) as error:
        found = re.fullmatch(_ADDRESS, arguments[0])
        if found and (found["here"] or found["port"]) and not os.path.exists(arguments[0]):
            raise TransportError(f"{_meant(arguments[0])}; there is no program {arguments[0]}") from error
        reason = _reason(error, arguments[0], env, cwd)
        raise TransportError(OptionText(f"cannot start {label(arguments)}: ", reason)) from error


def _reason(error: Exception, program: str, env: Mapping[str, str], cwd: Optional[str]) -> str:
    """Return why the program did not start and what to do, with absolute paths (NS-33, NS-34)."""
    if cwd is not None and not os.path.isdir(cwd):
        there = "is not a directory" if os.path.exists(cwd) else "does not exist"
        return OptionText(f"the working directory {_absolute(cwd)} {there}; correct ", Option("cwd", "cwd"))
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.E2BIG:
        return "its arguments and environment are too long for this system; pass less"
    if number == errno.ENOEXEC:
        return (f"{_absolute(program, cwd)} is not a program for this machine: it has another architecture,"
                f" or is a script without a '#!' line; start it with its interpreter")
    if os.path.dirname(program):
        path = _absolute(program, cwd)
        if os.path.isdir(path):
            return f"{path} is a directory; name the program in it"
        if not os.path.exists(path):
            return f"{_meant(program) or 'give its absolute path'}; there is no file {path}"
        if number in (errno.EACCES, errno.EPERM):
            return (f"{path} is not executable; run chmod +x on it, or start it with its interpreter, such as"
                    f" [{sys.executable!r}, {path!r}]")
        if number == errno.ENOENT:
            return f"the interpreter that the '#!' line of {path} names does not exist; correct that line"
    elif number in (errno.ENOENT, errno.ENOTDIR):
        hint = f" (the Python that runs this program is {sys.executable})" if program.startswith("python") else ""
        meant = _meant(program)
        if meant:
            return f"{meant}; there is no program of this name"
        return OptionText(f"install the program {program!r}, give its absolute path{hint}, or ",
                          Option("env", "set PATH in env", "PATH=..."),
                          f"; there is none of this name on the child's PATH, which is {env.get('PATH', os.defpath)}")
    elif number in (errno.EACCES, errno.EPERM):
        return (f"make {program!r} executable, or its directory searchable, on the child's PATH, which is"
                f" {env.get('PATH', os.defpath)}")
    meant = _meant(program)
    return f"{meant}; {error}" if meant else str(error)  # Windows refuses names with a colon in words of its own


def _meant(program: str) -> str:
    """Return advice for a target that is no program, if it may mean an address, a file or a module; otherwise an empty text."""
    found = re.fullmatch(_ADDRESS, program)
    if found:
        scheme = "http" if found["here"] else "https"
        return f"for a URL write {scheme}://{program}{'' if found['path'] else '/mcp'}"
    if os.path.isfile(program + ".py"):
        return f"for the file {program}.py write its whole name"
    if program.isidentifier() and find_spec(program) is not None:
        return f"for a server in the module {program} write {program}:name, where name is that of the Server object"
    return ""


def _absolute(path: str, base: Optional[str] = None) -> str:
    try:
        return os.path.abspath(os.path.join(base or "", path))
    except OSError:
        return path  # our own working directory was removed; there is no absolute form


#: Stands for the exit status of a process that has ended, if the program around us has reaped it: the system tells the status
#: only once.
UNKNOWN = 1 << 32
#: Seconds between two checks for the exit of a child, on a system without pidfd.
_POLL_SECONDS = 0.25
#: Seconds for the rest of a process group whose leader has ended.
_ORPHAN_SECONDS = 0.5
#: Seconds between two checks for an event that is due within moments.
_BRIEF_POLL_SECONDS = 0.01
#: Seconds for a process to exit once its pipe broke, and for its stderr to end after it.
_BRIEF_SECONDS = 0.2


def describe_exit(returncode: int) -> str:
    """Return in words how a process with this status ended."""
    if returncode == UNKNOWN:
        return "has ended; its exit status is not known, since this program has reaped the process elsewhere (SIGCHLD)"
    if returncode >= 0:
        return f"exited with status {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was killed by signal {-returncode}"


def _pipe(read: contextlib.ExitStack, write: contextlib.ExitStack) -> "tuple[int, int]":
    """Return a new pipe, whose two ends these stacks close.

    :raises TransportError: there are no more descriptors.
    """
    try:
        ends = make_pipe()
    except OSError as error:
        raise TransportError(f"cannot make a pipe to a child process: {error.strerror}") from error
    read.callback(os.close, ends[0])
    write.callback(os.close, ends[1])
    return ends


class Child:
    """A running program; its ``stdin`` and ``stdout`` are descriptors that the caller uses and closes.

    :param command: program and arguments.
    :param env: added to the small default environment.
    :param cwd: working directory; None is ours.
    :param stderr: see :func:`open_sink`; ``"inherit"`` lets the child write to our own stderr.
    :param pass_fds: other descriptors that the child inherits, on POSIX.
    :raises TransportError: it cannot be started.
    :raises TypeError: *command*, *env* or *stderr* is of a wrong type.
    """

    def __init__(self, command: Sequence[str], *, env: Optional[Mapping[str, str]] = None,
                 cwd: "Union[None, str, os.PathLike[str]]" = None, stderr: StderrTarget = None,
                 pass_fds: Sequence[int] = ()) -> None:
        arguments = child_arguments(command)
        environment = child_environment(env)
        folder = None if cwd is None else os.fspath(cwd)
        #: The process that started it; a fork of that process must not end it.
        self.owner = os.getpid()
        self._pump: Optional[StderrPump] = None
        #: Set when the watching thread is to end.
        self._stop_watching = threading.Event()
        #: Whether ``exit_fd`` is a pidfd, which becomes readable at the very exit.
        self._has_pidfd = False
        with contextlib.ExitStack() as undo:
            theirs = contextlib.ExitStack()
            undo.callback(theirs.close)
            stdin, self.stdin = _pipe(read=theirs, write=undo)
            self.stdout, stdout = _pipe(read=undo, write=theirs)
            errors: Optional[int] = None
            if stderr != "inherit":
                sink = open_sink(stderr)
                undo.callback(sink.close)
                with contextlib.ExitStack() as unread:
                    ours, errors = _pipe(read=unread, write=theirs)
                    self._pump = StderrPump(ours, sink, label(arguments))
                    undo.callback(self._pump.discard)
                    unread.pop_all()
            self._process = spawn(arguments, env=environment, cwd=folder, stdin=stdin, stdout=stdout, stderr=errors,
                                  pass_fds=pass_fds)
            theirs.close()
            self.pid = self._process.pid
            self.name = f"{label(arguments)} (pid {self.pid})"
            undo.callback(self._process.wait)
            if sys.platform == "win32":
                undo.callback(self._process.kill)  # until the process, which is suspended, is in its job
                from . import windows

                self._job = windows.Job(self._process, self.name)
            undo.callback(self._kill)
            self.exit_fd = self._open_exit_fd(undo)
            if self._pump is not None:
                self._pump.start()
            undo.pop_all()

    def _open_exit_fd(self, undo: contextlib.ExitStack) -> int:
        """Return a descriptor that becomes readable when the process ends; the caller closes it."""
        if hasattr(os, "pidfd_open"):
            try:
                exit_fd: int = os.pidfd_open(self.pid)
            except OSError as error:
                _log.debug("no pidfd for %s: %s", self.name, error)  # an old kernel, or a sandbox forbids it
            else:
                undo.callback(os.close, exit_fd)
                self._has_pidfd = True
                return exit_fd
        with contextlib.ExitStack() as unstarted:
            read_end, write_end = _pipe(read=undo, write=unstarted)
            undo.callback(self._stop_watching.set)
            # Ended by the exit of the process, or by _stop_watching; blocks on its tick alone.
            start_thread(lambda: self._watch(write_end), f"mcplite watch of {self.name}")
            unstarted.pop_all()
        return read_end

    def _watch(self, write_end: int) -> None:
        # The exit is reported also if this thread fails. Then the connection ends as if the process had ended.
        try:
            while not self._stop_watching.is_set():
                if sys.platform == "win32":
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(_POLL_SECONDS)
                        # Pipes cannot be polled on Windows: with the grandchildren ended, a blocked read sees EOF.
                        self._job.terminate()
                        break
                elif self._stop_watching.wait(_POLL_SECONDS) or self.returncode is not None:
                    break
        finally:
            self._tell_exit(write_end)

    def _tell_exit(self, write_end: int) -> None:
        try:
            os.write(write_end, b"\0")  # closing is not enough: a process that was forked meanwhile has the pipe open, too
        except OSError as error:
            if error.errno != PIPE_CLOSED:  # if the pipe is closed, no channel waits for the exit any more
                raise
        finally:
            os.close(write_end)

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that it wrote to stderr."""
        return "" if self._pump is None else self._pump.tail

    @property
    def returncode(self) -> Optional[int]:
        """The exit status, negative for a signal; None while it runs, and :data:`UNKNOWN` if the host has reaped the process.

        The process is not reaped here: while it is a zombie, its id, and so the id of its group, cannot be
        given to another process.
        """
        if sys.platform != "win32" and self._process.returncode is None and hasattr(os, "waitid"):
            try:
                ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            except ChildProcessError:
                # The process was reaped meanwhile: by us, or by the host program, which ignores SIGCHLD or waits for any child.
                # subprocess would say 0.
                if self._process.returncode is None:
                    self._process.returncode = UNKNOWN
                return self._process.returncode
            except OSError as error:
                _log.debug("the state of %s is not known: %s", self.name, error)
                return None
            if ended is None:
                return None
            status: int = ended.si_status
            return status if ended.si_code == os.CLD_EXITED else -status
        return self._process.poll()

    def wait_briefly(self) -> Optional[int]:
        """Give an ending process a moment to exit, and its stderr to arrive; return its status, None if it still runs."""
        poll_until(lambda: self.returncode is not None, Deadline(_BRIEF_SECONDS), _BRIEF_POLL_SECONDS)
        if self.returncode is not None and self._pump is not None:
            self._pump.wait(_BRIEF_SECONDS)
        return self.returncode

    def end(self, grace: float, signal_seconds: float) -> None:
        """End the process, whose stdin was closed, and the rest of its group (STD-09, REL-13).

        Its stdout is read meanwhile, so that it does not block on a full pipe (REL-18).

        :param grace: seconds to exit before SIGTERM.
        :param signal_seconds: seconds after SIGTERM, and again after SIGKILL.
        """
        if os.getpid() != self.owner:
            return
        terminate: Callable[[], object] = self._kill if sys.platform == "win32" else lambda: self._signal(signal.SIGTERM)
        for seconds, step in ((grace, terminate), (signal_seconds, self._kill),
                              (signal_seconds, lambda: _log.warning("%s does not end, not even after SIGKILL", self.name))):
            exited = self._wait_exit(seconds)
            if exited:
                break
            step()
        self._end_orphans(exited)
        self._stop_watching.set()
        if self._pump is not None:
            self._pump.wait(_BRIEF_SECONDS)
            self._pump.stop(_BRIEF_SECONDS)

    def kill(self) -> None:
        """End the process group at once."""
        if os.getpid() == self.owner and self._process.returncode is None:
            self._kill()
            self.end(_BRIEF_SECONDS, _BRIEF_SECONDS)

    def let_go(self) -> None:
        """Drop the child in a forked process: it belongs to the parent."""
        renew(self)
        if self._pump is not None:
            self._pump.let_go()
        self._process.returncode = 0  # so that subprocess does not wait for it

    def _wait_exit(self, seconds: float) -> bool:
        """Wait for the exit, and discard stdout meanwhile; return whether the process has exited."""
        if sys.platform == "win32" or not hasattr(select, "poll"):
            return poll_until(lambda: self.returncode is not None, Deadline(seconds), _BRIEF_POLL_SECONDS)
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self.exit_fd, select.POLLIN)
        poll.register(self.stdout, select.POLLIN)
        # Another thread may still read, and take what poll has announced: never block in read.
        os.set_blocking(self.stdout, False)
        while self.returncode is None:
            pause = deadline - time.monotonic()
            if pause <= 0:
                return False
            ready = {fd for fd, _ in poll.poll(1000 * (pause if self._has_pidfd else min(pause, _BRIEF_POLL_SECONDS)))}
            if self.exit_fd in ready:
                return True
            if self.stdout in ready and not self._discard_output():
                poll.unregister(self.stdout)
        return True

    def _discard_output(self) -> bool:
        """Read and discard what stdout holds; return False at its end."""
        try:
            return bool(os.read(self.stdout, 65536))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _kill(self) -> None:
        if sys.platform == "win32":
            self._job.terminate()
        else:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> bool:
        """Signal the whole group; return whether it has any process."""
        if sys.platform != "win32":
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):  # the latter is how macOS reports a group of zombies
                return False
        return True

    def _end_orphans(self, exited: bool) -> None:
        """Reap the process and end the rest of its group.

        :param exited: whether the process is known to have exited, even if the system does not tell its status.
        """
        if sys.platform == "win32":
            self._job.close()
            self._process.poll()
            return
        exited = self.returncode is not None or exited
        if not exited or self._process.returncode is not None:
            return  # it still runs, or the host reaped it and another process may have its id
        # Signal the group before its leader is reaped: until then no other group can have the id. Afterwards a group keeps its
        # id while it has a process. A new group with the same id within one tick is not to be expected.
        self._signal(signal.SIGTERM)
        status = self.returncode
        self._process.wait()
        if status is not None:
            self._process.returncode = status  # subprocess would say 0 if the host has reaped it in this moment
        if not poll_until(lambda: not self._signal(0), Deadline(_ORPHAN_SECONDS), _BRIEF_POLL_SECONDS):
            self._signal(signal.SIGKILL)
