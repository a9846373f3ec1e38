"""Runs a function on its own thread, so that the caller can stop waiting for it.

For functions that may never return: opening a browser, reading from a terminal, a callback of the host program.
"""

import contextvars
import threading
from typing import Callable, Generic, Optional, TypeVar

__all__ = ["BackgroundCall"]

_Result = TypeVar("_Result")


class BackgroundCall(Generic[_Result]):
    """One call of a function on a daemon thread.

    The thread is started here, blocks on the function, and ends with it: it cannot be stopped, and the end of the process
    does not wait for it. The function sees the context variables of the caller.

    :param name: of the thread.
    """

    def __init__(self, function: Callable[..., _Result], *arguments: object, name: str) -> None:
        self._done = threading.Event()
        self._value: Optional[_Result] = None
        self._error: Optional[BaseException] = None
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._run, function, *arguments), name=name, daemon=True).start()

    def _run(self, function: Callable[..., _Result], *arguments: object) -> None:
        try:
            self._value = function(*arguments)
        except BaseException as error:  # raised by result()
            self._error = error
        finally:
            self._done.set()

    @property
    def done(self) -> bool:
        """Whether the function has returned or raised."""
        return self._done.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait at most *seconds* for the function to end; return whether it has."""
        return self._done.wait(seconds)

    def result(self) -> Optional[_Result]:
        """Return the function's result, or raise its error; called once, when the function is done."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._value
