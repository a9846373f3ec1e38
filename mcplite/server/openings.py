"""How a client's session over HTTP comes to be: kept here, sealed into its id, or for one message only."""

from typing import TYPE_CHECKING, Optional

from .http.event_store import EventStore
from .http.sessions import HTTPChannel, HTTPSession, SessionTable
from .http.streams import StreamSet
from .http.session_ids import Ticket

if TYPE_CHECKING:
    from .app import Server
    from .auth.principals import Principal

__all__ = ["open_session", "visit"]


def open_session(app: "Server", store: Optional[EventStore], principal: "Optional[Principal]", now: float,
                 id: Optional[str] = None) -> HTTPSession:
    """Return a session that lasts; it is not in the table yet.

    :param principal: who opens it, and alone may use it.
    """
    id = id or SessionTable.new_id()
    streams = StreamSet(id, store, app.limits)
    session, peer = app.converse(HTTPChannel(streams), piped=False)
    session.principal = principal
    return HTTPSession(id, None if principal is None else principal.key, session, peer, streams, now)


def visit(app: "Server", ticket: Optional[Ticket]) -> HTTPSession:
    """Return a session for one message, for the client that *ticket* describes; None for one that introduces itself."""
    streams = StreamSet("", None, app.limits)
    session, peer = app.converse(HTTPChannel(streams), lasting=False, piped=False)
    if ticket is not None:
        session.assume(ticket.revision, ticket.info, ticket.capabilities)
    return HTTPSession("", None, session, peer, streams, 0.0)
