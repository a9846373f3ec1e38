"""The way of an origin's requests, chosen once: over our own connections, through ``requests`` over them, or by a session.

Our own cost a fraction, and ``requests`` is not even imported for them. ``requests`` does what they cannot: TLS, a proxy,
authentication that is made for it. A session of the user's is used whole, and so is ``requests`` where a library has replaced
parts of it, since that library is to see each request.
"""

import os
import sys
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Union

from .adapter_sender import AdapterSender, merged_settings, proxy_for
from .direct import DirectSender, is_plain
from .patches import requests_is_patched
from .settings import Guard, HTTPSettings

if TYPE_CHECKING:
    from .session_sender import SessionSender

__all__ = ["Sender", "create_sender"]

Sender = Union[DirectSender, AdapterSender, "SessionSender"]


def create_sender(url: str, settings: HTTPSettings, headers: Mapping[str, str], host: str, auth: Any, stays_here: bool,
                  guard: Optional[Guard]) -> Sender:
    """Return the sender for one origin.

    :param headers: of all requests.
    :param auth: what ``requests`` calls with each request; None if the caller adds its own credentials.
    :param stays_here: whether requests to this machine must not leave it for a proxy of the environment.
    :param guard: checks the addresses of connections that go through no proxy.
    :raises ValueError: a header cannot be sent.
    """
    patched = requests_is_patched()
    if settings.session is not None or patched and guard is None:
        from .session_sender import SessionSender

        return SessionSender(url, settings, headers, host, auth, stays_here)
    direct = auth is None and is_plain(url) and not patched
    if direct and not settings.proxies and not _environment_has_proxies():
        return DirectSender(url, _defaults(headers), guard)
    import requests

    session = requests.Session()
    merged: Dict[str, Any] = merged_settings(url, settings, host, stays_here, session)
    if direct and proxy_for(url, merged) is None:
        session.close()
        return DirectSender(url, _defaults(headers), guard)
    # Behind a guard these are the connections, since no others are held to the addresses that were checked (AUTH-36).
    return AdapterSender(url, session, merged, headers, auth, guard)


def _defaults(headers: Mapping[str, str]) -> Dict[str, str]:
    """Return the headers with those that each request has, as through ``requests``."""
    given = {name.lower() for name in headers}
    defaults = {"Accept": "*/*", "Connection": "keep-alive"}
    return {**{name: value for name, value in defaults.items() if name.lower() not in given}, **headers}


def _environment_has_proxies() -> bool:
    """Return whether the environment names a proxy for any URL; ``requests`` then says for which."""
    if sys.platform == "darwin" or os.name == "nt":  # whose settings may name one as well
        from urllib.request import getproxies

        return bool(getproxies())
    return any(value and name.lower().endswith("_proxy") and name.lower() != "no_proxy" for name, value in os.environ.items())
