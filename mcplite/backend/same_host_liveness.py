"""Tells at once that another process on the same machine has ended, however it did: its socket is gone with it.

A module of its own since a lease in the store tells the same of processes on all machines, but only when it has expired.
"""

import hashlib
import os
import secrets
import socket
import sys
from typing import Optional

from ..rpc.forks import on_fork, release_socket

__all__ = ["Presence", "has_ended"]

#: Identifies this boot of the machine, and the network that this process sees; names of sockets are of such a network.
_BOOT, _NETWORK = "/proc/sys/kernel/random/boot_id", "/proc/self/ns/net"
#: Bytes of the two parts of a mark: the place, and the name of the socket.
_PLACE_BYTES, _NAME_BYTES = 12, 12


class Presence:
    """A socket without a file that this process holds until :meth:`close`, and that Linux closes with the process.

    Its name is random, so no other process ever has it. A forked process does not hold it.
    """

    def __init__(self) -> None:
        #: What other processes recognize this one by; empty where there are no such sockets.
        self.mark = b""
        self._socket: Optional[socket.socket] = None
        place = _place()
        if place is None:
            return
        mark = place + secrets.token_bytes(_NAME_BYTES)
        try:
            sock = _new_socket()
        except OSError:  # there are no descriptors left: then the lease decides
            return
        try:
            sock.bind(_address(mark))
        except OSError:  # such as a sandbox that forbids it
            sock.close()
            return
        self.mark, self._socket = mark, sock
        on_fork(self, Presence._forked)

    def _forked(self, owner: int) -> None:
        if self._socket is not None:
            release_socket(self._socket)

    def close(self) -> None:
        """Close the socket: other processes find that this one has ended. Idempotent."""
        if self._socket is not None:
            self._socket.close()


def has_ended(mark: bytes) -> bool:
    """Whether the process of a mark has ended. False if that cannot be seen from here: it may be on another machine."""
    place = _place()
    if place is None or len(mark) != _PLACE_BYTES + _NAME_BYTES or not mark.startswith(place):
        return False
    try:
        with _new_socket() as sock:
            sock.connect(_address(mark))
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _address(mark: bytes) -> bytes:
    return b"\0mcplite-" + mark[_PLACE_BYTES:].hex().encode("ascii")


def _new_socket() -> socket.socket:
    family: int = getattr(socket, "AF_UNIX")  # Windows has none
    return socket.socket(family, socket.SOCK_DGRAM)


def _place() -> Optional[bytes]:
    """Return what is the same for the processes that see each other's sockets, and for no others; None if that is not known.

    The name of the machine is a part, since two machines may be copies of one that was running.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        with open(_BOOT, encoding="ascii") as file:
            boot = file.read().strip()
        named = f"{boot} {os.readlink(_NETWORK)} {socket.gethostname()}"
    except OSError:
        return None
    return hashlib.sha256(named.encode("utf-8")).digest()[:_PLACE_BYTES]
