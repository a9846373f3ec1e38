"""One running handler: its context variables and its answer."""

import contextvars
from typing import Any, Callable, Dict, Optional

from ..errors import RemoteError
from .handling.context import CURRENT, Context
from .handling.dispatch import dispatch

__all__ = ["serve"]


def serve(context: Context, own: Optional[Callable[..., Any]]) -> None:
    """Answer one request on the present thread.

    It runs in a copy of the context variables, so that what a handler sets is gone when the thread
    takes the next request (REL-67).
    """
    contextvars.copy_context().run(_serve, context, own)


def _serve(context: Context, own: Optional[Callable[..., Any]]) -> None:
    CURRENT.set(context)
    result: Optional[Dict[str, Any]]
    try:
        result = dispatch(context, own)
    except RemoteError as error:
        if context.unanswered is None:
            refusal = context.session.refuse(error)
            if refusal is error:
                raise
            raise refusal from error
        result = None
    except BaseException:
        if context.unanswered is None:
            raise
        result = None
    # First of all: whatever a handler made of its own end, it has asked something.
    if context.unanswered is not None:
        result = context.unanswered
    context.flush()
    context.respond(result)
