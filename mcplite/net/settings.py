"""How HTTP requests travel: headers, trust, proxies and credentials, in one value.

``connect()`` makes it once; the channels, the clients of origins and the token sources hand it down whole.
"""

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Tuple, Union

if TYPE_CHECKING:
    import requests

__all__ = ["Cert", "Guard", "HTTPSettings", "Verify"]

#: Which certificates are trusted, as ``requests`` takes it; None is what the environment says.
Verify = Union[None, bool, str, "os.PathLike[str]"]
#: A certificate of the client's own, as ``requests`` takes it: one file, or certificate and key.
Cert = Union[None, str, Tuple[str, str]]
#: Called with the host and the port of each new connection. It returns the addresses to connect to, tried in order, or
#: raises OSError. Certificates are held against the host all the same.
Guard = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True)
class HTTPSettings:
    """How requests travel to one server."""

    #: Sent with every request; their values may be secrets.
    headers: Optional[Mapping[str, str]] = field(default=None, repr=False)
    #: Sends each request, over connections of its own; it stays the caller's to close.
    session: "Optional[requests.Session]" = None
    #: False, or a file or folder of certificates; None for what the environment says.
    verify: Verify = None
    cert: Cert = None
    #: By scheme, as for ``requests``; None for those of the environment.
    proxies: Optional[Mapping[str, str]] = field(default=None, repr=False)
    #: A bearer token, a :class:`~mcplite.net.tokens.TokenProvider`, or what ``requests`` takes: a pair, or a callable that
    #: is given the request.
    auth: Any = field(default=None, repr=False)

    def without_credentials(self, verify: Verify) -> "HTTPSettings":
        """Return what may be used for other servers as well: trust and proxies alone.

        :param verify: in place of these settings' own.
        """
        return HTTPSettings(verify=verify, proxies=self.proxies)
