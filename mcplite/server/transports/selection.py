"""Serves on the transport of a name, as ``Server.run`` has it; only that transport is loaded."""

from __future__ import annotations

from typing import Any, Mapping

from ..runtime.runtime import Runtime

__all__ = ["serve_forever"]


def serve_forever(runtime: Runtime, transport: str, given: Mapping[str, Any]) -> None:
    """Serve until the client disconnects (stdio) or the process is told to stop.

    :param transport: "stdio", "streamable-http", "http" or "sse".
    :param given: the options of :class:`HTTPServer` that were given.
    :raises ValueError: the transport is unknown, or an option is not valid or not for stdio.
    :raises RuntimeError: stdin and stdout are taken by another server in this process.
    :raises OSError: the port is taken.
    """
    if transport == "stdio":
        if given:
            raise ValueError(f"{', '.join(f'{name}=' for name in given)} needs HTTP: run('streamable-http', ...)")
        from .stdio import serve_stdio

        serve_stdio(runtime)
    elif transport in ("streamable-http", "http", "sse"):
        from .httpd import HTTPServer

        HTTPServer(runtime, **given).serve_forever()
    else:
        raise ValueError(f"unknown transport {transport!r}; use 'stdio' or 'streamable-http'")
