"""Paths, file URIs and the paths of URLs: joining without escaping, and the URIs of roots."""

from __future__ import annotations

import os
import re
from typing import Iterable, Optional

__all__ = ["check_relative", "check_root_uri", "decoded_path", "file_uri", "is_within", "path_of", "safe_join", "url_path"]

_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_DRIVE = re.compile(r"[A-Za-z]:")
_DEVICES = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$",
                      *(port + number for port in ("com", "lpt") for number in "123456789¹²³")})


def safe_join(root: str, relative: str) -> str:
    """Return the real path of *relative* below *root* (RSRC-23).

    It refuses ``..`` in any spelling, absolute paths, drive letters, NUL, names that Windows takes for devices or
    silently changes, and symbolic links that lead outside. Links are resolved in the path that is returned. Another program
    may put new ones there before the path is used; a server's files are opened without following those.

    :param relative: with ``/`` between names; percent escapes are decoded by the caller.
    :raises ValueError: the path leaves *root* or cannot be trusted to stay.
    """
    check_relative(relative)
    real_root = os.path.realpath(root)
    target = os.path.realpath(os.path.join(real_root, relative))
    if not is_within(target, [real_root]):
        raise ValueError(f"{relative[:200]!r} leaves its directory")
    return target


def check_relative(relative: str) -> None:
    """Return if :func:`safe_join` takes the names of a path, wherever they lead.

    :raises ValueError: one of them cannot be trusted to stay below a directory.
    """
    if "\0" in relative:
        raise ValueError("a path must not contain NUL")
    if _ESCAPE.search(relative.encode("utf-8", "surrogatepass")):
        decoded = _unquote(relative, "replace")
        if decoded.count("/") > relative.count("/") or ".." in decoded or "\0" in decoded or "\\" in decoded:
            raise ValueError(f"{relative[:200]!r} hides a path behind percent escapes")
    if relative.startswith(("/", "\\")) or _DRIVE.match(relative):
        raise ValueError(f"{relative[:200]!r} is not a relative path")
    for name in relative.split("/"):
        if "\\" in name or name == "..":
            raise ValueError(f"{relative[:200]!r} leaves its directory")
        stem = name.partition(".")[0].rstrip(" ").lower()
        # On Windows a colon begins the name of a stream of the file; elsewhere it is part of the name.
        if name != "." and (name != name.rstrip(". ") or stem in _DEVICES or (":" in name and os.sep == "\\")):
            raise ValueError(f"{relative[:200]!r} has a name that some systems read as another")


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Whether *path* is one of *roots* or below one, links resolved (ROOT-12)."""
    for root in roots:
        try:
            names = [os.path.normcase(os.path.realpath(name)) for name in (path, root)]
            if os.path.commonpath(names) == names[1]:
                return True
        except ValueError:
            continue  # on another drive, or with a NUL
    return False


def decoded_path(path: str) -> str:
    """Return the path of a URL without escapes, as servers see it in requests."""
    if "%" not in path:
        return path
    from urllib.parse import unquote  # for the few that have escapes

    return unquote(path)


def url_path(path: str) -> str:
    """Return a path, with or without escapes, as it stands in a URL."""
    if _SAFE.issuperset(path):
        return path
    from .uris import normal_uri  # for the few that have others

    return normal_uri("x:" + decoded_path(path).replace("%", "%25").replace("?", "%3F").replace("#", "%23"))[2:]


def file_uri(path: str) -> str:
    """Return the ``file://`` URI of a path on this platform, made absolute first (ROOT-18)."""
    text = os.path.abspath(path)
    if os.sep == "\\":
        text = text.replace("\\", "/")
        if _DRIVE.match(text):
            return "file:///" + text[:2] + _quote(text[2:])
        if text.startswith("//"):
            return "file:" + _quote(text)
    # POSIX allows two slashes at the start of a path, which would make its first name a host.
    return "file:///" + _quote(text.lstrip("/"))


def path_of(uri: str) -> str:
    """Return the path of a ``file://`` URI on this platform.

    :raises ValueError: it is not a ``file://`` URI, names another host, or has a NUL. A share of a Windows network is
        on another host; opening it would send the user's credentials there.
    """
    if not uri.lower().startswith("file://"):
        raise ValueError(f"{uri[:200]!r} is not a file:// URI")
    host, _, rest = uri[len("file://"):].partition("/")
    if host not in ("", "localhost"):
        raise ValueError(f"{uri[:200]!r} is on the host {host!r}, not on this one")
    try:
        path = "/" + _unquote(rest)
    except UnicodeDecodeError:
        # Names are bytes on POSIX, and any of them can be kept; on Windows they are text.
        raise ValueError(f"{uri[:200]!r} has escapes that are not UTF-8, which no name on this system is") from None
    if "\0" in path:
        raise ValueError(f"{uri[:200]!r} has a NUL in its path")
    if os.sep == "\\":
        if _DRIVE.match(path[1:]):
            path = path[1:]
        elif path.startswith(("//", "/\\")):
            raise ValueError(f"{uri[:200]!r} is on another host, not on this one")
    return path.replace("/", os.sep)


def check_root_uri(uri: str) -> str:
    """Return *uri* if it can be a root.

    :raises ValueError: it is not a ``file://`` URI (ROOT-04), or has a ``..`` or a NUL (ROOT-07).
    """
    if not isinstance(uri, str) or not uri.startswith("file://"):
        raise ValueError(f"a root is a file:// URI, not {str(uri)[:200]!r}; other schemes are not allowed in any revision")
    path = _unquote(uri, "replace")
    if ".." in path.replace("\\", "/").split("/") or "\0" in path:
        raise ValueError(f"the root {uri[:200]!r} must not contain '..' or NUL")
    return uri


def _quote(path: str) -> str:
    return "".join(c if c in _SAFE else "".join(f"%{b:02X}" for b in os.fsencode(c)) for c in path)


def _unquote(text: str, errors: Optional[str] = None) -> str:
    """Return *text* without percent escapes.

    :param errors: what becomes of bytes that are not UTF-8; by default what names of files have for them.
    :raises UnicodeDecodeError: there are such bytes, and names of files have none.
    """
    data = _ESCAPE.sub(lambda match: bytes([int(match.group(1), 16)]), os.fsencode(text))
    return os.fsdecode(data) if errors is None else data.decode("utf-8", errors)
