"""The way of an origin's requests, chosen once: over our own connections, through ``requests`` over them, or by a session.

Our own cost a fraction, and ``requests`` is not even imported for those without TLS. ``requests`` does what they cannot: a
proxy, authentication that is made for it. A session of the user's is used whole, and so is ``requests`` where a library has
replaced parts of it, since that library is to see each request.
"""

import os
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from .adapter_sender import AdapterSender, merged_settings, proxy_for
from .connections import DirectSender, is_plain
from .settings import Guard, HTTPSettings
from .tls import TLS

if TYPE_CHECKING:
    from .session_sender import SessionSender

__all__ = ["Sender", "create_sender", "requests_is_patched"]

Sender = Union[DirectSender, AdapterSender, "SessionSender"]
#: Module, class and methods by which a request travels through ``requests``.
_PARTS: Sequence[Tuple[str, str, Sequence[str]]] = (
    ("requests.sessions", "Session", ("request", "send", "get_adapter", "prepare_request")),
    ("requests.adapters", "HTTPAdapter", ("send", "build_response")),
    ("urllib3.connectionpool", "HTTPConnectionPool", ("urlopen", "_get_conn", "_new_conn")),
)


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
    secure = url.startswith("https:")
    direct = auth is None and is_plain(url) and not patched and not (secure and _tls_is_replaced())
    if direct and not secure and not settings.proxies and not _environment_has_proxies():
        return DirectSender(url, _defaults(headers), guard)
    import requests

    session = requests.Session()
    merged: Dict[str, Any] = merged_settings(url, settings, host, stays_here, session)
    if direct and proxy_for(url, merged) is None:
        session.close()
        tls = TLS(merged["verify"], merged["cert"]) if secure else None
        return DirectSender(url, _defaults(headers), guard, tls)
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


def requests_is_patched() -> bool:
    """Return whether a library has replaced parts of ``requests`` for the whole process, as tests and tracing do.

    Nothing is imported for it: what is not loaded, was not replaced.
    """
    package = sys.modules.get("requests")
    if package is None:
        return False
    for module_name, class_name, methods in _PARTS:
        module = sys.modules.get(module_name)
        if module is None:
            continue
        # The class that programs use, which may be replaced as a whole.
        owner: Any = getattr(package, class_name, None) or getattr(module, class_name, None)
        if not all(_is_own(getattr(owner, method, None), module) for method in methods):
            return True
    pools: Any = sys.modules.get("urllib3.connectionpool")
    return pools is not None and pools.HTTPConnectionPool.ConnectionCls.__module__ != "urllib3.connection"


def _is_own(method: Any, module: Any) -> bool:
    # A wrapper may have the name and the module of what it wraps, but not its globals.
    return type(method) is FunctionType and method.__globals__ is module.__dict__


def _tls_is_replaced() -> bool:
    """Return whether a program has given ``urllib3`` another TLS: that of pyOpenSSL, which does not compare names."""
    return bool(getattr(sys.modules.get("urllib3.util.ssl_"), "IS_PYOPENSSL", False))
