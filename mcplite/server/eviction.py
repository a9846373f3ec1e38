"""Shares: bounds what is kept for clients, in number and in bytes, and chooses what goes when there is no more room.

Connections, sessions, streams, request bodies and waiting calls are each bounded by one object of it. A module of its own
so that all of them choose alike: at a limit the newcomer is served, and the oldest item of the sender with the most goes.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Callable, Dict, Generic, Hashable, List, Optional, Tuple, TypeVar

__all__ = ["ByteBudget", "Shares", "sender_at"]

Item = TypeVar("Item", bound=Hashable)
#: The divisor of a quarter. A sender with a quarter of a limit or more can lose even items in use to a sender that has less. If
#: more than a quarter of a sender's items are unused, an unused one goes first.
_PART = 4
#: Seconds that a new item has for its first use. After that it goes before items of its sender that were used.
_FIRST_USE_SECONDS = 5.0


def sender_at(address: str) -> str:
    """Return the sender that an unauthenticated request counts to, by its remote address.

    One host has a whole network of IPv6 addresses, so these count by their first 64 bits. Behind a reverse proxy that is not
    trusted all clients have one address.
    """
    if ":" not in address:
        return address
    import ipaddress

    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address  # a host's own notion, such as the path of a socket
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else f"{ipaddress.IPv6Address(int(parsed) >> 64 << 64)}/64"


class ByteBudget:
    """Counts the bytes that many objects hold together. While there are too many, each object holds fewer.

    :param most: bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        #: Guards ``held``; held for an addition.
        self._lock = threading.Lock()
        #: The bytes that are held now.
        self.held = 0

    @property
    def full(self) -> bool:
        """Whether there are too many."""
        return self.held >= self._most

    def change(self, size: int) -> None:
        """Add bytes; less than zero gives them back."""
        with self._lock:
            self.held += size


def _never(item: object) -> bool:
    return False


class _KeptItem:
    __slots__ = ("sender", "bytes", "used", "touched")

    def __init__(self, sender: str, bytes: int, touched: float) -> None:
        self.sender = sender
        self.bytes = bytes
        self.used = False
        self.touched = touched


class _Share(Generic[Item]):
    """The items of one sender, each kind with the oldest first."""

    __slots__ = ("unused", "used", "bytes")

    def __init__(self) -> None:
        self.unused: "OrderedDict[Item, _KeptItem]" = OrderedDict()
        self.used: "OrderedDict[Item, _KeptItem]" = OrderedDict()
        self.bytes = 0

    @property
    def count(self) -> int:
        return len(self.unused) + len(self.used)


class Shares(Generic[Item]):
    """What is kept for clients, bounded in number and in bytes.

    Each item counts to the sender that is given to :meth:`add`: ``RequestFacts.sender``, ``Session.sender`` or
    ``HTTPRequest.sender``. When a limit is reached, the sender with the most loses an idle item: one that was never used, else
    the one that has been idle for longest. What is in use is taken only from a sender that has a quarter of the limit or more,
    for another that has less. So a single sender can have the whole limit, and loses items when other senders come. If all
    clients have one address, as behind a reverse proxy, the oldest idle item goes. If no item is idle, the oldest lasting item
    goes.

    The caller ends the items that go. While it ends them, it must not hold a lock that it also holds when it calls this
    object::

        going = self._shares.add(session, request.sender, size)
        if going is None:
            raise RemoteError("Server busy: ...", code=SERVER_BUSY)     # all others are in use
        for old in going:
            old.end("the server needed the room for another client")

    :param most: items at once.
    :param most_bytes: of all items together; None for no limit.
    :param busy: returns whether an item is in use, so that it is not idle. Called with the lock held: it must only read.
    :param lasting: returns whether an item in use stays in use until one side ends it, such as an event stream. If no idle
        item can go, the oldest such item goes for a new one. Called like *busy*.
    :param due: returns whether an idle item is about to be used. Such an item goes only if the sender that needs the room has
        less than the sender with the most, and that one has a quarter of the limit or more. Called like *busy*.
    :param clock: returns seconds.
    """

    def __init__(self, most: int, most_bytes: Optional[int] = None, *, busy: Callable[[Item], bool] = _never,
                 lasting: Callable[[Item], bool] = _never, due: Callable[[Item], bool] = _never,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._busy = busy
        self._lasting = lasting
        self._due = due
        self._clock = clock
        #: Guards the fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._entries: Dict[Item, _KeptItem] = {}
        self._shares: Dict[str, _Share[Item]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, item: Item) -> bool:
        return item in self._entries

    @property
    def bytes(self) -> int:
        """The bytes of all items."""
        return self._bytes

    @property
    def full(self) -> bool:
        """Whether there is no room for one more without another going."""
        return len(self._entries) >= self._most

    def items(self) -> List[Item]:
        """Return all items."""
        with self._lock:
            return list(self._entries)

    def count(self, sender: str) -> int:
        """Return the number of a sender's items."""
        share = self._shares.get(sender)
        return 0 if share is None else share.count

    def add(self, item: Item, sender: str, size: int = 0) -> Optional[List[Item]]:
        """Add an item.

        :param item: compared by identity or by its own ``==``.
        :param sender: whose share it counts to.
        :param size: its bytes.
        :returns: the items that have to go, which are removed already; the caller ends them. None if there is no room
            because the others are in use, or the item is larger than the limit: then it was not added.
        """
        if self._most_bytes is not None and size > self._most_bytes:
            return None
        taken: List[Tuple[Item, _KeptItem]] = []
        with self._lock:
            self._put(item, _KeptItem(sender, size, self._clock()))
            while self._over():
                victim = self._choose(self._shares[sender], item)
                if victim is None:
                    self._take(item)
                    for old, entry in reversed(taken):
                        self._put(old, entry, last=False)
                    return None
                taken.append((victim, self._take(victim)))
        return [victim for victim, _ in taken]

    def resize(self, item: Item, size: int) -> List[Item]:
        """Set the bytes of an item; ignored once it was removed.

        :returns: the items that have to go, which are removed already; the item itself may be among them.
        """
        going: List[Item] = []
        with self._lock:
            entry = self._entries.get(item)
            if entry is None:
                return going
            self._shares[entry.sender].bytes += size - entry.bytes
            self._bytes += size - entry.bytes
            entry.bytes = size
            while self._over():
                victim = self._choose(self._shares[entry.sender])
                if victim is None:
                    victim = item
                going.append(victim)
                self._take(victim)
                if victim is item:
                    break
        return going

    def make_room(self) -> Optional[Item]:
        """Remove the item that would go for another one, if it is idle, and return it."""
        with self._lock:
            victim = self._choose(None)
            if victim is not None:
                self._take(victim)
            return victim

    def use(self, item: Item) -> None:
        """Note that an item is used now; ignored once it was removed.

        If a caller uses an item often, one call in a tenth of a second is enough: the order changes little in that time.
        """
        entry, now = self._entries.get(item), self._clock()
        if entry is None:
            return
        with self._lock:
            if item in self._entries:
                share = self._shares[entry.sender]
                (share.used if entry.used else share.unused).pop(item)
                entry.used, entry.touched = True, now
                share.used[item] = entry

    def remove(self, item: Item) -> bool:
        """Remove an item; False if it was removed before."""
        with self._lock:
            if item not in self._entries:
                return False
            self._take(item)
            return True

    def clear(self) -> List[Item]:
        """Remove all items, and return them."""
        with self._lock:
            items = list(self._entries)
            self._entries.clear()
            self._shares.clear()
            self._bytes = 0
        return items

    def idle(self, unused_seconds: float, idle_seconds: float) -> List[Item]:
        """Return the items that have been idle for too long; they stay.

        :param unused_seconds: how long an item may be idle that was never used.
        :param idle_seconds: how long any other may.
        """
        now = self._clock()
        found: List[Item] = []
        with self._lock:
            for share in self._shares.values():
                for items, seconds in ((share.unused, unused_seconds), (share.used, idle_seconds)):
                    for item, entry in items.items():
                        if now - entry.touched <= seconds:
                            break  # the others were used later
                        if not self._busy(item):
                            found.append(item)
        return found

    # --- with the lock held -----------------------------------------------------------------------

    def _put(self, item: Item, entry: _KeptItem, last: bool = True) -> None:
        assert item not in self._entries
        share = self._shares.get(entry.sender)
        if share is None:
            share = self._shares[entry.sender] = _Share()
        items = share.used if entry.used else share.unused
        self._entries[item] = items[item] = entry
        items.move_to_end(item, last)
        share.bytes += entry.bytes
        self._bytes += entry.bytes

    def _take(self, item: Item) -> _KeptItem:
        entry = self._entries.pop(item)
        share = self._shares[entry.sender]
        del (share.used if entry.used else share.unused)[item]
        share.bytes -= entry.bytes
        self._bytes -= entry.bytes
        if not share.count:
            del self._shares[entry.sender]
        return entry

    def _over(self) -> bool:
        return len(self._entries) > self._most or (self._most_bytes is not None and self._bytes > self._most_bytes)

    def _choose(self, own: "Optional[_Share[Item]]", newcomer: Optional[Item] = None) -> Optional[Item]:
        """Return what goes; None if nothing can.

        :param own: the share of the sender that needs the room: shares with less lose nothing. None if any share may lose an
            item.
        :param newcomer: the item that needs it, if that is new.
        """
        by_bytes, limit = False, self._most
        if self._most_bytes is not None and self._bytes > self._most_bytes:
            by_bytes, limit = True, self._most_bytes
        levels: Dict[int, List[_Share[Item]]] = {}
        for share in self._shares.values():
            load = share.bytes if by_bytes else share.count
            if own is None or load >= (own.bytes if by_bytes else own.count):
                levels.setdefault(load, []).append(share)
        if not levels:
            return None

        def idle(item: Item, entry: _KeptItem) -> bool:
            return item is not newcomer and (entry.bytes > 0 or not by_bytes) and not self._busy(item)

        def idle_for_now(item: Item, entry: _KeptItem) -> bool:
            return idle(item, entry) and not self._due(item)

        def lasting(item: Item, entry: _KeptItem) -> bool:
            return item is not newcomer and not by_bytes and self._lasting(item)

        most = max(levels)
        from_others = own is not None and own not in levels[most] and most * _PART >= limit
        if not from_others:
            victim = self._oldest(levels, own, idle_for_now)
            if victim is None and own is not None:
                victim = self._oldest(levels, own, lasting)
            return victim
        # First the sender with the most loses its idle items, those that are about to be used last. Only then do other senders
        # lose idle items.
        victim = self._oldest({most: levels[most]}, own, idle_for_now) or self._oldest(levels, own, idle)
        if victim is None:
            victim = next((item for items in (levels[most][0].unused, levels[most][0].used) for item, entry in items.items()
                           if entry.bytes or not by_bytes), None)
        return victim

    def _oldest(self, levels: "Dict[int, List[_Share[Item]]]", own: "Optional[_Share[Item]]",
                fits: Callable[[Item, _KeptItem], bool]) -> Optional[Item]:
        """Return the oldest item that fits, of the senders with the most."""
        for load in sorted(levels, reverse=True):
            # If several senders hold equally much, the sender that needs the room loses an item of its own. Otherwise two such
            # senders would evict each other's items in turn.
            for shares in ([own] if own is not None and own in levels[load] else [], levels[load]):
                found = [item for item in (self._oldest_of(share, fits) for share in shares) if item is not None]
                if found:
                    return min(found, key=lambda item: self._entries[item].touched)
        return None

    def _oldest_of(self, share: "_Share[Item]", fits: Callable[[Item, _KeptItem], bool]) -> Optional[Item]:
        unused, used = (next((item for item, entry in items.items() if fits(item, entry)), None)
                        for items in (share.unused, share.used))
        if unused is None or used is None:
            return used if unused is None else unused
        waited = self._clock() - share.unused[unused].touched
        # Clients behind one address count as one sender. If an unused item always went first, a new client would lose its item
        # before its first use.
        due = waited >= _FIRST_USE_SECONDS or len(share.unused) * _PART > share.count
        return unused if due else used
