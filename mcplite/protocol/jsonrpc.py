"""JSON-RPC 2.0: bytes to messages and back, within bounds that are checked before anything is built.

``parse`` never raises: bytes that are not a message become an :class:`Invalid`, which holds the error to answer with.
"""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional, Tuple, Union

from ..errors import INVALID_REQUEST, PARSE_ERROR
from .error_text import quoted
from .jsonio import (
    DEFAULT_LIMITS,
    LONG,
    DuplicateKey,
    JSONLimits,
    TooLarge,
    encode_json,
    encode_string,
    estimate_memory,
    load,
    write_long,
)

__all__ = [
    "Batch", "DEFAULT_LIMITS", "Encoded", "Failure", "Id", "Invalid", "JSONLimits", "Message", "Notification",
    "Request", "Response", "describe", "dump", "dump_notification", "dump_request", "dump_result", "estimate_memory",
    "own_id", "parse", "whole",
]

Id = Union[int, str]
#: Integers from 0 to this are short enough without a count of their digits.
_SHORT = 2 ** 63


def whole(id: Any) -> Any:
    """Return an id of the other side as it is looked up: JSON has one kind of number, and some languages write each as 1.0."""
    return int(id) if type(id) is float and id.is_integer() else id


def own_id(id: object) -> Optional[int]:
    """Return the number of a request of this side that *id* names; None if it cannot name one.

    Some servers send numbers back as text, which the official SDKs accept, or as 1.0, where a language has no integers.
    """
    if type(id) is int:
        return id
    if type(id) is float:
        return int(id) if id.is_integer() else None
    if isinstance(id, str) and len(id) < 20 and id.isdecimal() and id.isascii() and str(int(id)) == id:
        return int(id)
    return None


class Request:
    """A request; ``params`` is None when the message has none."""

    __slots__ = ("id", "method", "params")

    def __init__(self, id: Id, method: str, params: Optional[Dict[str, Any]] = None) -> None:
        self.id = id
        self.method = method
        self.params = params


class Notification:
    """A notification: a request that is never answered (RPC-15); ``size`` is that of the text it came in, in bytes."""

    __slots__ = ("method", "params", "size")

    def __init__(self, method: str, params: Optional[Dict[str, Any]] = None, size: int = 0) -> None:
        self.method = method
        self.params = params
        self.size = size


class Response:
    """A success response."""

    __slots__ = ("id", "result")

    def __init__(self, id: Id, result: Any) -> None:
        self.id = id
        self.result = result


class Failure:
    """An error response; ``id`` is None if the request's id could not be read."""

    __slots__ = ("id", "code", "message", "data")

    def __init__(self, id: Optional[Id], code: Any, message: Any, data: Any = None) -> None:
        self.id = id
        self.code = code
        self.message = message
        self.data = data


class Invalid:
    """Bytes that are not a message.

    :param id: the id of the request or response, as far as it could be read.
    :param code: the code of the error to answer with.
    :param message: the text of that error.
    :param answers: whether it looks like a response or a notification, so that it gets no answer (RPC-15).
    :param oversized: whether it was refused for its size or its depth alone.
    """

    __slots__ = ("id", "code", "message", "answers", "oversized", "bare")

    def __init__(self, id: Optional[Id], code: int, message: str, answers: bool = False, oversized: bool = False) -> None:
        self.id = id
        self.code = code
        self.message = message
        self.answers = answers
        self.oversized = oversized
        #: Whether it has an id, and neither a method nor a result nor an error: it may be meant as a response.
        self.bare = False


class Batch:
    """An array of messages, each parsed on its own (RPC-24)."""

    __slots__ = ("items",)

    def __init__(self, items: "List[Message]") -> None:
        self.items = items


class Encoded:
    """A result, or params, sent as a JSON text which is made once: on first use, or before.

    :param value: the JSON value; None if only its text is known.
    :param text: the text; by default that of *value*.
    :param parts: in place of the text: what stands before a long string, its value, which is encoded when the message is, and
        what stands behind it.
    """

    __slots__ = ("value", "_text", "parts")

    def __init__(self, value: Any, text: Optional[str] = None, parts: Optional[Tuple[str, str, str]] = None) -> None:
        self.value = value
        self._text = text
        #: The text in parts, as given.
        self.parts = parts

    @property
    def text(self) -> str:
        """The JSON text."""
        if self.parts is not None:
            before, string, after = self.parts
            return f"{before}{encode_string(string)}{after}"
        if self._text is None:
            self._text = encode_json(self.value)
        return self._text


Message = Union[Request, Notification, Response, Failure, Invalid, Batch]


def parse(data: bytes, limits: JSONLimits = DEFAULT_LIMITS) -> Message:
    """Return the message, or the batch of messages, that *data* holds; never raises.

    :param data: one UTF-8 JSON text (RPC-02).
    :param limits: bounds on depth, size and number; see :class:`JSONLimits`.
    """
    try:
        value = load(data, limits)
        if type(value) is dict:
            return _message(value, limits, len(data))
        if type(value) is list:
            if not value:
                return Invalid(None, INVALID_REQUEST, "an empty array is not a message")
            if len(value) > limits.batch:
                return Invalid(None, INVALID_REQUEST, f"a batch may have {limits.batch} messages, not {len(value)}")
            return Batch([_message(item, limits, len(data)) for item in value])
        return Invalid(None, INVALID_REQUEST, f"a message is an object, not {_kind(value)}")
    except DuplicateKey as error:
        return _ambiguous(data, limits, error)
    except TooLarge as error:
        return Invalid(None, error.code, str(error), oversized=True)
    except ValueError as error:
        return Invalid(None, PARSE_ERROR, f"Parse error: {error}")
    except RecursionError:
        return Invalid(None, PARSE_ERROR, "Parse error: nested too deeply")  # the caller's stack was nearly full


def _ambiguous(data: bytes, limits: JSONLimits, error: DuplicateKey) -> Invalid:
    """Return the error for a text with a duplicate key, with the id of the request if that is certain (RPC-11)."""
    limits = copy.copy(limits)
    limits.duplicate_keys = True
    message = parse(data, limits)
    if isinstance(message, Invalid) and message.code == PARSE_ERROR:
        return message
    id = None if error.key == "id" else getattr(message, "id", None)
    answers = message.answers if isinstance(message, Invalid) else isinstance(message, (Response, Failure, Notification))
    return Invalid(id, INVALID_REQUEST, str(error), answers)


def _message(value: Any, limits: JSONLimits, size: int) -> "Union[Request, Notification, Response, Failure, Invalid]":
    if type(value) is not dict:
        return Invalid(None, INVALID_REQUEST, f"a message is an object, not {_kind(value)}")
    id = value.get("id")
    # bool is a subclass of int, and True would equal the id 1 (SEC-28).
    if type(id) is int:
        readable = 0 <= id < _SHORT or len(str(id)) <= limits.id_length
    elif id is None:
        readable = False
    elif type(id) is float and id.is_integer():
        id = int(id)
        readable = len(str(id)) <= limits.id_length
    else:
        readable = type(id) is str and len(id) <= limits.id_length
    if value.get("jsonrpc") != "2.0":
        return Invalid(id if readable else None, INVALID_REQUEST, "the member jsonrpc must be \"2.0\"",
                       "method" not in value and ("result" in value or "error" in value))
    method = value.get("method")
    if type(method) is str:
        has_id = readable or "id" in value
        if has_id and not readable:
            return Invalid(None, INVALID_REQUEST,
                           f"a request id is a string or an integer, of at most {limits.id_length} characters")
        if len(method) > limits.method_length:
            return Invalid(id, INVALID_REQUEST, f"a method has at most {limits.method_length} characters", not has_id)
        params = value.get("params")
        if params is not None and type(params) is not dict:
            if params != []:
                return Invalid(id, INVALID_REQUEST, f"params must be an object, not {_kind(params)}", not has_id)
            params = {}  # as PHP writes an empty object
        return Request(id, method, params) if has_id else Notification(method, params, size)  # type: ignore[arg-type]
    if method is None and readable:
        result = value.get("result")
        if type(result) is dict and value.get("error") is None:
            return Response(id, result)  # type: ignore[arg-type]
    answers = "result" in value or "error" in value
    if not answers or method is not None:
        invalid = Invalid(id if readable else None, INVALID_REQUEST,
                          "a message has a method, which is a string, or a result or an error", answers)
        invalid.bare = readable and not answers and "method" not in value
        return invalid
    # Some libraries write both members, as JSON-RPC 1 did, and null for the one that does not apply.
    error = value.get("error")
    if error is not None or "result" not in value:
        if value.get("result") is not None:
            return Invalid(id if readable else None, INVALID_REQUEST, "an answer has a result or an error, not both", True)
        if type(error) is not dict:
            return Invalid(id if readable else None, INVALID_REQUEST, "the error of an answer must be an object", True)
        if id is not None and not readable:
            return Invalid(None, INVALID_REQUEST, "an answer needs the id of its request", True)
        return Failure(id, error.get("code"), error.get("message"), error.get("data"))
    if not readable:
        return Invalid(None, INVALID_REQUEST, "an answer needs the id of its request", True)
    if value["result"] == []:
        return Response(id, {})  # type: ignore[arg-type]
    return Invalid(id, INVALID_REQUEST, f"a result must be an object, not {_kind(value['result'])}", True)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array",
            dict: "an object"}.get(type(value), "a value")


def dump(message: "Union[Request, Notification, Response, Failure]", *, null_id: bool = True) -> bytes:
    """Return a message as one line of UTF-8 JSON, without the line end.

    :param null_id: whether an error without an id has ``"id":null``; otherwise it lacks the member (RPC-11).
    :raises TypeError: a value in it is not JSON.
    :raises ValueError: a number is not finite, or the value is nested too deeply or contains itself.
    """
    kind = type(message)
    if kind is Response:
        return dump_result(message.id, message.result)  # type: ignore[union-attr, arg-type]
    if kind is Request:
        return dump_request(message.id, message.method, message.params)  # type: ignore[union-attr, arg-type]
    if kind is Notification:
        return dump_notification(message.method, message.params)  # type: ignore[union-attr]
    if kind is Failure:
        error = {"code": message.code, "message": message.message}  # type: ignore[union-attr]
        if message.data is not None:  # type: ignore[union-attr]
            error["data"] = message.data  # type: ignore[union-attr]
        id = message.id  # type: ignore[union-attr]
        middle = "" if id is None and not null_id else '"id":' + encode_json(id) + ","
        text = '{"jsonrpc":"2.0",' + middle + '"error":' + encode_json(error) + "}"
    else:
        raise TypeError(f"{kind.__name__} is not a message that can be sent")
    # A lone surrogate has no UTF-8 form; it is written as an escape, which Python spells as JSON does (SEC-23).
    return text.encode("utf-8", "backslashreplace")


def dump_result(id: Id, result: Any) -> bytes:
    """Return a success response as :func:`dump` does.

    :param result: a JSON value, or one that is :class:`Encoded`.
    :raises TypeError, ValueError: as for :func:`dump`.
    """
    shown = id if type(id) is int else encode_json(id)
    if type(result) is Encoded:
        if result.parts is not None:
            before, string, after = result.parts
            return write_long(f'{{"jsonrpc":"2.0","id":{shown},"result":{before}', string, after + "}", quote=True)
        text = result._text or result.text
    else:
        text = encode_json(result)
    if len(text) > LONG:
        return write_long(f'{{"jsonrpc":"2.0","id":{shown},"result":', text, "}")
    return f'{{"jsonrpc":"2.0","id":{shown},"result":{text}}}'.encode("utf-8", "backslashreplace")


def dump_request(id: Id, method: str, params: "Union[None, Dict[str, Any], Encoded]") -> bytes:
    """Return a request as :func:`dump` does.

    :param params: a JSON object, or one that is :class:`Encoded`.
    :raises TypeError, ValueError: as for :func:`dump`.
    """
    shown = id if type(id) is int else encode_json(id)
    head = f'{{"jsonrpc":"2.0","id":{shown},"method":{encode_string(method)}'
    if params is None:
        return (head + "}").encode("utf-8", "backslashreplace")
    text = params.text if isinstance(params, Encoded) else encode_json(params)
    if len(text) > LONG:
        return write_long(head + ',"params":', text, "}")
    return f'{head},"params":{text}}}'.encode("utf-8", "backslashreplace")


def dump_notification(method: str, params: Optional[Dict[str, Any]]) -> bytes:
    """Return a notification as :func:`dump` does.

    :raises TypeError, ValueError: as for :func:`dump`.
    """
    text = '{"jsonrpc":"2.0","method":' + encode_string(method)
    text += "}" if params is None else ',"params":' + encode_json(params) + "}"
    return text.encode("utf-8", "backslashreplace")


def describe(message: Message) -> str:
    """Return a description of at most 200 characters for logs and errors; what the peer wrote is escaped and cut."""
    if isinstance(message, Request):
        return f"request {quoted(message.method, 100)} id {quoted(message.id, 50)}"
    if isinstance(message, Notification):
        return f"notification {quoted(message.method, 100)}"
    if isinstance(message, Response):
        return f"result for id {quoted(message.id, 50)}"
    if isinstance(message, Failure):
        return f"error {quoted(message.code, 20)} for id {quoted(message.id, 50)}: {quoted(message.message, 100)}"
    if isinstance(message, Batch):
        return f"batch of {len(message.items)}"
    return f"invalid message: {message.message[:150]}"
