"""A connection to PostgreSQL whose waits end; loaded on the first use, since it imports psycopg."""

import time
from typing import Any, Generator, TypeVar

import psycopg

__all__ = ["LimitedConnection"]

T = TypeVar("T")


class LimitedConnection(psycopg.Connection[Any]):
    """A connection on which no operation waits longer than :attr:`limit`.

    libpq has limits for the time of a statement, which the server keeps, and for data that is not acknowledged. A server
    process that hangs keeps neither.
    """

    #: Seconds for one operation.
    limit = 5.0

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        return super().wait(self._limited(gen), *args, **options)

    def _limited(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        until = time.monotonic() + self.limit
        try:
            wanted = next(gen)
            while True:
                # psycopg sends 0 several times a second while the socket is not ready.
                ready = yield wanted
                if not ready and time.monotonic() >= until:
                    raise psycopg.OperationalError(f"no answer within {self.limit:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
