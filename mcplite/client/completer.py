"""Completer: completion for an input field; it debounces, drops outdated requests and caches the answers."""

import threading
from typing import Dict, List, Mapping, Optional, Tuple

from ..errors import Cancelled, RemoteError, RequestTimeout
from ..rpc.cancel import CancelToken
from ..rpc.tracing import get_logger
from .calls import Features

__all__ = ["Completer"]

_log = get_logger(__name__)
#: Characters of the values of one answer; an answer with more is not cached.
_MOST_CHARACTERS = 65_536


class Completer:
    """Requests completions while a user types, at most once for each pause and each text (COMP-13, COMP-14).

    :param client: sends the requests.
    :param prompt: the prompt whose arguments are completed; or
    :param resource: the resource template.
    :param pause: seconds without a further call before the server is asked; default 0.15.
    :param remembered: how many answers are cached; default 100.
    :raises ValueError: not exactly one of *prompt* and *resource*.
    """

    def __init__(self, client: Features, *, prompt: Optional[str] = None, resource: Optional[str] = None,
                 pause: float = 0.15, remembered: int = 100) -> None:
        if (prompt is None) == (resource is None):
            raise ValueError("a Completer needs prompt= or resource=, and not both")
        self._client = client
        self._prompt, self._resource = prompt, resource
        self._pause = pause
        self._remembered = remembered
        #: Guards the two fields below; held for dictionary work only.
        self._lock = threading.Lock()
        self._answers: Dict[Tuple[object, ...], List[str]] = {}
        self._latest = CancelToken()

    def values(self, argument: str, value: str, context: Optional[Mapping[str, str]] = None) -> Optional[List[str]]:
        """Return completions of the text so far; None if a later call on another thread has replaced this one.

        The list is empty if the server has no completions, fails, or does not answer in time (COMP-15).

        :param argument: its name.
        :param value: the text so far.
        :param context: the arguments that are filled in already.
        :raises NotSupported: the server does not support completion.
        :raises ConnectionClosed: the connection is over.
        :raises ProtocolError: the answer breaks the rules.
        """
        key = (argument, value, *sorted((context or {}).items()))
        token = CancelToken()
        with self._lock:
            outdated, self._latest = self._latest, token
            known = self._answers.get(key)
        outdated.cancel("the user has typed on")
        if known is not None:
            return list(known)
        if token.wait(self._pause):
            return None
        try:
            answer = self._client.complete(prompt=self._prompt, resource=self._resource, argument=argument,
                                           value=value, context=context, cancel=token)
        except Cancelled:
            return None
        except (RemoteError, RequestTimeout) as error:
            _log.debug("no completion for %.100r: %s", argument, error)
            return []
        if sum(map(len, answer.values)) <= _MOST_CHARACTERS:
            with self._lock:
                self._answers[key] = answer.values
                if len(self._answers) > self._remembered:
                    del self._answers[next(iter(self._answers))]
        return None if token.cancelled else list(answer.values)
