"""InspectedServer: one server that the inspector knows, its client, and the calls that run there.

::

    closed ── open() ──> opening ──> open ── close() ──> closed
      ^                     │          │
      └───── close() ───────┤          │ the connection is lost
                            v          v
                          failed <─────┘        open() leads on from there as well

Each call, each opening and each closing runs on a thread of its own, so that a server which does not answer holds up nothing
else. :mod:`.page_questions` has the questions of the server.
"""

import contextlib
import contextvars
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from .. import types
from ..client import Client, ClientOptions, connect
from ..client.calls import walk
from ..client.connect import command
from ..errors import Cancelled, MCPError, RemoteError
from ..protocol.error_text import printable, shown
from ..rpc.cancel import CancelToken
from ..rpc.threads import start_thread
from ..types import Progress, codec
from .page_questions import InspectorError, PageQuestions
from .traffic import Traffic

__all__ = ["InspectedServer", "LISTS", "items_of"]

#: By kind: the method of a list, its member on the wire, and the capability that a server declares for it.
LISTS = {
    "tools": ("tools/list", "tools", "tools"),
    "resources": ("resources/list", "resources", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources"),
    "prompts": ("prompts/list", "prompts", "prompts"),
    "tasks": ("tasks/list", "tasks", "tasks"),
}
#: Calls that run at once at one server, finished calls that are kept, and the bytes of their results.
_MOST_RUNNING, _MOST_FINISHED, _MOST_RESULT_BYTES = 64, 200, 16 << 20
#: Tasks that are remembered, and the characters of the id of one.
_MOST_TASKS, _LONGEST_TASK_ID = 50, 1_000
#: Characters of an error's text.
_LONGEST_ERROR = 4_000
#: The call for which the current thread runs; None for none.
_current: "contextvars.ContextVar[Optional[InspectedCall]]" = contextvars.ContextVar("mcplite inspected call", default=None)


class InspectedCall:
    """One request of the page, while it runs and after it.

    :param number: of the call, in the inspector.
    """

    def __init__(self, number: int, server: str, method: str, params: Optional[Dict[str, Any]]) -> None:
        self.number, self.server, self.method, self.params = number, server, method, params
        self.token = CancelToken()
        self.state = "running"
        self.began, self.ended = time.time(), None  # type: float, Optional[float]
        self.progress: Optional[Dict[str, Any]] = None
        self.result: Optional[Dict[str, Any]] = None
        self.error: Optional[Dict[str, Any]] = None
        #: Characters of the JSON of the latest event about this call.
        self.size = 0

    def values(self) -> Dict[str, Any]:
        """Return the members of the event."""
        return {"call": self.number, "server": self.server, "method": self.method, "params": self.params, "state": self.state,
                "began": self.began, "ended": self.ended, "progress": self.progress, "result": self.result, "error": self.error}


class _OpenClient:
    """A client, and the HTTP session through which it sends, if the server has a URL."""

    def __init__(self, client: Client, session: Any) -> None:
        self.client, self._session = client, session

    def close(self) -> None:
        """Close both; idempotent, from any thread."""
        self.client.close()
        if self._session is not None:
            self._session.close()


def error_values(error: Exception) -> Dict[str, Any]:
    """Return an error as the page gets it."""
    remote = error if isinstance(error, RemoteError) else None
    return {"code": None if remote is None else remote.code,
            "message": printable((str(error) if remote is None else remote.message) or type(error).__name__)[:_LONGEST_ERROR],
            "data": None if remote is None else remote.data, "text": f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]}


class InspectedServer:
    """One server; any thread may call its methods.

    :param name: unique in the inspector.
    :param target: what ``connect()`` takes, or a function that returns it, which is called each time that it is opened.
    :param options: returns further keywords of ``connect()``, by which the server is reached: ``env``, ``auth`` and such.
    :param traffic: records the messages, notes and states of the server.
    :param numbers: of calls and questions, in the whole inspector.
    :param problem: why it cannot be opened; None if it can.
    :param text: the target as people write it; None to make it of *target*.
    :param timeout: seconds of each request without progress, unless the page says otherwise.
    :param max_timeout: seconds of each request in all; None for no limit.
    """

    def __init__(self, name: str, target: Any, options: Callable[[], Mapping[str, Any]], traffic: Traffic,
                 numbers: Iterator[int], problem: Optional[str] = None, text: Optional[str] = None, timeout: float = 60.0,
                 max_timeout: Optional[float] = None) -> None:
        self.name, self.target = name, target
        self._options, self._traffic, self._numbers, self._text = options, traffic, numbers, text
        self._timeout, self._max_timeout = timeout, max_timeout
        self.url: Optional[str] = _url_of(target)
        #: The questions that the server asks.
        self.questions = PageQuestions(name, traffic, numbers, self._calling)
        #: Guards the fields below; held for assignments and work in memory only.
        self._lock = threading.RLock()
        self._problem = problem
        self._state = "closed" if problem is None else "failed"
        self._error = problem
        self._connection: Optional[_OpenClient] = None
        #: Counts openings and closings. By it, a thread that opens a connection notices that a newer opening, or a closing, was
        #: asked for meanwhile.
        self._turn = 0
        self._calls: Dict[int, InspectedCall] = {}
        #: The ids of the tasks that calls have started, oldest first.
        self._tasks: Dict[str, None] = {}
        self._threads: List[threading.Thread] = []
        self._borrowed: List[Client] = []
        self._roots: List[types.Root] = []
        #: The log level that the user has chosen for this connection; None if the user has chosen none.
        self._log_level: Optional[str] = None
        self._ended = False
        #: Held by a thread that opens a connection, for as long as that takes. The thread first closes the connection before,
        #: so openings follow one another. A closing without an opening does not hold it.
        self._moving = threading.Lock()

    @property
    def target_text(self) -> str:
        """The target as people write it, without what may be secret in a URL."""
        return _text_of(self.target) if self._text is None else self._text

    @property
    def argv(self) -> Optional[List[str]]:
        """The command that opening starts; None for a server that is not started, or whose command is not valid."""
        if self.url is not None or _transport_of(self.target) == "memory":
            return None
        if isinstance(self.target, str):
            try:
                return command(self.target)
            except (MCPError, ValueError):
                return None
        return list(getattr(self.target, "argv", self.target))

    # --- the connection ----------------------------------------------------------------------------------------

    def values(self) -> Dict[str, Any]:
        """Return the members of the event ``server``."""
        with self._lock:
            connection, state = self._connection, self._state
            values: Dict[str, Any] = {
                "name": self.name, "target": self.target_text, "transport": _transport_of(self.target), "state": state,
                "error": self._error, "logLevel": self._log_level, "revision": None, "info": None, "capabilities": None,
                "instructions": None}
        if state == "open" and connection is not None:
            client = connection.client
            revision = client.revision
            values.update(
                revision=revision.name, info=codec.encode(client.server_info, revision),
                capabilities=codec.encode(client.server_capabilities, revision), instructions=client.instructions)
        return values

    def announce(self) -> None:
        """Send the state to the page."""
        self._traffic.set("server", self.name, self.values())

    def open(self, revision: Optional[str] = None) -> None:
        """Begin to open a connection; one that is open is closed first.

        :param revision: the only one to accept; None for the newest that the server has.
        """
        with self._lock:
            self._check_ended()
            if self._problem is not None:
                raise InspectorError(self._problem, 409)
            if self._state == "opening":
                raise InspectorError(f"{self.name} is being opened; wait, or close it first", 409)
            before, connection = self._connection, self._new_connection(revision)
            turn = self._turn = self._turn + 1
            self._connection, self._state, self._error, self._log_level = connection, "opening", None, None
            self._spawn(lambda: self._open(turn, connection, before), "opens")
        self.announce()

    def open_if_closed(self, revision: Optional[str]) -> None:
        """Begin to open a connection, unless there is one, or one is being opened.

        :param revision: see :meth:`open`.
        """
        with self._lock:
            if self._state in ("closed", "failed"):
                self.open(revision)

    def _open(self, turn: int, connection: _OpenClient, before: Optional[_OpenClient]) -> None:
        with self._moving:
            if before is not None:
                before.close()
            error: Optional[Exception] = None
            try:
                if turn == self._turn:
                    connection.client.open()
            except Exception as failure:
                error = failure
        with self._lock:
            current = turn == self._turn
            if current:
                self._state, self._error = ("open", None) if error is None else ("failed", _worded(error))
        if current:
            self.announce()
        if not current or error is not None:
            connection.close()

    def close(self) -> None:
        """Begin to close the connection, also one that is being opened."""
        with self._lock:
            if self._problem is None:
                self._drop("closed", None)
        self.announce()

    def _drop(self, state: str, error: Optional[str]) -> None:
        """Change the state, and close the connection on another thread, also while it is being opened; called with the lock."""
        connection, self._connection = self._connection, None
        self._turn += 1
        self._state, self._error = state, error
        if connection is not None:
            self._spawn(connection.close, "closes")

    def _lost(self, turn: int, error: Exception) -> None:
        """Note that the connection has ended without :meth:`close`; on the thread of notifications."""
        with self._lock:
            if turn != self._turn or self._state != "open":
                return
            self._drop("failed", _worded(error))
        self.announce()

    def end(self) -> None:
        """Close everything for good, and return when the connection and the threads have ended."""
        with self._lock:
            self._ended = True
            calls = list(self._calls.values())
        self.close()
        for call in calls:
            call.token.cancel("the inspector has ended")
        with self._lock:
            threads, borrowed = list(self._threads), list(self._borrowed)
        self.questions.end()
        for client in borrowed:
            client.close()
        for thread in threads:
            thread.join()

    def _check_ended(self) -> None:
        if self._ended:
            raise InspectorError("the inspector has ended", 503)

    def _spawn(self, work: Callable[[], object], what: str) -> None:
        """Start a thread, which :meth:`end` waits for; called with the lock."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(start_thread(work, f"mcplite inspector {what} {self.name}"))

    def _new_connection(self, revision: Optional[str]) -> _OpenClient:
        """Return a connection whose messages are recorded, and whose questions the page answers; called with the lock."""
        name, turn, session = self.name, self._turn + 1, None
        extra: Dict[str, Any] = {}
        if self.url is not None:
            from .http_heads import RecordingSession

            session = extra["session"] = RecordingSession(lambda body, http: self._traffic.add_http(name, body, http))
        elif _transport_of(self.target) != "memory":
            extra["stderr"] = lambda line: self._traffic.note_line(name, line)

        def changed(kind: str) -> Callable[[], None]:
            return lambda: self._traffic.note("changed", {"server": name, "kind": kind})

        def resources_changed() -> None:
            changed("resources")()
            changed("templates")()

        client = self.connect(
            revision, log_handler=lambda message: None,  # with a handler, the client asks for log messages; the page has them
            options=ClientOptions(
                max_timeout=self._max_timeout, cache=False, validate=False, sampling_tools=True, sampling_context=True,
                on_message=lambda connection, direction, data: self._traffic.add(name, direction, data, connection),
                on_tools_changed=changed("tools"), on_prompts_changed=changed("prompts"),
                on_resources_changed=resources_changed,
                on_resource_updated=lambda uri: self._traffic.note("updated", {"server": name, "uri": uri}),
                on_disconnect=lambda error: self._lost(turn, error)), **extra)
        client.observe(self.questions)
        return _OpenClient(client, session)

    def connect(self, revision: Optional[str], **more: Any) -> Client:
        """Return a client of the server that is not open, with the handlers that the inspector has.

        :param more: further keywords of ``connect()``.
        """
        try:
            target = self.target() if callable(self.target) else self.target
            return connect(target, revision=revision, roots=lambda: list(self._roots),
                           elicitation_handler=self.questions.elicit, url_elicitation_handler=self.questions.elicit,
                           sampling_handler=self.questions.sample, **{"timeout": self._timeout, **self._options(), **more})
        except (MCPError, TypeError, ValueError) as error:
            raise InspectorError(_worded(error)) from error

    @contextlib.contextmanager
    def borrowed(self, revision: str, seconds: float) -> Iterator[Client]:
        """Give another client of the server, open in one revision and not recorded, for the length of the block.

        :param seconds: for opening it, and for each request.
        :raises InspectorError: the server cannot be reached with these options.
        :raises MCPError: it cannot be opened.
        """
        if self._problem is not None:
            raise InspectorError(self._problem, 409)
        client = self.connect(revision, timeout=seconds, open_timeout=seconds,
                              options=ClientOptions(max_timeout=seconds, cache=False, validate=False, listen=False)
                              if self.url else ClientOptions(max_timeout=seconds, cache=False, validate=False))
        with self._lock:
            self._check_ended()
            self._borrowed.append(client)
        try:
            with client:
                yield client
        finally:
            with self._lock:
                self._borrowed.remove(client)

    @property
    def headers(self) -> Dict[str, str]:
        """The headers that requests to its URL have; their values may be secrets."""
        return {**getattr(self.target, "headers", {}), **(self._options().get("headers") or {})}

    def client(self) -> Client:
        """Return the open client.

        :raises InspectorError: the server is not open.
        """
        with self._lock:
            if self._state != "open" or self._connection is None:
                raise InspectorError(f"{self.name} is not open: open it first", 409)
            return self._connection.client

    # --- lists and calls ---------------------------------------------------------------------------------------

    def list_items(self, kind: str) -> List[Any]:
        """Return all items of a list, as on the wire; none if the server does not declare it.

        :raises InspectorError: there is no such list, the server is not open, or it refuses.
        """
        client = self.client()
        try:
            if kind == "tasks" and not (client.server_capabilities.tasks or {}).get("list"):
                return self._started_tasks(client)
            return items_of(client, kind)
        except MCPError as error:
            raise InspectorError(_worded(error), 502) from error

    def _started_tasks(self, client: Client) -> List[Any]:
        """Return the tasks that calls of the page have started, for a server that cannot list its tasks."""
        with self._lock:
            ids = list(self._tasks)
        found = []
        for id in ids:
            try:
                found.append(client.request("tasks/get", {"taskId": id}, fresh=True))
            except RemoteError:
                with self._lock:
                    self._tasks.pop(id, None)  # the server has forgotten it
        return found

    def task(self, id: str) -> Dict[str, Any]:
        """Return a task as it is now, as on the wire.

        :raises InspectorError: the server is not open, or does not know the task.
        """
        try:
            return self.client().request("tasks/get", {"taskId": id}, fresh=True)
        except MCPError as error:
            raise InspectorError(_worded(error), 502) from error

    def _note_task(self, result: Mapping[str, Any]) -> None:
        """Remember the id of a task, if a result says that one was started; called with the lock."""
        inside = result.get("task")
        id = (inside if isinstance(inside, dict) else result if result.get("resultType") == "task" else {}).get("taskId")
        if isinstance(id, str) and len(id) <= _LONGEST_TASK_ID:
            self._tasks[id] = None
            for old in list(self._tasks)[:-_MOST_TASKS]:
                del self._tasks[old]

    def call(self, method: str, params: Optional[Dict[str, Any]], timeout: Optional[float]) -> int:
        """Begin a request; return the number of the call.

        :param timeout: seconds without progress; None for the ``timeout`` of this server.
        :raises InspectorError: the server is not open, or too many calls run.
        """
        client = self.client()
        with self._lock:
            self._check_ended()
            if sum(call.state == "running" for call in self._calls.values()) >= _MOST_RUNNING:
                raise InspectorError(f"{_MOST_RUNNING} calls of {self.name} run: wait for one, or cancel one", 429)
            call = InspectedCall(next(self._numbers), self.name, method, params)
            self._calls[call.number] = call
            self._tell(call)
            self._spawn(lambda: self._run(client, call, timeout or self._timeout), f"calls {method} at")
        return call.number

    def _run(self, client: Client, call: InspectedCall, timeout: float) -> None:
        _current.set(call)
        state, error = "done", None
        try:
            result = self._request(client, call, timeout)
        except Cancelled as failure:
            result, state, error = None, "cancelled", error_values(failure)
        except Exception as failure:
            result, state, error = None, "failed", error_values(failure)
        with self._lock:
            if result is not None:
                self._note_task(result)
            call.ended, call.result, call.error, call.state = time.time(), result, error, state
            self._tell(call)
            call.result = None  # the event has it already
            self._forget_calls()

    def _request(self, client: Client, call: InspectedCall, timeout: float) -> Dict[str, Any]:
        """Send the request, by the client's own method if the form of such a request depends on the revision."""
        params = call.params or {}
        if call.method == "logging/setLevel" and isinstance(params.get("level"), str):
            client.set_log_level(params["level"], timeout=timeout, cancel=call.token)
            with self._lock:
                if self._connection is not None and self._connection.client is client:
                    self._log_level = params["level"]
            self.announce()
            return {}
        if call.method == "resources/subscribe" and isinstance(params.get("uri"), str):
            client.subscribe_resource(params["uri"], timeout=timeout, cancel=call.token)
            return {}
        if call.method == "resources/unsubscribe" and isinstance(params.get("uri"), str):
            client.unsubscribe_resource(params["uri"], timeout=timeout, cancel=call.token)
            return {}

        def on_progress(progress: Progress) -> None:
            with self._lock:
                call.progress = {"progress": progress.progress, "total": progress.total, "message": progress.message}
                self._tell(call)

        most = None if self._max_timeout is None else max(timeout, self._max_timeout)
        return client.request(call.method, call.params, timeout=timeout, max_timeout=most, cancel=call.token,
                              on_progress=on_progress, fresh=True)

    def _calling(self) -> Optional[int]:
        """Return the number of the call that a question on this thread belongs to; None if that is not known.

        If the thread handles the question for no call, the question belongs to the only call that runs, if there is just one.
        """
        call = _current.get()
        if call is None:
            with self._lock:
                running = [one for one in self._calls.values() if one.state == "running"]
            call = running[0] if len(running) == 1 else None
        return None if call is None else call.number

    def _tell(self, call: InspectedCall) -> None:
        call.size = self._traffic.set("call", call.number, call.values())

    def _forget_calls(self) -> None:
        """Forget the oldest finished calls while there are too many; called with the lock."""
        finished = [call for call in self._calls.values() if call.state != "running"]
        size = sum(call.size for call in finished)
        for count, call in zip(range(len(finished), 1, -1), finished):  # the newest stays
            if count <= _MOST_FINISHED and size <= _MOST_RESULT_BYTES:
                break
            size -= call.size
            del self._calls[call.number]
            self._traffic.unset("call", call.number)

    def cancel(self, number: int) -> bool:
        """Cancel a call; return whether there is one."""
        with self._lock:
            call = self._calls.get(number)
        if call is None:
            return False
        call.token.cancel("cancelled in the inspector")
        return True

    def set_roots(self, roots: List[types.Root]) -> None:
        """Replace the roots, and notify the server if it is open."""
        with self._lock:
            self._roots = roots
            client = self._connection.client if self._state == "open" and self._connection is not None else None
        if client is not None:
            try:
                client.set_roots(lambda: list(self._roots))
            except MCPError as error:
                raise InspectorError(_worded(error), 502) from error


class _Page:
    """One page of a list, as :func:`walk` takes it."""

    def __init__(self, answer: Mapping[str, Any], member: str) -> None:
        items, cursor = answer.get(member), answer.get("nextCursor")
        self.items: List[Any] = items if isinstance(items, list) else []
        self.next_cursor: Optional[str] = cursor if isinstance(cursor, str) else None


def items_of(client: Client, kind: str) -> List[Any]:
    """Return the items of a list of an open client, as on the wire, from all pages.

    :raises InspectorError: there is no such list.
    :raises MCPError: the server refuses, or its list has no end.
    """
    if kind not in LISTS:
        raise InspectorError(f"there is no list {kind!r}; the lists are {', '.join(LISTS)}")
    method, member, capability = LISTS[kind]
    if getattr(client.server_capabilities, capability) is None:
        return []

    def page(cursor: Optional[str]) -> _Page:
        return _Page(client.request(method, None if cursor is None else {"cursor": cursor}, fresh=True), member)

    return walk(page, "items", client.server_info.name or "the server")


def _worded(error: Exception) -> str:
    return printable(str(error) or type(error).__name__)[:_LONGEST_ERROR]


def _url_of(target: Any) -> Optional[str]:
    url = target if isinstance(target, str) else getattr(target, "url", None)
    return url if isinstance(url, str) and url.startswith(("http://", "https://")) else None


def _transport_of(target: Any) -> str:
    if _url_of(target) is not None:
        return "http"
    if isinstance(target, str) and target.endswith(".py"):
        return "file"
    return "stdio" if isinstance(target, (str, list)) or hasattr(target, "argv") else "memory"


def _text_of(target: Any) -> str:
    """Return a target as people write it, without what may be secret in a URL."""
    url = _url_of(target)
    if url is not None:
        return shown(url)
    if hasattr(target, "argv") or isinstance(target, list):
        import shlex

        return shlex.join(getattr(target, "argv", target))
    return target if isinstance(target, str) else repr(target)
