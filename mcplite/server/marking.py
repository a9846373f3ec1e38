"""How a tool's parameter is marked as one that travels in a header as well (from July 2026 on)."""

from typing import Dict

from ..protocol.http.routing_headers import MARK, is_field_name

__all__ = ["header"]


def header(name: str) -> Dict[str, str]:
    """Mark a tool's parameter as one that travels in a header as well: ``Annotated[str, mcplite.header("Region")]``.

    Whoever stands between client and server can route by it (MHDR-11). Clients of July 2026 on send it over HTTP;
    others have only the body. It is no place for secrets (MHDR-30), and no proof of anything (MHDR-31).

    :param name: of the header, behind ``Mcp-Param-``; a string, integer or boolean parameter may have one.
    :raises ValueError: it is not the name of a header field.
    """
    if not is_field_name(name):
        raise ValueError(f"{name!r} is not the name of a header field: letters, digits and '-'")
    return {MARK: name}
