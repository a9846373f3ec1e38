"""One running handler: its context variables and its answer.

May import: server.context, server.dispatch
"""

import contextvars
from typing import Any, Callable, Optional

from .context import CURRENT, Context
from .dispatch import dispatch

__all__ = ["serve"]


def serve(context: Context, own: Optional[Callable[..., Any]]) -> None:
    """Answer one request on the present thread.

    It runs in a copy of the context variables, so that what a handler sets is gone when the thread
    takes the next request (REL-67).
    """
    contextvars.copy_context().run(_serve, context, own)


def _serve(context: Context, own: Optional[Callable[..., Any]]) -> None:
    incoming = context.incoming
    CURRENT.set(context)
    result = dispatch(context, own)
    context.flush()
    incoming.respond(result)
