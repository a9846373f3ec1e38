"""What the adapters for Flask and Django share: the user of a framework as a principal, and the request for the endpoint.

A framework routes the request, runs its own hooks, and sends the response; the endpoint makes the response.
"""

from typing import Any, Dict, Optional, Sequence, Tuple

from ..protocol.http.oauth import PROTECTED_RESOURCE
from ..server.principals import ISSUED_HERE, Principal

__all__ = ["METHODS", "mounted", "principal_of"]

#: The methods that the endpoint answers itself.
METHODS: Sequence[str] = ("GET", "POST", "DELETE", "OPTIONS")


def principal_of(user: Any) -> Optional[Principal]:
    """Return the principal for the value that a ``principal=`` callable has returned; None for no principal.

    :param user: a :class:`Principal`; a name; a user of Flask-Login or Django, or a proxy for one; or None. For a user, the
        subject is the user's id (``get_id()`` or the primary key), which does not change with the name. A user that is not
        authenticated is no principal.
    :raises TypeError: the value is of another type.
    """
    unwrap = getattr(user, "_get_current_object", None)  # a proxy, such as current_user
    if unwrap is not None:
        user = unwrap()
    if user is None or isinstance(user, Principal):
        return user
    if isinstance(user, str):
        return Principal(user, audience=ISSUED_HERE)
    if hasattr(user, "is_authenticated"):
        if not user.is_authenticated:
            return None
        id = user.get_id() if hasattr(user, "get_id") else getattr(user, "pk", None)
        if id is not None:
            return Principal(str(id), audience=ISSUED_HERE)
    raise TypeError(f"principal= returned {type(user).__name__}; it must return a Principal, a name, a user with an id, or"
                    " None")


def mounted(environ: Dict[str, Any]) -> Tuple[str, str]:
    """Return SCRIPT_NAME and PATH_INFO for an endpoint that is mounted at the path of a request.

    The metadata of an endpoint that requires tokens is below its path, and below the well-known path at the root.
    """
    script, path = environ.get("SCRIPT_NAME", ""), environ.get("PATH_INFO", "")
    if path.startswith(PROTECTED_RESOURCE):
        return script + path[len(PROTECTED_RESOURCE):], PROTECTED_RESOURCE
    if path.endswith(PROTECTED_RESOURCE):
        return script + path[:-len(PROTECTED_RESOURCE)], PROTECTED_RESOURCE
    return script + path, ""
