"""Logs of requests: a line for each, an audit log, the header ``Server-Timing``, and log records as JSON.

The facts of a request are attributes of the log record (``extra=``), so that any formatter and any collector can read them.
:class:`JSONFormatter` writes each record as one JSON object a line, with the request that its thread serves.
"""

import contextlib
import errno
import json
import logging
import os
import time
from typing import Any, Callable, Collection, Dict, Iterator, Optional, Union

from ..errors import InternalError, RemoteError
from ..rpc.tracing import mask, masked
from ..server.handling.context import CURRENT, Context
from .call_limits import Proceed, names_in

__all__ = ["AuditLog", "JSONFormatter", "LogRequests", "ServerTiming"]


def _stamp(seconds: float) -> str:
    """Return a time in UTC as RFC 3339 has it, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"


def _facts(ctx: Context) -> Dict[str, Any]:
    """Return the facts about a request, as JSON; unknown facts are left out."""
    named = ctx.params.get("name", ctx.params.get("uri"))
    trace = ctx.trace_context.get("traceparent", "").split("-")
    client = ctx.client_info
    facts = {"method": ctx.method, "name": named[:200] if isinstance(named, str) else None, "request_id": ctx.request_id,
             "principal": None if ctx.principal is None else ctx.principal.subject,
             "client": None if client is None else client.name, "remote": None if ctx.http is None else ctx.http.remote,
             "trace_id": trace[1] if len(trace) > 2 else None, "task_id": ctx.task_id}
    return {name: value for name, value in facts.items() if value is not None and value != ""}


@contextlib.contextmanager
def _outcome(facts: Dict[str, Any]) -> Iterator[Callable[[Dict[str, Any]], Dict[str, Any]]]:
    """Add to the facts of a request how it has ended and after how many milliseconds.

    The block gets a function, which it calls with the result; it returns what the function returns.
    """
    begun = time.monotonic()

    def ended(result: Dict[str, Any]) -> Dict[str, Any]:
        facts["outcome"] = "tool_error" if result.get("isError") else "ok"
        return result

    facts["outcome"] = "error"
    try:
        yield ended
    except RemoteError as error:
        facts.update(code=error.code, error=error.message[:500])
        raise
    except Exception as error:
        facts.update(error=type(error).__name__)
        raise
    finally:
        facts["ms"] = round((time.monotonic() - begun) * 1000, 3)


class LogRequests:
    """Writes a line for each request: the method, the name, how it ended, and how long it took.

    The record's attribute ``mcp`` has these facts as a dict, with the principal, the client and the trace.

    :param logger: its name, or a logger.
    :param level: of the lines; those of requests that failed are warnings at least.
    """

    def __init__(self, logger: Union[str, logging.Logger] = "mcplite.requests", level: int = logging.INFO) -> None:
        self.logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self.level = level

    def __call__(self, ctx: Context, proceed: Proceed) -> Dict[str, Any]:
        facts = _facts(ctx)
        try:
            with _outcome(facts) as ended:
                return ended(proceed())
        finally:
            level = self.level if facts["outcome"] == "ok" else max(self.level, logging.WARNING)
            self.logger.log(level, "%s %s: %s after %.1f ms", facts["method"], facts.get("name", ""), facts["outcome"],
                            facts["ms"], extra={"mcp": facts})


class ServerTiming:
    """Adds the header ``Server-Timing`` to responses over HTTP, with the milliseconds that the handler took.

    A response that has become an event stream has sent its headers before, without this header.

    :param name: of the metric.
    """

    def __init__(self, name: str = "handler") -> None:
        self.name = name

    def __call__(self, ctx: Context, proceed: Proceed) -> Dict[str, Any]:
        begun = time.monotonic()
        try:
            return proceed()
        finally:
            if ctx.http is not None:
                ctx.http.add_response_header("Server-Timing", f"{self.name};dur={(time.monotonic() - begun) * 1000:.3f}")


class AuditLog:
    """Notes each call of a tool before it runs, and how it has ended: who, what, with which arguments.

    A call that cannot be noted does not run. The values of arguments whose names name secrets are masked.

    :param target: a file, to which lines of JSON are appended and which only its owner can read; or a function that is called
        with each entry as a dict, and raises OSError if it cannot keep it.
    :param arguments: whether the arguments are noted.
    :param methods: that are noted; default calls of tools.
    :raises TypeError: *methods* is one text.
    """

    def __init__(self, target: "Union[str, os.PathLike[str], Callable[[Dict[str, Any]], object]]", *, arguments: bool = True,
                 methods: Collection[str] = ("tools/call",)) -> None:
        self.target, self.arguments, self.methods = target, arguments, names_in("methods", methods)

    def __call__(self, ctx: Context, proceed: Proceed) -> Dict[str, Any]:
        if ctx.method not in self.methods:
            return proceed()
        facts = _facts(ctx)
        given = {"arguments": ctx.params.get("arguments")} if self.arguments else {}
        try:
            self._write({"time": _stamp(time.time()), "event": "begun", **facts, **given})
        except OSError as error:
            raise InternalError("this call cannot be noted in the audit log, so it was not begun") from error
        try:
            with _outcome(facts) as ended:
                return ended(proceed())
        finally:
            try:
                self._write({"time": _stamp(time.time()), "event": "ended", **facts})
            except OSError:
                # The call has run, so the client gets its result.
                logging.getLogger(__name__).exception("the end of a call is missing in the audit log: %s", facts)

    def _write(self, entry: Dict[str, Any]) -> None:
        line = mask(json.dumps(entry, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace"))
        if callable(self.target):
            self.target(json.loads(line))
            return
        descriptor = os.open(self.target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            # One write, which the system appends as a whole.
            if os.write(descriptor, line + b"\n") <= len(line):
                raise OSError(errno.ENOSPC, "only a part of the entry was written", os.fspath(self.target))
        finally:
            os.close(descriptor)


#: The attributes that every log record has; all others come from ``extra=``.
_OF_RECORDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JSONFormatter(logging.Formatter):
    """Writes each log record as one JSON object on one line, for collectors of containers' logs.

    Its members are ``time`` (RFC 3339, UTC), ``level``, ``logger`` and ``message``; ``exception`` with the traceback; ``mcp``
    with the request that the thread serves, such as its method, name, principal and trace id; and what was given as
    ``extra=``, in which the values of keys that name secrets are masked at any depth. ``python -m mcplite.server FILE
    --log-json`` uses it; in a program it is given to a handler::

        handler = logging.StreamHandler()
        handler.setFormatter(mcplite.middleware.JSONFormatter())
        logging.basicConfig(handlers=[handler], level="INFO")
    """

    def format(self, record: logging.LogRecord) -> str:
        try:
            message = record.getMessage()
        except Exception as error:  # as by logging.info("%d", "one"), of which logging would print a traceback
            message = f"{record.msg} ({type(error).__name__} with its arguments)"
        own: Dict[str, Any] = {"time": _stamp(record.created), "level": record.levelname.lower(), "logger": record.name,
                               "message": message}
        entry: Dict[str, Any] = {name: value for name, value in vars(record).items() if name not in _OF_RECORDS}
        ctx: Optional[Context] = CURRENT.get()
        if ctx is not None:
            entry.setdefault("mcp", _facts(ctx))
        if record.exc_info:
            own["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            own["stack"] = record.stack_info
        entry = masked({name: _plain(value) for name, value in entry.items()})
        entry = {**own, **entry, **own}  # its own members come first, and no extra one takes their place
        # ASCII, so that no encoding of a stream puts escapes of its own, or lone surrogates, into a line.
        try:
            return json.dumps(entry, allow_nan=False)
        except ValueError:  # NaN
            return json.dumps({name: _text(value) for name, value in entry.items()})


def _plain(value: Any) -> Any:
    """Return a value as the JSON that is written of it, in which secrets can be masked."""
    try:
        return json.loads(json.dumps(value, default=_text))
    except (TypeError, ValueError, RecursionError):  # keys that are no text, or a circle
        return _text(value).replace("'", '"')


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__}, which raises {type(error).__name__}>"
