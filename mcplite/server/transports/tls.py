"""TLS on our own HTTP server: the certificates, and sockets whose bytes are encrypted.

The poller waits for the socket of the system, and calls the connection when bytes have come. OpenSSL gets these bytes through
memory (``ssl.MemoryBIO``), so that it neither waits for the client nor hides decrypted bytes from the poller::

                     recv()  <──  plain text  <── OpenSSL <──  received bytes  <── the system's socket, when it is readable
    the connection
                     send()  ──>  records     ──> OpenSSL ──>  unsent bytes    ──> the system's socket

A handshake takes no thread while it waits for its client: the poller calls the connection for each flight, and it stays in the
state ``NEW``, whose time is limited. A client that speaks plain HTTP gets a response in plain HTTP that says so.

Certificates are read again when their files have changed. Connections that are open keep those they began with.
"""

import contextlib
import os
import socket
import ssl
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple, Union

from ...protocol.error_text import Option, OptionText
from ...protocol.http.http1 import BadRequest
from ...rpc.tracing import get_logger
from .client_socket import ClientSocket, State, is_ready
from .connection import Parked

__all__ = ["Certificates", "KeyPassword", "TLSClientSocket", "TLSSocket"]

_log = get_logger(__name__)
#: The password of a key, or a function that returns it.
KeyPassword = Union[str, bytes, Callable[[], Union[str, bytes]]]
#: Seconds between two looks at the files.
_LOOK_SECONDS = 1.0
#: The first byte of a handshake; plain HTTP begins with a letter.
_HANDSHAKE = b"\x16"
#: Bytes that are received, and encrypted, at once; a record has 16 KiB.
_PIECE = 65_536
#: The states in which no part of a request has come.
_BETWEEN = (State.NEW, State.IDLE)


class Certificates:
    """The certificate and key of a server, as OpenSSL uses them, and the authorities of its clients.

    :param certfile: a PEM file with the certificate, and the authorities between it and the root; the key may be in it as well.
    :param keyfile: a PEM file with the key; None if it is in *certfile*.
    :param client_ca: a PEM file, or a folder by hashes, with the authorities of clients: each client must have a certificate of
        theirs then (mutual TLS). None asks for none.
    :param key_password: of the key, or a function that returns it; None if it has none.
    :raises ValueError: a file cannot be read, or they do not fit together.
    """

    def __init__(self, certfile: "str | os.PathLike[str]", keyfile: "Optional[str | os.PathLike[str]]" = None,
                 client_ca: "Optional[str | os.PathLike[str]]" = None, key_password: Optional[KeyPassword] = None) -> None:
        self._certfile, self._keyfile = os.fspath(certfile), os.fspath(keyfile or certfile)
        self._client_ca = None if client_ca is None else os.fspath(client_ca)
        self._password = key_password
        self._files = [self._certfile, self._keyfile, *([] if self._client_ca is None else [self._client_ca])]
        #: The files as they were loaded, and as they were seen last; and when that was.
        self._loaded = self._seen = self._look()
        self._looked = time.monotonic()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """Return the context for new connections, made again if a file has changed; called by one thread at a time.

        If the files do not fit together, as while one of them is replaced, an error is logged once, and the former one stays.
        """
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            before, self._seen = self._seen, self._look()
            if self._seen != self._loaded:  # also after a failure: its cause may have passed
                try:
                    self._context = self._load()
                    self._loaded = self._seen
                    _log.info("the certificate of %s was read again", self._certfile)
                except Exception as error:  # the function for the password may raise anything
                    if self._seen != before:
                        _log.error("the certificate has changed and cannot be used, so the former one stays: %s", error)
        return self._context

    def _look(self) -> List[Optional[Tuple[int, int, int]]]:
        """Return for each file its time, size and inode, which change with its content; None if it cannot be found."""
        found: List[Optional[Tuple[int, int, int]]] = []
        for file in self._files:
            try:
                status = os.stat(file)
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                found.append(None)
        return found

    def _load(self) -> ssl.SSLContext:
        for keyword, file in (("certfile", self._certfile), ("keyfile", self._keyfile)):
            try:
                with open(file, "rb"):
                    pass  # ssl would not say which of the files it cannot read
            except OSError as error:
                raise ValueError(OptionText(Option(keyword), f": {file} cannot be read: {error.strerror}")) from error
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # With renegotiation, a client could make the server compute as often as it likes.
        context.options |= getattr(ssl, "OP_NO_RENEGOTIATION", 0)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certfile, self._keyfile, self._password or self._ask)
        except ssl.SSLError as error:
            raise ValueError(OptionText(
                Option("certfile"), " and ", Option("keyfile"), ": give the PEM of a certificate and of its"
                f" key: {self._certfile} and {self._keyfile} are not ({error.reason or error})")) from error
        if self._client_ca is not None:
            folder = os.path.isdir(self._client_ca)
            try:
                context.load_verify_locations(None if folder else self._client_ca, self._client_ca if folder else None)
            except OSError as error:  # ssl.SSLError is one
                why = getattr(error, "reason", None) or error.strerror or error
                raise ValueError(OptionText(Option("client_ca"), ": give a PEM file, or a folder, with the"
                                            f" authorities of the clients' certificates: {self._client_ca} is none ({why})")
                                 ) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _ask(self) -> NoReturn:
        # Without a function OpenSSL would ask at the terminal.
        raise ValueError(OptionText(f"the key in {self._keyfile} has a password: give ", Option("key_password")))


class TLSSocket(socket.socket):
    """A connected socket whose ``recv`` and ``send`` take and give plain text; it takes the place of the one that was accepted.

    It behaves as a socket of :mod:`ssl`, with ``getpeercert()``, ``version()`` and ``cipher()``. As for each socket,
    ``settimeout`` decides whether a call blocks, and for how long. One thread at a time receives, and one sends; another one
    may look for the end of the stream meanwhile.

    :param sock: connected; this object closes it.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self._received, self._records = ssl.MemoryBIO(), ssl.MemoryBIO()
        #: Guards the two buffers and the fields below, since OpenSSL does not; held for work in memory.
        self._lock = threading.Lock()
        self._tls = context.wrap_bio(self._received, self._records, server_side=True)
        #: Whether the client has sent something, and whether the handshake is over.
        self._begun = self.established = False
        #: Whether the client speaks HTTP without TLS.
        self._plain_http = False
        #: The plain text that was decrypted and not read, and whether the client has ended the stream after it.
        self._plain = bytearray()
        self._ended = False
        #: Records that the system has not taken yet.
        self._unsent = memoryview(b"")
        #: 1 if these records have a byte that the last send() did not count: its caller gives that byte again. Otherwise 0.
        self._owed = 0
        #: Whether our side has ended the stream.
        self.ending = False

    # --- what sockets of ssl have -------------------------------------------------------------------------

    def getpeercert(self, binary_form: bool = False) -> "Union[None, bytes, Dict[str, Any]]":
        """Return the client's certificate, as :meth:`ssl.SSLSocket.getpeercert` does; None if it gave none, or not yet."""
        with self._lock:
            return self._tls.getpeercert(binary_form) if self.established else None

    def version(self) -> Optional[str]:
        """Return the version of TLS; None before the handshake."""
        return self._tls.version()

    def cipher(self) -> Optional[Tuple[str, str, int]]:
        """Return the name of the cipher, its protocol and its bits; None before the handshake."""
        return self._tls.cipher()

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Return plain text, when there is some, and b"" at the end of the stream.

        :param flags: with ``MSG_PEEK`` the text stays for the next call, and nothing is waited for.
        :raises BlockingIOError, socket.timeout: none has come.
        :raises OSError: the connection is broken.
        """
        if flags:
            return self._peek()
        if self._plain_http:
            return super().recv(size)
        while not self._plain and not self._ended:
            self._receive()
        return self.take(size)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive plain text into a buffer; return how many bytes."""
        data = self.recv(nbytes or len(buffer), flags)
        buffer[:len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0) -> int:
        """Send plain text; return how many bytes need not be given again.

        :raises BlockingIOError, socket.timeout: the system takes none.
        :raises OSError: the connection is broken.
        """
        if self._plain_http:
            return super().send(data, flags)
        self.flush()
        rest, sent = memoryview(data), self._owed
        while sent < len(rest) and not self._unsent:
            piece = rest[sent:sent + _PIECE]
            with self._lock:
                self._tls.write(piece)
                self._unsent = memoryview(self._records.read())
            sent += len(piece)
            with contextlib.suppress(BlockingIOError, socket.timeout):
                self.flush()
        self._owed = 1 if self._unsent else 0
        return sent - self._owed

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send plain text whole."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.send(rest):]

    def shutdown(self, how: int) -> None:
        """Shut down one direction or both; before ours, tell the client that the stream ends, so that it misses nothing."""
        if how == socket.SHUT_WR:
            self.end()
        super().shutdown(how)

    def _not_encrypted(self, *args: object, **keywords: object) -> NoReturn:
        raise NotImplementedError("a connection over TLS has recv(), send() and sendall()")

    recvfrom = recvfrom_into = recvmsg = recvmsg_into = sendto = sendmsg = sendfile = _not_encrypted

    # --- what the connection uses -------------------------------------------------------------------------

    def shake(self) -> None:
        """Do the handshake, as far as the client has sent its part.

        :raises BlockingIOError, socket.timeout: it has not sent the rest; or it takes nothing, and :attr:`unsent` is true.
        :raises BadRequest: it speaks plain HTTP.
        :raises OSError: it does not agree with us, or the connection is broken.
        """
        self.flush()
        while not self.established:
            received = super().recv(_PIECE)
            if not received:
                raise ConnectionAbortedError("it closed before the end of the handshake")
            if not self._begun and received[:1] != _HANDSHAKE:
                self._plain_http = self.established = True
                raise BadRequest(400, "this port speaks HTTP over TLS: use a URL that begins with https://")
            self._begun = True
            try:
                with self._lock:
                    self._received.write(received)
                    try:
                        self._tls.do_handshake()
                        self.established = True
                    except ssl.SSLWantReadError:
                        pass
                    finally:
                        self._unsent = memoryview(self._records.read())
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self.flush()  # an alert, which says what is wrong
                raise
            self.flush()
        with self._lock:
            self._decrypt()  # what came with the end of the handshake

    @property
    def unsent(self) -> bool:
        """Whether the system has not taken all records."""
        return bool(self._unsent)

    def flush(self) -> None:
        """Send the records that the system has not taken yet.

        :raises BlockingIOError, socket.timeout: it does not take them.
        :raises OSError: the connection is broken.
        """
        while self._unsent:
            self._unsent = self._unsent[super().send(self._unsent):]

    def take(self, size: int = sys.maxsize) -> bytes:
        """Return what was decrypted and not read, without receiving."""
        taken = bytes(self._plain[:size])
        del self._plain[:size]
        return taken

    def at_end(self) -> bool:
        """Whether the client has ended the stream, and all of it is read; never blocks.

        :raises OSError: the connection broke, or was closed here.
        """
        return not self._plain and (self._ended or is_ready(self) and not self._peek())

    def end(self) -> None:
        """Tell the client that no more comes, unless it takes nothing; idempotent."""
        if self.ending or self._plain_http or not self.established:
            return
        self.ending = True
        with contextlib.suppress(OSError):
            self.flush()
            with self._lock, contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()  # it raises if the client's end has not come
            super().send(self._records.read())

    def _peek(self) -> bytes:
        # Called if the socket is readable. If the records that came are not plain text, or not whole, this is not the end.
        if not self._plain and not self._ended:
            self._receive()
        return bytes(self._plain[:1]) or (b"" if self._ended else _HANDSHAKE)

    def _receive(self) -> None:
        """Receive and decrypt, once.

        :raises OSError: nothing has come, or the connection is broken.
        """
        received = super().recv(_PIECE)
        if received:
            with self._lock:
                self._received.write(received)
                self._decrypt()
        else:
            self._ended = True

    def _decrypt(self) -> None:
        # With the lock held.
        try:
            while not self._ended:
                piece = self._tls.read(_PIECE)
                self._plain += piece
                self._ended = not piece
        except ssl.SSLWantReadError:
            return


class TLSClientSocket(ClientSocket):
    """The socket of a connection over TLS.

    :param sock: a :class:`TLSSocket`; the other parameters are those of the base class.
    """

    sock: TLSSocket

    def enter(self, state: State) -> None:
        """Change the state, unless the connection has ended; on the thread that serves it."""
        super().enter(state)
        if state is State.IDLE:
            # The poller sees only bytes that were not received. A request that was received with the last one is put into the
            # buffer.
            self.buffer += self.sock.take()

    def recv(self, size: int, seconds: float) -> bytes:
        """Return received plain text, after the handshake; empty at the end of the stream.

        :raises Parked: no request has begun, this thread may not block, and no plain text has come.
        :raises socket.timeout: nothing was received within *seconds*.
        :raises BadRequest: the client speaks plain HTTP.
        :raises OSError: the connection is broken.
        """
        sock = self.sock
        try:
            if not sock.established:
                self._set_timeout(seconds if self.may_block else 0.0)
                sock.shake()
            if not self.may_block and self.state in _BETWEEN and not self.buffer and not sock.ending:
                self._set_timeout(0.0)
                return sock.recv(size)
        except BlockingIOError:
            if sock.unsent:
                self.allow_blocking()
                sock.flush()
            raise Parked from None
        except ssl.SSLError as error:
            _log.info("the connection of %s ended: its client and TLS do not agree: %s", self.remote, error)
            raise
        return super().recv(size, seconds)

    def receive_pending(self, size: int) -> None:
        """Move the plain text that has already arrived into the buffer, at the end of the server."""
        if self.sock.established:
            super().receive_pending(size)

    def disconnected(self) -> bool:
        """Whether the client has closed its side, as far as that can be seen."""
        if self.buffer:
            return False
        try:
            with self._lock:
                # Between two requests only the thread that reads may receive: the poller would not see what is received here.
                if self.state in (State.SERVING, State.STREAMING):
                    return self.sock.at_end()
                return self.state in (State.HUNG_UP, State.CLOSED)
        except (OSError, ValueError):
            return True

    def close(self) -> bool:
        """Close the socket; idempotent. Return whether it was open."""
        with contextlib.suppress(OSError):
            self._set_timeout(0.0)
            self.sock.end()
        return super().close()
