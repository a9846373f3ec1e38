"""Senders: what a mounted server is told of the client whose request is passed on.

That is what the client can be asked, its name, and the log level that it wants. The connections and the calls use it. A module
of its own, since it alone knows which of the client's capabilities are passed on.
"""

from typing import Any, Dict, Mapping, Tuple

from ..protocol import codec
from ..protocol.meta import CAPABILITIES, CLIENT_INFO, LOG_LEVEL
from ..revisions import TASKS_EXTENSION, Revision
from ..server.handling.request_context import RequestContext
from ..types import ClientCapabilities

__all__ = ["OWN", "Senders", "declared_by", "passed_on"]

#: How the names of the protocol's own extensions begin, and those of the members of ``_meta`` that belong to one connection.
OWN = "io.modelcontextprotocol/"


def declared_by(context: RequestContext) -> ClientCapabilities:
    """Return what the client of a request can be asked."""
    session = context.session
    return passed_on(session.client_capabilities) if session.askable else ClientCapabilities()


def passed_on(declared: ClientCapabilities) -> ClientCapabilities:
    """Return those of the capabilities of a client that a mounted server is told.

    Tasks are not among them, since questions are passed on as ordinary ones.
    """
    # The protocol's own extensions change how results come, which has to be known here.
    extensions = {name: settings for name, settings in (declared.extensions or {}).items() if not name.startswith(OWN)}
    return ClientCapabilities(roots=declared.roots, sampling=declared.sampling, elicitation=declared.elicitation,
                              extensions=extensions or None)


class Senders:
    """The members of ``_meta`` by which each request of one connection names its sender.

    Those of the last request are kept, since most requests follow one of the same client.
    """

    def __init__(self) -> None:
        #: What they were made of, and the members. Replaced as a whole, so that it needs no lock.
        self._last: Tuple[Any, Dict[str, Any]] = None, {}

    def members(self, context: RequestContext, revision: Revision, tasks: bool) -> Mapping[str, Any]:
        """Return the members for a request, in a revision of the mounted server.

        :param tasks: whether the result may say that the call has become a task.
        """
        session = context.session
        made_of = session.client_facts, session.askable, session.log_level, revision, tasks
        known, members = self._last
        if known != made_of:
            declared, info = declared_by(context), context.client_info
            if tasks:
                declared.extensions = {TASKS_EXTENSION: {}, **(declared.extensions or {})}
            members = {CAPABILITIES: codec.encode(declared, revision), LOG_LEVEL: session.log_level,
                       CLIENT_INFO: None if info is None else codec.encode(info, revision)}
            self._last = made_of, members
        return members
