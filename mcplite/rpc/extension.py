"""Extension: what one extension adds to the protocol, as one object that a server or a client registers.

The same base class serves both sides. ``Server(extensions=[...])`` and ``connect(extensions=[...])`` take the objects; a side
that has only something to declare may give ``{identifier: settings}`` in place of the list. What an extension overrides is
used; what it leaves out costs nothing. A call of a server without a hook passes none.

One object may be registered with several servers or clients: every method is given the side that it is about.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Dict, Iterable, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import RegistrationError
from ..protocol.meta import check_extension
from ..revisions import REVISIONS, Revision

__all__ = ["Declared", "Extension", "ListenKind", "claim", "extensions_of", "overrides", "protocol_names",
           "with_declared"]

#: Answers a request or takes a notification: its params, and the context of it.
Handler = Callable[[Dict[str, Any], Any], Any]


class ListenKind(NamedTuple):
    """One kind of change that clients without a session hear of by ``subscriptions/listen``.

    :param member: the member of the filter that asks for it.
    :param notification: the method of its notifications.
    :param honour: called with the value of the member, the client's extensions, and the key of its principal (None without
        authentication); returns the subjects to tell of, as a list, True for a kind without subjects, or None for nothing.
        It raises ``RemoteError`` for a filter that is not valid.
    :param describe: called with a subject (None for a kind without) and the revision when the notification is sent; returns
        its params, or None if there is nothing to tell any more.
    """

    member: str
    notification: str
    honour: Callable[[Any, Mapping[str, Any], Optional[str]], Any]
    describe: Callable[[Optional[str], Revision], Optional[Dict[str, Any]]]


class Extension:
    """One extension of the protocol. Subclass it, set :attr:`identifier`, and override what the extension has.

    In what follows *side* is the :class:`mcplite.extend.ServerHost` of a server, or the :class:`Client`.
    """

    #: The name under which both sides declare it, such as ``com.example/charts``.
    identifier: str = ""
    #: What is declared of it, an object; see :meth:`declares`.
    settings: Mapping[str, Any] = {}
    #: By method: the member of its params that the header ``Mcp-Name`` repeats over HTTP (from July 2026 on).
    names: Mapping[str, str] = {}
    #: On a client: the values of ``resultType`` that it adds, each with the methods whose results may have it.
    result_types: Mapping[str, Collection[str]] = {}
    #: On a server: whether :meth:`handle_tool` reads or changes what ``proceed()`` returns, which is an object then. An
    #: extension that only passes it on may set False, for faster calls.
    reads_results = True

    # --- both sides ---------------------------------------------------------------------------------------

    def declares(self, revision: Revision) -> Optional[Mapping[str, Any]]:
        """Return the settings to declare in a revision; None does not declare the extension there."""
        return self.settings

    def capabilities(self, revision: Revision, identified: bool) -> Mapping[str, Any]:
        """Return members to declare beside the capabilities of the protocol itself, by name.

        :param identified: on a server: whether the client is authenticated.
        """
        return {}

    def methods(self) -> Mapping[str, Handler]:
        """Return the requests that this side answers, by method; read once, when the extension is registered.

        A handler takes the params, an object, and the :class:`Context` on a server, the :class:`Client` on a client. It
        returns an object, one of :mod:`mcplite.types`, or None for an empty object; it may block, and raises
        ``RemoteError`` to refuse. Servers ask, and send requests to clients, in revisions with a handshake only.
        """
        return {}

    def has_method(self, method: str, revision: Revision, identified: bool) -> bool:
        """Whether one of :meth:`methods` exists for a client of a server; if not, it gets "Method not found"."""
        return True

    def notifications(self) -> Mapping[str, Handler]:
        """Return the notifications that this side takes, by method; read once, when the extension is registered.

        A handler takes the params, and the session on a server (None outside of a session), the client on a client. It runs
        on a worker of a server, and on the thread of notifications of a client, one after another.
        """
        return {}

    def attach(self, side: Any) -> None:
        """Called once for each server or client, when it registers the extension; before any other method is called."""

    def start(self, side: Any) -> None:
        """Called before a server serves its first client, and when a client is open; threads begin here."""

    def stop(self, side: Any) -> None:
        """Called after the last client has left a server, or when a client has closed; it may be followed by a start."""

    def close(self, side: Any) -> None:
        """Called by ``close()`` of a server, before :meth:`stop`."""

    def let_go(self, side: Any) -> None:
        """Called in a process that was forked from that of a server: threads and connections belong to the other one."""

    # --- on a server --------------------------------------------------------------------------------------

    def handle_tool(self, context: Any, entry: Any, proceed: Callable[[], Any]) -> Any:
        """Called around each ``tools/call``; return ``proceed()``, or another result: an object, or one of mcplite.types.

        It runs on the thread of the request, after the tool was found and before its arguments are checked. An object may
        have a ``resultType`` of its own. The extension that was registered first is the outermost one.

        :param entry: the tool as it is registered: ``entry.name``.
        """
        return proceed()

    def lists(self, kind: str, entry: Any, revision: Revision, declared: bool) -> Optional[Mapping[str, Any]]:
        """Return members for a tool, resource, template or prompt in a list; None leaves it out of that list.

        It is called once for each entry, revision and value of *declared*, until the entries change.

        :param kind: "tools", "resources", "templates" or "prompts".
        :param declared: whether the client declares the extension.
        """
        return {}

    def listens(self) -> Sequence[ListenKind]:
        """Return the kinds of changes that clients may listen to; ``side.publish(kind, subject)`` tells of one."""
        return ()

    # --- on a client --------------------------------------------------------------------------------------

    def params(self, method: str, revision: Revision) -> Mapping[str, Any]:
        """Return members to add to the params of a request; those that the caller has given win."""
        return {}

    def send_tool(self, call: Any, proceed: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
        """Called around each ``call_tool``; return ``proceed()``, the result as it came, or another object in its place.

        :param call: ``call.client``, ``call.params`` (which may be changed), ``call.revision`` and the keywords of the call
            in ``call.options``.
        """
        return proceed()

    def learn_tools(self, tools: Sequence[Any]) -> None:
        """Called with each page of tools that the client has listed; an extension that overrides it hears of the list below.

        :param tools: :class:`Tool` objects.
        """

    def tools_listed(self, changes: int) -> None:
        """Called when all pages were listed, as the list was after so many changes."""

    def forget_tools(self) -> None:
        """Called when the server's list of tools has changed."""


class Declared(Extension):
    """An extension of which nothing but its settings is known."""

    def __init__(self, identifier: str, settings: Mapping[str, Any]) -> None:
        self.identifier, self.settings = identifier, settings


def extensions_of(given: Any) -> Tuple[Extension, ...]:
    """Return extensions as objects.

    :param given: a list of objects, ``{identifier: settings}``, or None.
    :raises TypeError: it is something else.
    :raises ValueError: an identifier or its settings are not valid.
    :raises RegistrationError: an identifier comes twice.
    """
    if isinstance(given, Mapping):
        made: Iterable[Any] = [Declared(name, settings) for name, settings in given.items()]
    elif given is None or isinstance(given, (list, tuple)):
        made = given or ()
    else:
        raise TypeError(f"extensions= must be a dict of settings, {{'com.example/charts': {{}}}}, or a list of objects,"
                        f" [Charts()], not {given!r:.100}")
    found: Dict[str, Extension] = {}
    for extension in made:
        if not isinstance(extension, Extension):
            hint = f": write {extension.__name__}()" if isinstance(extension, type) else (
                f": write extensions={{{extension!r:.100}: {{}}}}" if isinstance(extension, str) else "")
            raise TypeError(f"extensions= takes objects of Extension, of mcplite.extend{hint}, not {extension!r:.100}")
        check_extension(extension.identifier, extension.settings)
        if extension.identifier in found:
            raise RegistrationError(f"register the extension {extension.identifier!r} once: {_kind(extension)} and"
                                    f" {_kind(found[extension.identifier])} both have this identifier")
        found[extension.identifier] = extension
    return tuple(found.values())


def with_declared(identifier: str, given: Any) -> Tuple[Extension, ...]:
    """Return extensions as objects, with one more that is only declared, unless it is among them.

    :raises TypeError, ValueError: as for :func:`extensions_of`.
    """
    extensions = extensions_of(given)
    known = any(extension.identifier == identifier for extension in extensions)
    return extensions if known else (Declared(identifier, {}), *extensions)


def _kind(extension: Extension) -> str:
    return type(extension).__name__


def claim(extension: Extension, what: str, names: Iterable[Any], owners: Mapping[str, str]) -> None:
    """Return if names that an extension adds are new.

    :param what: they are, such as "method".
    :param owners: who has each name that exists, for errors.
    :raises RegistrationError: one is no text, or exists; the text names both owners.
    """
    for name in names:
        if not isinstance(name, str) or not name:
            raise RegistrationError(f"use a text such as 'com.example/render' for a {what} of the extension"
                                    f" {extension.identifier!r}, not {name!r:.100}")
        if name in owners:
            raise RegistrationError(f"choose another {what} than {name!r} for the extension {extension.identifier!r}"
                                    f" ({_kind(extension)}): {owners[name]} has it already")


def overrides(extension: Extension, name: str) -> bool:
    """Whether an extension overrides a method of :class:`Extension`."""
    return getattr(type(extension), name) is not getattr(Extension, name)


def protocol_names(column: str) -> Dict[str, str]:
    """Return the methods of a column of the table of revisions, in any of them, as owners for :func:`claim`."""
    return {name: "the protocol" for revision in REVISIONS for name in getattr(revision, column)}
