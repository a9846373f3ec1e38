"""JSON out: compact text from values, by an encoder that is made once."""

import json
import json.encoder
from typing import Any, Callable

__all__ = ["encode_json"]


def _refuse(value: Any) -> Any:
    raise TypeError(f"a value of the class {type(value).__name__} is not JSON")


def _make() -> Callable[[Any], str]:
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False,
                                default=_refuse).encode
    # JSONEncoder.encode builds this object anew on every call, which takes longer than a small message.
    # Without a dictionary of markers (no check for cycles) it has no state, so one serves all threads.
    encode: Callable[[Any, int], "tuple[str, ...]"] = make(
        None, _refuse, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(encode(value, 0))


#: Returns compact JSON with all characters as they are.
#:
#: Raises TypeError for what is no JSON, ValueError for a number that is not finite, and RecursionError
#: for what is nested too deeply or contains itself.
encode_json: Callable[[Any], str] = _make()
