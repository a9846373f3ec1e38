"""Errors for keywords that a public function does not have: they name the nearest one, or the options that have it."""

import functools
from typing import Any, Callable, Dict, Sequence, TypeVar, cast

__all__ = ["explains_keywords", "unexpected_keyword"]

F = TypeVar("F", bound=Callable[..., Any])


def unexpected_keyword(called: str, wrong: str, known: Sequence[str], options: Dict[str, Any]) -> TypeError:
    """Return the error for a keyword that a function does not have; it begins as Python's own.

    :param called: the name of the function, as its callers write it.
    :param wrong: the keyword.
    :param known: the keywords that it has.
    :param options: the records that it takes, by their keywords; their fields are proposed, too.
    """
    spelled = {name: f"{keyword}={record.__name__}({name}=...)" for keyword, record in options.items()
               for name in record.__match_args__}
    spelled.update((name, f"{name}=") for name in known)
    text = f"{called}() got an unexpected keyword argument {wrong!r}"
    if wrong in spelled:
        return TypeError(f"{text}. Write {spelled[wrong]}")
    import difflib  # for the few calls with a typo

    near = difflib.get_close_matches(wrong, spelled, 1)
    return TypeError(f"{text}. Did you mean {spelled[near[0]]}?" if near else text)


def explains_keywords(called: str, **options: Any) -> Callable[[F], F]:
    """Return a decorator of a function that programs call rarely: its error for a wrong keyword says which is right.

    :param called, options: as for :func:`unexpected_keyword`.
    """
    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*values: Any, **named: Any) -> Any:
            try:
                return function(*values, **named)
            except TypeError:
                code = function.__code__
                known = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
                wrong = [name for name in named if name not in known]
                if not wrong:
                    raise
                error = unexpected_keyword(called, wrong[0], [name for name in known if name != "self"], options)
            raise error

        return cast(F, call)

    return decorate
