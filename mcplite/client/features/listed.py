"""Listed: what a client remembers of the tools that its server has listed, by name and within bounds.

Output schemas and the headers of parameters are remembered so. A server chooses the names, and may list others each time.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Generic, List, Mapping, TypeVar

from ...protocol.jsonio import memory_size

__all__ = ["Listed", "sizes_of"]

T = TypeVar("T")
#: As much as one list of several pages may have (``paging.py``), so that a list which is read with one call is remembered
#: whole. The number counts besides the newest page, the bytes count with it.
_MOST_TOOLS = 10_000
_MOST_BYTES = 40 << 20


class Listed(Generic[T]):
    """One value for each listed tool that has one; the tools that were listed longest ago go first.

    Its owner calls :meth:`learn` and :meth:`forget` with a lock held. Readers of :attr:`found` need none.
    """

    def __init__(self) -> None:
        #: The values by name, in the order in which they were listed; replaced as a whole.
        self.found: Dict[str, T] = {}
        #: The bytes of each.
        self._sizes: Dict[str, int] = {}

    def learn(self, page: Collection[str], found: Mapping[str, T], sizes: Mapping[str, int]) -> None:
        """Remember a page of tools, all of it, in place of what is known of them.

        :param page: the names of its tools.
        :param found: the values of those that have one.
        :param sizes: the bytes of these values, from :func:`sizes_of`.
        """
        listed, size = set(page), sum(sizes.values())
        kept: List[str] = []
        for name in reversed(self.found):
            if name in listed:
                continue
            size += self._sizes[name]
            if size > _MOST_BYTES or len(kept) == _MOST_TOOLS:
                break
            kept.append(name)
        kept.reverse()
        self._sizes = {**{name: self._sizes[name] for name in kept}, **sizes}
        self.found = {**{name: self.found[name] for name in kept}, **found}

    def forget(self) -> None:
        """Forget all."""
        self.found, self._sizes = {}, {}


def sizes_of(values: Mapping[str, Any]) -> Dict[str, int]:
    """Return the bytes of memory that each JSON value takes with its name; to be called without a lock."""
    return {name: memory_size([name, value], _MOST_BYTES) for name, value in values.items()}
