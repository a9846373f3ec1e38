"""``ctx.store``: values of a session, of a principal or of the server, in the backend, with a time to live.

A value is JSON under a name that the author of a handler has chosen. The key in the backend is a digest of the server's name,
the owner and that name, so that a name of one owner cannot be spelled to be one of another. The backend
decides who finds a value: with ``Server(backend=...)`` every process, without one this process alone.

:meth:`StoredValues.update` compares and replaces (``Backend.swap``): of two updates at once, one finds the value of the other,
and is computed again.

The memory of one process is bounded: a :class:`ValueBudget` counts the bytes of the values there, for each client apart. A
store that processes share has its own bounds.
"""

from __future__ import annotations

import functools
import json
import secrets
import sys
import threading
import time
from typing import Any, Callable, Dict, Optional, Tuple, Type, TypeVar, Union, overload

from ...errors import SERVER_BUSY, NotSupported, RemoteError
from ...protocol.error_text import quoted
from ...protocol.jsonable import jsonable
from ...protocol.jsonrpc import encode_json
from ...protocol.opaque import digest
from ..eviction import Shares
from ..functions.converters import Mismatch
from ..functions.schemas import Schemas

__all__ = ["ContextStore", "StoredValues", "ValueBudget"]

T = TypeVar("T")
#: Seconds that a value is kept by default: a day, as long as a session may last.
_TTL_SECONDS = 86_400.0
#: Bytes that one value may have. Each change reads and writes it whole.
_MOST_BYTES = 1 << 20
#: Seconds that a value may be kept: a century. Shared stores refuse times that their clocks cannot count.
_MOST_SECONDS = 100 * 366 * 86_400.0
#: Characters of a name.
_MOST_CHARACTERS = 1024
#: Bytes that a value takes besides its JSON: its key, its time, and its entries in the dictionaries here.
_ENTRY_BYTES = 512
#: Seconds between two searches for values whose time is over.
_SWEEP_SECONDS = 1.0
#: How often an update is computed at most, if others change the value meanwhile; and the seconds of the pause after each
#: attempt from the fourth on.
_ATTEMPTS, _PAUSE_SECONDS = 200, 0.002


class ValueBudget:
    """The values that take memory in this process, which has no shared backend.

    :param most: bytes of all values together; beyond them, the client with the most bytes loses its oldest values.
    :param drop: removes a value from the memory; called with its key, and with :attr:`lock` held if the caller holds it.
    :param clock: returns seconds.
    """

    def __init__(self, most: int, drop: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        #: Held by the store while it changes a value, for dictionary work only, so that exactly the kept values are counted.
        self.lock = threading.Lock()
        self._most = most
        self._drop = drop
        self._clock = clock
        self._shares: "Shares[str]" = Shares(sys.maxsize, most)
        #: The time at which each value expires, by key.
        self._ends: Dict[str, float] = {}
        self._swept = clock()

    @property
    def bytes(self) -> int:
        """The bytes of all values."""
        return self._shares.bytes

    @property
    def most_of_one(self) -> int:
        """The bytes that one value may have."""
        return self._most - _ENTRY_BYTES

    def count(self, key: str, sender: str, size: int, seconds: float) -> None:
        """Count a value, in place of an older one with this key; remove the values that have to go for it.

        :raises RemoteError: there is no room for the value, which is removed.
        """
        now = self._clock()
        if now - self._swept >= _SWEEP_SECONDS:
            self._swept = now
            for old in [old for old, end in list(self._ends.items()) if end <= now]:
                self.forget(old)
        self._shares.remove(key)
        going = self._shares.add(key, sender, size + _ENTRY_BYTES)
        if going is None:
            self._ends.pop(key, None)
            self._drop(key)
            raise RemoteError("Server busy: there is no room for another stored value", code=SERVER_BUSY)
        self._ends[key] = now + seconds
        for old in going:
            self._ends.pop(old, None)
            self._drop(old)

    def forget(self, key: str) -> None:
        """Stop counting a value."""
        self._ends.pop(key, None)
        self._shares.remove(key)


#: Guards the making of each server's budget; held for an assignment.
_making = threading.Lock()


def _budget_of(runtime: Any) -> Optional[ValueBudget]:
    """Return the budget of a server; None if its values are in a shared backend, which has its own bounds."""
    backend = runtime.processes.backend
    if backend.shared:
        return None
    budget: Optional[ValueBudget] = runtime.value_budget
    if budget is None:
        with _making:
            budget = runtime.value_budget = runtime.value_budget or ValueBudget(runtime.limits.value_bytes, backend.take)
    return budget


@functools.lru_cache(maxsize=256)
def _reader(wanted: Any) -> Callable[[Any], Any]:
    """Return the converter from JSON to a type, as of the arguments of tools.

    :raises RegistrationError: the type has no form in JSON.
    """
    return Schemas("ctx.store", returned=True).compile(wanted, " (type=)").convert


def _typed(value: Any, wanted: Any, name: str) -> Any:
    if wanted is None:
        return value
    try:
        return _reader(wanted)(value)
    except Mismatch as error:
        kind = getattr(wanted, "__name__", wanted)
        raise ValueError(f"the stored value {name!r} is no {kind}: {error.sentence()}; if the type has changed since it was"
                         " stored, give its new members defaults, or delete the value") from error


class StoredValues:
    """The values of one owner: ``ctx.store.session``, ``ctx.store.principal`` or ``ctx.store.server``.

    A name is a text of your choice. A value is anything that a tool can return and JSON can carry, such as a dict or a
    dataclass, but not None, which stands for no value.

    A value is gone when its time is over. Without a shared backend it is gone with the process, and may go earlier: if the
    values of all clients take more than a sixteenth of ``Limits.memory_bytes``, the client with the most bytes loses its
    oldest values.

    Each method raises :class:`RemoteError` ("Server busy") if the backend cannot be reached, and TypeError for a name that is
    no text. A method that stores a value also raises RemoteError if there is no room for it, as each other client has less;
    then there is no value.
    """

    def __init__(self, runtime: Any, owner: Tuple[str, ...], sender: str) -> None:
        self._runtime = runtime
        self._owner = owner
        self._sender = sender

    @overload
    def get(self, name: str, default: Any = None) -> Any: ...

    @overload
    def get(self, name: str, default: T, *, type: Type[T]) -> T: ...

    @overload
    def get(self, name: str, default: None = None, *, type: Type[T]) -> Optional[T]: ...

    def get(self, name: str, default: Any = None, *, type: Any = None) -> Any:
        """Return a value.

        :param default: what is returned if there is none.
        :param type: of the result, such as a dataclass; by default JSON data as it was stored.
        :raises ValueError: the value does not fit the type.
        """
        data = self._do(lambda backend, key: backend.get(key), name)
        return default if data is None else _typed(json.loads(data), type, name)

    def put(self, name: str, value: Any, *, ttl: float = _TTL_SECONDS) -> None:
        """Store a value, in the place of an older one.

        :param ttl: seconds for which it is kept; default a day, at most a century.
        :raises TypeError: the value has no form in JSON.
        :raises ValueError: it is None, has more than a megabyte or than all values may take, holds a number that JSON does not
            have, or *ttl* is not positive or is more than a century.
        """
        data = self._encoded(value, name, ttl)
        self._change(lambda backend, key: backend.put(key, data, ttl), name, data, ttl)

    def take(self, name: str, default: Any = None, *, type: Any = None) -> Any:
        """Return a value and remove it, in one step: of several callers one gets it.

        :param default, type: as for :meth:`get`.
        :raises ValueError: the value does not fit the type; it is removed all the same.
        """
        data = self._change(lambda backend, key: backend.take(key), name)
        return default if data is None else _typed(json.loads(data), type, name)

    def delete(self, name: str) -> bool:
        """Remove a value; return whether there was one."""
        return self._change(lambda backend, key: backend.take(key), name) is not None

    def swap(self, name: str, old: Any, new: Any, *, ttl: float = _TTL_SECONDS) -> bool:
        """Replace a value if it still equals *old*, in one step; return whether it did.

        :param old: as it was read; None if there must be no value.
        :param new: None removes the value.
        :param ttl: seconds for which the new value is kept; default a day.
        :raises TypeError, ValueError: as for :meth:`put`.
        """
        expected = jsonable(old)
        data = None if new is None else self._encoded(new, name, ttl)
        found = self._do(lambda backend, key: backend.get(key), name)
        if (None if found is None else json.loads(found)) != expected:
            return False
        return self._swap(name, found, data, ttl)

    def update(self, name: str, change: Callable[[Any], Any], default: Any = None, *, type: Any = None,
               ttl: float = _TTL_SECONDS) -> Any:
        """Replace a value by ``change(value)``, and return the new one; no change of another call or process is lost.

        :param change: called with the value, or with *default*, and again if the value has changed meanwhile, so it must have
            no effects of its own. None as its result removes the value.
        :param type: as for :meth:`get`.
        :param ttl: seconds for which the new value is kept; default a day.
        :raises TypeError, ValueError: as for :meth:`put` and :meth:`get`.
        :raises RemoteError: the value is changed too often at present.
        """
        for attempt in range(_ATTEMPTS):
            found = self._do(lambda backend, key: backend.get(key), name)
            new = change(default if found is None else _typed(json.loads(found), type, name))
            data = None if new is None else self._encoded(new, name, ttl)
            if data is None and found is None or self._swap(name, found, data, ttl):
                return new
            if attempt > 2:
                time.sleep(_PAUSE_SECONDS)
        raise RemoteError("Server busy: a stored value is being changed too often; try again later", code=SERVER_BUSY)

    def _swap(self, name: str, old: Optional[bytes], new: Optional[bytes], ttl: float) -> bool:
        return bool(self._change(lambda backend, key: backend.swap(key, old, new, ttl), name, new, ttl))

    def _change(self, run: Callable[[Any, str], Any], name: str, new: Optional[bytes] = None, ttl: float = 0.0) -> Any:
        """Run a change of a value, and return its result: False if it has changed nothing.

        :param new: what the value then is; None for none.
        """
        budget = _budget_of(self._runtime)
        if budget is None:
            return self._do(run, name)
        with budget.lock:
            done = self._do(run, name)
            if done is not False and new is None:
                budget.forget(self._key(name))
            elif done is not False and new is not None:
                budget.count(self._key(name), self._sender, len(new), ttl)
        return done

    def _key(self, name: str) -> str:
        if not isinstance(name, str):
            raise TypeError(f"the name of a stored value is a text, not {quoted(name)}")
        if len(name) > _MOST_CHARACTERS:
            raise ValueError(f"the name of a stored value may have {_MOST_CHARACTERS} characters, not {len(name)}")
        return f"value-{digest([*self._owner, name])}/json"

    def _do(self, run: Callable[[Any, str], Any], name: str) -> Any:
        key, processes = self._key(name), self._runtime.processes
        processes.check()
        with processes.refuse_while_away():
            return run(processes.backend, key)

    def _encoded(self, value: Any, name: str, ttl: Union[int, float]) -> bytes:
        if value is None:
            raise ValueError(f"None stands for no value: call delete({name!r}) to remove it")
        if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl <= _MOST_SECONDS:
            raise ValueError(f"ttl= must be a positive number of seconds, at most a century, not {quoted(ttl)}")
        try:
            data: bytes = encode_json(jsonable(value)).encode("utf-8", "surrogatepass")
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"the value {name!r} cannot be stored: {error}") from error
        budget = _budget_of(self._runtime)
        most = _MOST_BYTES if budget is None else min(_MOST_BYTES, budget.most_of_one)
        if len(data) > most:
            raise ValueError(f"the value {name!r} has {len(data)} bytes as JSON, and may have {most}: store it elsewhere, and"
                             " keep its place here")
        return data


class ContextStore:
    """``ctx.store``: what a handler keeps from one request to the next, by owner.

    :param context: the :class:`Context` of the request.
    """

    def __init__(self, context: Any) -> None:
        self._context = context

    def _of(self, scope: str, owner: str, sender: str) -> StoredValues:
        # A handler of a mounted server uses the backend of the server that the client is connected to. The names of values are
        # those of the mounted server.
        return StoredValues(self._context.session.runtime, (self._context.runtime.catalog.name, scope, owner), sender)

    @property
    def server(self) -> StoredValues:
        """The values of the server, for the requests of all clients."""
        return self._of("server", "", "")

    def apart(self, purpose: str) -> StoredValues:
        """Return values of the server for one purpose, such as those of a middleware, whose names no other purpose has.

        In the memory of one process they count like those of one more client: however many there are, they do not displace the
        values of a client that has less.

        :param purpose: a text of your choice.
        """
        return self._of("apart", purpose, f"apart {purpose}")

    @property
    def session(self) -> StoredValues:
        """The values of the client's session, which begins with its handshake.

        :raises NotSupported: the request belongs to no session, as from July 2026 on, without session ids, and in a task.
        """
        session = self._context.session
        if not session.persistent:
            raise NotSupported("this request belongs to no session: use ctx.store.principal, or ctx.store.server under a key"
                               " that your tool returns and takes")
        key = session.store_key or session.__dict__.setdefault("store_key", secrets.token_hex(16))
        return self._of("session", key, session.sender_of(self._context.incoming))

    @property
    def principal(self) -> StoredValues:
        """The values of the authenticated sender, in all of its sessions; on a pipe those of its only user.

        Two clients of one user are two principals, since the application that acts for the user belongs to a principal.

        :raises NotSupported: the request came over HTTP without authentication, so that nothing tells its sender from others,
            or it is a task without a principal.
        """
        context = self._context
        principal = context.principal
        if principal is None and (context.incoming.facts is not None or context.task_id is not None):
            raise NotSupported("requests over HTTP without authentication have no principal: give the server auth=, or use"
                               " ctx.store.session")
        owner = "" if principal is None else principal.key
        return self._of("principal", owner, owner)
