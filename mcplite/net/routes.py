"""The way of an origin's requests, chosen once: over our own connections, or through ``requests``.

Our own cost a fraction, and ``requests`` is not even imported for them. Whatever a user may have set up in ``requests`` goes
through it: a session, a proxy, authentication that is made for it.
"""

import os
import sys
from typing import Any, Dict, Mapping, Optional, Union

from .direct import DirectSender, is_plain
from .session_sender import SessionSender, merged_settings, proxy_for
from .settings import Guard, HTTPSettings

__all__ = ["Sender", "create_sender"]

Sender = Union[DirectSender, SessionSender]


def create_sender(url: str, settings: HTTPSettings, headers: Mapping[str, str], host: str, auth: Any, stays_here: bool,
                  guard: Optional[Guard]) -> Sender:
    """Return the sender for one origin.

    :param headers: of all requests.
    :param auth: what ``requests`` calls with each request; None if the caller adds its own credentials.
    :param stays_here: whether requests to this machine must not leave it for a proxy of the environment.
    :param guard: checks the addresses of connections that go through no proxy.
    :raises ValueError: a header cannot be sent.
    """
    direct = settings.session is None and auth is None and is_plain(url)
    if direct and not settings.proxies and not _environment_has_proxies():
        return DirectSender(url, _defaults(headers), guard)
    import requests

    session = requests.Session() if settings.session is None else settings.session
    merged: Dict[str, Any] = merged_settings(url, settings, host, stays_here, session)
    if direct and proxy_for(url, merged) is None:
        session.close()
        return DirectSender(url, _defaults(headers), guard)
    return SessionSender(url, session, settings.session is None, merged, headers, auth, guard)


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
