"""Inspector: the servers that the page shows, and what it can ask for; :mod:`.page_server` serves the page itself."""

import contextlib
import itertools
import math
import re
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..client.handlers import checked_roots
from ..errors import MCPError
from ..protocol.error_text import printable
from ..revisions import REVISIONS
from ..types import Root
from ..version import __version__
from .inspected_server import InspectedServer
from .page_questions import InspectorError
from .page_server import PageFile, PageServer
from .traffic import Traffic, to_json

if TYPE_CHECKING:
    from .server_login import ServerWalk

__all__ = ["InspectedTarget", "Inspector"]


class InspectedTarget(NamedTuple):
    """A server for the inspector."""

    #: Unique among those of one inspector.
    name: str
    #: What ``connect()`` takes, or a function that returns it, which is called each time that the server is opened.
    target: Any
    #: Returns further keywords of ``connect()``; called each time that the server is opened.
    options: Callable[[], Mapping[str, Any]] = dict
    #: Why it cannot be used; None if it can.
    problem: Optional[str] = None
    #: The target as people write it; None to make it of ``target``.
    text: Optional[str] = None


class Inspector:
    """The inspector of some servers; it listens from its creation on, and serves between ``start()`` and ``close()``.

    :param targets: the servers; none is opened before the page asks for it.
    :param port: to listen at, on 127.0.0.1; 0 for any free port.
    :param roots: that the servers get, unless the page gives them others.
    :param revision: the only one to accept, unless the page names another; None for the newest of each server.
    :param timeout: seconds of each request without progress, unless the page says otherwise.
    :param max_timeout: seconds of each request in all, whatever its progress; None for no limit.
    :raises OSError: it cannot listen there.
    """

    def __init__(self, targets: List[InspectedTarget], port: int = 0, roots: Sequence[Root] = (),
                 revision: Optional[str] = None, timeout: float = 60.0, max_timeout: Optional[float] = None) -> None:
        self.traffic = Traffic()
        numbers = itertools.count(1)
        self._revision = revision
        self.servers = {
            one.name: InspectedServer(one.name, one.target, one.options, self.traffic, numbers, one.problem, one.text, timeout,
                                      max_timeout)
            for one in targets}
        for server in self.servers.values():
            server.set_roots(list(roots))
        for server in self.servers.values():
            server.announce()
        #: Guards the latest walk of each server, by its name; held for dictionary work, and for starting a thread.
        self._lock = threading.Lock()
        self._walks: Dict[str, ServerWalk] = {}
        self._thread: Optional[threading.Thread] = None
        actions: Dict[str, Callable[[Dict[str, Any]], Any]] = {
            "open": self._open, "close": self._close_server, "lists": self._lists, "call": self._call, "cancel": self._cancel,
            "complete": self._complete, "answer": self._answer, "roots": self._roots, "sampling": self._sampling,
            "model": self._model,
            "clear": self._clear, "export": self._export,
            "compare": self._compare, "kits": self._kits, "doctor": self._doctor, "login": self._login, "stop": self._stop,
            "task": self._task}
        reads = {"state": self._state, "record": self._record, "message": self._message}
        self._page = PageServer(port, reads, actions, self.traffic)
        self.port = self._page.port

    @property
    def url(self) -> str:
        """The address to open in a browser, with the token, which works once."""
        return self._page.url

    def start(self) -> "Inspector":
        """Serve on a thread of its own, until :meth:`close`."""
        self._thread = threading.Thread(target=self._page.serve_forever, args=(0.1,), name="mcplite inspector", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Close the page's connections, the servers and their processes; return when they have ended. Idempotent."""
        if self._thread is not None:
            self._page.shutdown()
            self._thread.join()
            self._thread = None
        self._page.server_close()
        with self._lock:
            walks = list(self._walks.values())
        ends = [*(server.end for server in self.servers.values()), *(walk.end for walk in walks)]
        closers = [threading.Thread(target=end, name="mcplite inspector ends", daemon=True) for end in ends]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()
        self.traffic.close()
        self._page.end_connections()

    def __enter__(self) -> "Inspector":
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- what the page asks for --------------------------------------------------------------------------------

    def _state(self, query: Mapping[str, str]) -> PageFile:
        state = {"servers": [server.values() for server in self.servers.values()],
                 "revisions": [revision.name for revision in reversed(REVISIONS)], "version": __version__}
        return PageFile("application/json", to_json(state).encode("ascii"))

    def _server(self, body: Dict[str, Any]) -> InspectedServer:
        name = _member(body, "server", str)
        if name not in self.servers:
            raise InspectorError(f"there is no server {name[:100]!r}", 404)
        return self.servers[name]

    def _open(self, body: Dict[str, Any]) -> Any:
        self._server(body).open(self._revision_in(body))
        return {}

    def _revision_in(self, body: Dict[str, Any]) -> Optional[str]:
        """Return the only revision to open a server in; None for the newest."""
        revision: Optional[str] = _member(body, "revision", str, None)
        if revision is not None and revision not in [one.name for one in REVISIONS]:
            raise InspectorError(f"there is no revision {revision[:100]!r}")
        return revision or self._revision

    def _close_server(self, body: Dict[str, Any]) -> Any:
        self._server(body).close()
        return {}

    def _lists(self, body: Dict[str, Any]) -> Any:
        return {"items": self._server(body).list_items(_member(body, "kind", str))}

    def _call(self, body: Dict[str, Any]) -> Any:
        server, method = self._server(body), _member(body, "method", str)
        params, timeout = _member(body, "params", dict, None), _member(body, "timeout", (int, float), None)
        if not method:
            raise InspectorError("give a method, such as tools/call")
        if not isinstance((params or {}).get("_meta", {}), dict):
            raise InspectorError("_meta in the params must be an object")
        if timeout is not None and not 0 < timeout < math.inf:
            raise InspectorError("the timeout must be a positive number of seconds")
        return {"call": server.call(method, params, timeout)}

    def _cancel(self, body: Dict[str, Any]) -> Any:
        number = _member(body, "call", int)
        if not any(server.cancel(number) for server in self.servers.values()):
            raise InspectorError(f"there is no call {number}", 404)
        return {}

    def _complete(self, body: Dict[str, Any]) -> Any:
        server = self._server(body)
        params = {"ref": _member(body, "ref", dict), "argument": _member(body, "argument", dict)}
        context = _member(body, "context", dict, None)
        if context:
            params["context"] = context
        try:
            answer = server.client().request("completion/complete", params, timeout=10.0)
        except MCPError as error:
            raise InspectorError(printable(str(error)), 502) from error
        found = answer.get("completion")
        found = found if isinstance(found, dict) else {}
        values = found.get("values")
        return {"values": [value for value in values if isinstance(value, str)] if isinstance(values, list) else [],
                "total": found.get("total"), "hasMore": found.get("hasMore")}

    def _answer(self, body: Dict[str, Any]) -> Any:
        number, result, error = (_member(body, "question", int), _member(body, "result", dict, None),
                                 _member(body, "error", dict, None))
        if (result is None) == (error is None):
            raise InspectorError("give a result or an error, and not both")
        if not any(server.questions.answer(number, result, error) for server in self.servers.values()):
            raise InspectorError("this question is not open any more", 404)
        return {}

    def _roots(self, body: Dict[str, Any]) -> Any:
        server, given = self._server(body), _member(body, "roots", list)
        roots = []
        for one in given:
            if (not isinstance(one, dict) or not isinstance(one.get("uri"), str)
                    or not isinstance(one.get("name"), (str, type(None)))):
                raise InspectorError("each root needs a uri, and may have a name")
            roots.append(Root(uri=one["uri"], name=one.get("name")))
        try:
            server.set_roots(checked_roots(roots))
        except (TypeError, ValueError) as error:
            raise InspectorError(str(error)) from error
        return {}

    def _sampling(self, body: Dict[str, Any]) -> Any:
        server, mode, canned = self._server(body), _member(body, "mode", str), _member(body, "canned", dict, None)
        if mode not in ("ask", "canned") or (mode == "canned") != (canned is not None):
            raise InspectorError("the mode is 'ask', or 'canned' with the result in 'canned'")
        server.questions.set_canned(canned)
        return {}

    def _model(self, body: Dict[str, Any]) -> Any:
        number, provider = _member(body, "question", int), _member(body, "provider", str)
        model, key = _member(body, "model", str), _member(body, "key", str)
        if provider not in ("anthropic", "openai") or not model or not key:
            raise InspectorError("give a provider, which is anthropic or openai, the name of a model, and a key of its API")
        for server in self.servers.values():
            result = server.questions.ask_model(number, provider, model, key)
            if result is not None:
                return {"result": result}
        raise InspectorError("this question is not open any more", 404)

    def _clear(self, body: Dict[str, Any]) -> Any:
        self.traffic.clear(self._server(body).name)
        return {}

    def _export(self, body: Dict[str, Any]) -> Any:
        from .exports import export

        name, text = export(self.traffic, self.servers, _member(body, "message", int), _member(body, "as", str))
        return {"filename": name, "text": text}

    def _compare(self, body: Dict[str, Any]) -> Any:
        from .comparison import compare

        return {"revisions": compare(self._server(body))}

    def _kits(self, body: Dict[str, Any]) -> Any:
        from .comparison import kits

        return kits(self._server(body))

    def _doctor(self, body: Dict[str, Any]) -> Any:
        server = self._server(body)
        if server.url is None:
            from .server_login import NO_STEPS

            self._walked(server, NO_STEPS)
            return {}
        return self._walk(server, server.url, False, None)

    def _login(self, body: Dict[str, Any]) -> Any:
        server, revision = self._server(body), self._revision_in(body)
        if server.url is None:
            raise InspectorError("a server that is started here needs no login")
        return self._walk(server, server.url, True, revision)

    def _walk(self, server: InspectedServer, url: str, login: bool, revision: Optional[str]) -> Any:
        """Begin a walk, unless a walk of this kind runs already for the server.

        :param revision: to open the server in, after a login.
        """
        from .server_login import ServerWalk

        def logged_in() -> None:
            # Nothing happens if another request has opened the server meanwhile, or if the inspector has ended.
            with contextlib.suppress(InspectorError):
                server.open_if_closed(revision)

        with self._lock:
            walk = self._walks.get(server.name)
            if walk is not None and not walk.over:
                if walk.login == login:
                    return {}
                raise InspectorError(f"{server.name} is being looked at: wait for the end of the steps, or stop them", 409)
            self._walks[server.name] = ServerWalk(url, server.headers, login, lambda values: self._walked(server, values),
                                                  logged_in)
        return {}

    def _walked(self, server: InspectedServer, values: Mapping[str, Any]) -> None:
        self.traffic.set("walk", server.name, {"server": server.name, **values})

    def _stop(self, body: Dict[str, Any]) -> Any:
        with self._lock:
            walk = self._walks.get(self._server(body).name)
        if walk is not None:
            walk.end()
        return {}

    def _task(self, body: Dict[str, Any]) -> Any:
        return {"task": self._server(body).task(_member(body, "task", str))}

    def _record(self, query: Mapping[str, str]) -> PageFile:
        from .exports import record_of_server

        server = self._server({"server": query.get("server", "")})
        name = re.sub("[^A-Za-z0-9.-]+", "_", server.name)[:60].strip("._") or "server"
        text = record_of_server(self.traffic, server)
        return PageFile("application/jsonl; charset=utf-8", text.encode("utf-8", "replace"), f"{name}.jsonl")

    def _message(self, query: Mapping[str, str]) -> PageFile:
        number = query.get("message", "")
        message = self.traffic.find(int(number)) if re.fullmatch("[0-9]{1,15}", number) else None
        if message is None:
            raise InspectorError("this message is not kept any more", 404)
        return PageFile("text/plain; charset=utf-8", message.raw.decode("utf-8", "backslashreplace").encode("utf-8"))


_MISSING: Any = object()


def _member(body: Mapping[str, Any], name: str, kind: Any, default: Any = _MISSING) -> Any:
    """Return a member of a body.

    :raises InspectorError: it is missing and has no default, or of another type.
    """
    value = body.get(name, default)
    if value is _MISSING:
        raise InspectorError(f"{name!r} is missing")
    if value is None and default is None:
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        words = {str: "a string", dict: "an object", list: "a list", int: "a whole number", (int, float): "a number"}
        raise InspectorError(f"{name!r} must be {words[kind]}")
    return value
