"""What a request's state says: the answers and results that a handler has noted, and the request it belongs to.
The text travels through the client, which can read it and give it back; whoever seals it keeps it from being
changed (MRTR-12, MRTR-13).
"""

import hashlib
import json
from typing import Any, Dict, List, Mapping, Optional, Tuple

__all__ = ["Journal", "bound_to", "digest"]

#: What a retry has besides the original request's params (MRTR-27).
_OF_A_ROUND = frozenset({"_meta", "inputResponses", "requestState"})


def digest(value: Any) -> str:
    """Return a short digest of a JSON value, the same for equal values."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def bound_to(server: str, principal: Optional[str], method: str, params: Mapping[str, Any]) -> str:
    """Return what a state is bound to: who asks which server for what (MRTR-14, MRTR-16)."""
    return digest([server, principal, method,
                   {name: value for name, value in params.items() if name not in _OF_A_ROUND}])


class Journal:
    """What is known of one call whose handler starts anew with each answer.

    ``rounds`` holds one entry for each time that something was asked: a digest of the questions, and the answers to
    them by key, as they came. The last one may lack some. ``notes`` holds the results of actions that are done once;
    ``entered`` counts how often the handler was entered for a question in the middle of it.
    """

    def __init__(self) -> None:
        self.rounds: List[Tuple[str, Dict[str, Any]]] = []
        self.notes: Dict[str, Any] = {}
        self.entered = 0

    def dump(self, expires: float) -> bytes:
        """Return the journal as bytes.

        :param expires: when it is too old to go on with, in seconds of the common clock.
        :raises TypeError, ValueError: a note is no JSON.
        """
        content = {"e": int(expires), "r": self.rounds, "o": self.notes, "n": self.entered}
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")

    @classmethod
    def load(cls, data: bytes, now: float) -> "Optional[Journal]":
        """Return the journal in *data*, whose seal was checked; None when it is too old."""
        content = json.loads(data)
        if content["e"] < now:
            return None
        journal = cls()
        journal.rounds = [(asked, answers) for asked, answers in content["r"]]
        journal.notes, journal.entered = content["o"], content["n"]
        return journal
