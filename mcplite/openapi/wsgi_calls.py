"""Calls a WSGI application in this process with the requests of calls: no socket, no server.

The application sees a request as from a WSGI server, with the headers and the variables of the environment that the program
chooses for a call. It runs on the thread of the call; cancelling the call does not end it.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional
from urllib.parse import unquote_to_bytes, urlsplit

from ..errors import ToolError
from ..rpc.tracing import get_logger
from ..server.handling.context import Context
from .http_calls import APICalls, Headers
from .responses import APIResponse

if TYPE_CHECKING:
    #: As PEP 3333 has it.
    Application = Callable[[Dict[str, Any], Callable[..., Any]], Iterable[bytes]]
    #: Returns more variables of the environment of a request, such as ``REMOTE_USER``.
    Environ = Callable[[Context], Mapping[str, Any]]

__all__ = ["WSGICalls"]

_log = get_logger(__name__)


class WSGICalls(APICalls):
    """Calls one application.

    :param application: a WSGI callable.
    :param environ: returns variables of the environment for the context of a call; None for none.
    """

    def __init__(self, application: "Application", base_url: str, headers: Headers, environ: "Optional[Environ]", limit: int
                 ) -> None:
        super().__init__(base_url, headers, limit)
        self._application = application
        self._environ = environ

    def send_once(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes], context: Optional[Context]
                  ) -> APIResponse:
        environ = self._environment(method, url, headers, body, context)
        started: List[Any] = []
        written = io.BytesIO()

        def write(data: bytes) -> None:
            written.write(data)
            if written.tell() > self.limit:
                raise self.too_large()

        def start_response(status: str, fields: Any, exc_info: Any = None) -> Callable[[bytes], None]:
            started[:] = [int(status.split(None, 1)[0]), list(fields)]  # a wrong status raises an error in the application
            return write

        pieces: Any = None
        try:
            pieces = self._application(environ, start_response)
            for piece in pieces:
                write(piece)
                if context is not None:
                    context.check_cancelled()
        except ToolError:
            raise
        except Exception as error:
            if context is not None:
                context.check_cancelled()
            _log.exception("the WSGI application failed for %s %s", method, environ["PATH_INFO"])
            raise ToolError(f"the application failed: {type(error).__name__}") from error
        finally:
            if hasattr(pieces, "close"):
                pieces.close()
        if not started:
            raise ToolError("the application has not answered: it did not call start_response")
        found: Dict[str, str] = {}
        for name, value in started[1]:
            name = name.lower()
            found[name] = f"{found[name]}, {value}" if name in found else value
        return APIResponse(started[0], found, written.getvalue(), url.partition("?")[0])

    def _environment(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes],
                     context: Optional[Context]) -> Dict[str, Any]:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        http = None if context is None else context.http
        environ: Dict[str, Any] = {
            "REQUEST_METHOD": method, "SCRIPT_NAME": "", "QUERY_STRING": parts.query,
            "PATH_INFO": unquote_to_bytes(parts.path or "/").decode("latin-1"),
            "SERVER_NAME": parts.hostname or "localhost", "SERVER_PORT": str(port), "SERVER_PROTOCOL": "HTTP/1.1",
            "HTTP_HOST": parts.netloc, "REMOTE_ADDR": _address(None if http is None else http.remote),
            "wsgi.version": (1, 0), "wsgi.url_scheme": parts.scheme, "wsgi.input": io.BytesIO(body or b""),
            "wsgi.errors": sys.stderr, "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False,
        }
        if body is not None:
            environ["CONTENT_LENGTH"] = str(len(body))
        for name, value in headers.items():
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
        if self._environ is not None and context is not None:
            environ.update(self._environ(context))
        return environ


def _address(remote: Optional[str]) -> str:
    """Return the address of a client without its port; that of this machine, if the client is on it."""
    if not remote:
        return "127.0.0.1"
    address, colon, port = remote.rpartition(":")
    return address.strip("[]") if colon and port.isdigit() and (":" not in address or address.startswith("[")) else remote
