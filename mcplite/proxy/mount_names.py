"""Names: what the clients of a parent server see of the names and URIs of one mounted server."""

import hashlib
import re
from typing import Callable, Dict, Iterable, Optional

from ..protocol.uris import normal_uri

__all__ = ["Names", "model_name", "with_digits"]

#: The characters that the APIs of models refuse in the name of a tool, and the most characters that it may have.
_OTHER = r"[^A-Za-z0-9_-]"
_MOST = 64


def model_name(name: str) -> str:
    """Return *name* in the form that the APIs of models take: 1 to 64 characters from A-Z a-z 0-9 _ and -.

    Other characters become underscores. A name that is too long ends with eight digits of its hash.
    """
    plain = re.sub(_OTHER, "_", name)
    return plain if len(plain) <= _MOST else with_digits(name, plain)


def with_digits(name: str, plain: str) -> str:
    """Return *plain*, cut, with digits of the hash of *name*, so that two names which become equal stay apart."""
    digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[:_MOST - 9]}_{digits}"


class Names:
    """The names of one mount.

    :param prefix: before the names of tools and prompts, with an underscore between; empty for none, which leaves all names
        as they are.
    :param tool: returns the new name of a tool, or None to hide it; in place of the prefix.
    """

    def __init__(self, prefix: str, tool: Optional[Callable[[str], Optional[str]]] = None) -> None:
        self.prefix = prefix
        self._tool = tool
        #: The prefix of a URI that another entry has as well; a URI stays valid with it (RFC 3986, section 3.1).
        self._scheme = re.sub(r"[^a-z0-9.-]", "-", prefix.lower()) + "+" if prefix else ""
        #: By the normal form of the mounted server's own URI: the URI that clients see, where the two differ.
        self._seen: Dict[str, str] = {}

    def named(self, kind: str, names: Iterable[str]) -> Dict[str, str]:
        """Return the mounted server's own names by the names that clients see; without those that are hidden.

        :param kind: "tools" or "prompts".
        """
        found: Dict[str, str] = {}
        for own in names:
            seen: Optional[str] = own
            if kind == "tools" and self._tool is not None:
                seen = self._tool(own)
            elif self.prefix:
                seen = model_name(f"{self.prefix}_{own}")
                if seen in found:
                    seen = with_digits(own, seen)
            if seen:
                found[seen] = own
        return found

    def belongs(self, name: str) -> bool:
        """Whether a name can be one of this mount, by its prefix."""
        return bool(self.prefix) and name.startswith(model_name(self.prefix + "_"))

    def other_uri(self, uri: str) -> Optional[str]:
        """Return the URI that clients see in place of one that another entry has, in its normal form; None without a prefix."""
        if not self._scheme:
            return None
        self._seen[uri] = seen = self._scheme + uri
        return seen

    def forget_uris(self) -> None:
        """Forget which URIs other entries have as well; called before entries are put into the registry again."""
        self._seen = {}

    @property
    def changes_uris(self) -> bool:
        """Whether clients see any URI in another form than the mounted server's own."""
        return bool(self._seen)

    def seen_uri(self, own: str) -> str:
        """Return a URI of the mounted server as clients see it."""
        return self._seen.get(normal_uri(own), own) if self._seen else own

    def own_uri(self, seen: str) -> Optional[str]:
        """Return the mounted server's own form of a URI with the prefix of this mount; None for any other URI."""
        size = len(self._scheme)
        return seen[size:] if size and seen[:size].lower() == self._scheme else None
