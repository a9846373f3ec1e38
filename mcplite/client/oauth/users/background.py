"""Runs a function aside, for what may never come to an end: a browser, a person who types, a host's own window."""

import contextvars
import threading
from typing import Callable, Generic, Optional, TypeVar

__all__ = ["Aside"]

_Result = TypeVar("_Result")


class Aside(Generic[_Result]):
    """Runs a function, so that who wants its result can give up; its thread blocks on the function, and ends with it.

    The function sees the context variables of who starts it. Nobody calls it off, nor waits for it at the end of the process.

    :param name: of the thread.
    """

    def __init__(self, function: Callable[..., _Result], *arguments: object, name: str) -> None:
        self._over = threading.Event()
        self._value: Optional[_Result] = None
        self._error: Optional[BaseException] = None
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._run, function, *arguments), name=name, daemon=True).start()

    def _run(self, function: Callable[..., _Result], *arguments: object) -> None:
        try:
            self._value = function(*arguments)
        except BaseException as error:  # raised again for whoever asks for the result
            self._error = error
        finally:
            self._over.set()

    @property
    def over(self) -> bool:
        """Whether the function has come to its end."""
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the function, but no longer than that; return whether it has come."""
        return self._over.wait(seconds)

    def result(self) -> Optional[_Result]:
        """Return what the function has returned, or raise what it has raised; to be asked for once, when it is over."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._value
