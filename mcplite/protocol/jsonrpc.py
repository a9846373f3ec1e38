"""JSON-RPC 2.0: bytes to messages and back, within bounds that are checked before anything is built.

``parse`` never raises: bytes that are not a message become an :class:`Invalid`, which holds the error to answer with. Depth,
size and number of a text's members are bounded first: four megabytes of ``[{},{},...]`` become a hundred megabytes of
Python objects. For a small message the check is two calls of ``bytes.count``.
"""

from __future__ import annotations

import io
import json
import json.encoder
import re
import sys
from math import isfinite
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

from ..errors import INVALID_REQUEST, PARSE_ERROR
from ..types.codec import kind_name
from ..types.lazy_dataclass import Record, changed, record
from .error_text import quoted


@record
class JSONLimits(Record):
    """Bounds on one JSON text and on the JSON-RPC members in it.

    :param nesting: depth of arrays and objects.
    :param elements: keys and items in all.
    :param digits: of one integer; by default the bound of newer versions of Python.
    :param id_length: characters of a request id.
    :param method_length: characters of a method.
    :param batch: messages of one batch.
    :param duplicate_keys: whether a key may come twice in an object; the last one counts. A server refuses such objects, so
        that a proxy in front of it cannot have read another value (SEC-24).
    """

    nesting: int = 64
    elements: int = 100_000
    digits: int = 4300
    id_length: int = 256
    method_length: int = 256
    batch: int = 50
    duplicate_keys: bool = False


DEFAULT_LIMITS = JSONLimits()


class TooLarge(ValueError):
    """More depth or more elements than the limits allow; ``code`` is the JSON-RPC error for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class DuplicateKey(ValueError):
    """An object has the same key twice; ``key`` names it."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key[:100]!r} comes twice in one object")
        self.key = key


#: Bytes that are looked for one by one before all are counted, and the size of a text in which they are.
_RARE, _LARGE = 32, 16_384


def _count(data: bytes, byte: bytes) -> int:
    """Return how often a byte occurs in a large text.

    ``bytes.count`` looks at each byte, ``find`` at many in one step: for a text of megabytes without many brackets or commas,
    such as an image in base64, that is eight times as fast, and this count would be a third of the time of decoding it.
    """
    at = -1
    for number in range(_RARE):
        at = data.find(byte, at + 1)
        if at < 0:
            return number
    return _RARE + data.count(byte, at + 1)


def count_elements(data: bytes) -> int:
    """Return a number that the keys and items of a JSON text do not exceed; strings can only add to it."""
    count = bytes.count if len(data) < _LARGE else _count
    return count(data, b",") + count(data, b"{") + count(data, b"[")


_STRING = rb'"[^"]*"?'
_STRUCTURE = b'"[]{},:'
_NOT_STRUCTURE = bytes(set(range(256)) - set(_STRUCTURE))
_SQUARE = bytes.maketrans(b"{}", b"[]")


def _scan(data: bytes, limits: JSONLimits) -> None:
    """Count depth and elements exactly, skipping strings."""
    # Passes in C without backtracking, so that every text takes linear time. Without the escapes each string ends
    # at the next quote, and most strings have only their quotes left.
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    bare = data.translate(_SQUARE, _NOT_STRUCTURE).replace(b'""', b"")
    if bare.count(b'"') > 4 * limits.elements:
        raise _too_many(limits)  # JSON has at most two strings for each element
    bare = re.sub(_STRING, b"", bare)
    # Each round removes the innermost pairs, one level. A text with more brackets than this has too many elements,
    # or closes more than it opened, which is not JSON.
    brackets = bare.translate(None, b",:")[:2 * limits.elements]
    for _ in range(limits.nesting):
        shorter = brackets.replace(b"[]", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    if b"[]" in brackets or brackets.count(b"[") > limits.nesting:
        raise TooLarge(f"Parse error: nested more than {limits.nesting} levels deep", PARSE_ERROR)
    if bare.count(b"[") + bare.count(b",") > limits.elements:
        raise _too_many(limits)


def _too_many(limits: JSONLimits) -> TooLarge:
    return TooLarge(f"more than {limits.elements} keys and items in one message", INVALID_REQUEST)


def _has_digits(data: bytes, count: int) -> bool:
    """Whether there may be more than *count* digits in a row; False is certain."""
    # A run of that length fills one of these blocks, wherever it begins.
    block = max(count // 2, 1)
    return any(data[at:at + block].isdigit() for at in range(0, len(data), block))


def refuse_constant(name: str) -> Any:
    """Refuse NaN and the infinities, which Python's decoder takes for numbers.

    :raises ValueError: always.
    """
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(key)
            seen.add(key)
    return value


def bounded_int(digits: int) -> Callable[[str], int]:
    """Return a decoder of integers of at most so many digits."""
    def convert(text: str) -> int:
        if len(text) - text.startswith("-") > digits:
            raise ValueError(f"an integer has more than {digits} digits")
        return int(text)

    return convert


#: White space in JSON (RFC 8259, section 2), and before a text a byte order mark too, which a reader may ignore (section 8.1).
_SPACE = " \t\n\r"
_SPACE_IN_FRONT = "\ufeff" + _SPACE


#: Returns the value that begins at a place in a text, and its end.
_Scan = Callable[[str, int], Tuple[Any, int]]


def _scanner(**options: Any) -> _Scan:
    """Return the scanner of a decoder, whose ``decode`` looks for white space that most texts do not have.

    :param options: of :class:`json.JSONDecoder`.
    """
    return json.JSONDecoder(  # type: ignore[attr-defined, no-any-return]
        parse_constant=refuse_constant, parse_float=_finite, **options).scan_once


def _scan_behind_space(scan: _Scan, text: str) -> Tuple[Any, int]:
    try:
        return scan(text, len(text) - len(text.lstrip(_SPACE_IN_FRONT)))
    except StopIteration as error:
        raise json.JSONDecodeError("Expecting value", text, error.value) from None


def _check_rest(text: str, end: int) -> None:
    rest = text[end:].lstrip(_SPACE)
    if rest:
        raise json.JSONDecodeError("Extra data", text, len(text) - len(rest))


# Made once: building a decoder takes longer than parsing a small message.
_scan_strictly = _scanner(object_pairs_hook=_unique)
_scan_plainly = _scanner()


def load(data: bytes, limits: JSONLimits = DEFAULT_LIMITS) -> Any:
    """Return the value of one JSON text.

    :raises TooLarge: it exceeds a limit.
    :raises DuplicateKey: a key comes twice, and the limits forbid it.
    :raises ValueError: it is not UTF-8, not JSON, or has a number that is not finite or too long.
    """
    size = len(data)
    # Each level needs an opener and its end, and each element an opener or a comma; strings can only add to the counts.
    if size >= 2 * limits.nesting or size > limits.elements:
        count = bytes.count if size < _LARGE else _count
        opened = count(data, b"{") + count(data, b"[")
        if opened > limits.nesting or size > limits.elements and opened + count(data, b",") > limits.elements:
            _scan(data, limits)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    scan = _scan_plainly if limits.duplicate_keys else _scan_strictly
    if size > limits.digits and _has_digits(data, limits.digits):
        scan = _scanner(parse_int=bounded_int(limits.digits), object_pairs_hook=None if limits.duplicate_keys else _unique)
    try:
        try:
            value, end = scan(text, 0)
        except StopIteration:
            value, end = _scan_behind_space(scan, text)
    except RecursionError:
        raise TooLarge("Parse error: nested too deeply", PARSE_ERROR) from None
    if end != len(text):
        _check_rest(text, end)
    return value


def memory_size(value: Any, most: int) -> int:
    """Return the bytes of memory that a JSON value takes, or any number above *most* if it takes more.

    The value may be an object that was decoded from JSON, with its fields. A short text may become large: an empty object
    takes two bytes of JSON, and more than sixty of memory.
    """
    size = 0
    waiting = [value]
    while waiting and size <= most:
        item = waiting.pop()
        # PyPy knows no sizes and returns the default.
        size += sys.getsizeof(item, 0) or 64 + (len(item) if type(item) is str else 0)
        if type(item) is dict:
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
        elif hasattr(item, "__dict__"):
            waiting.append(vars(item))
    return size


#: Keys and items that are few enough to look at each of them.
_FEW = 64


def estimate_memory(data: bytes, value: Any, limits: JSONLimits = DEFAULT_LIMITS) -> int:
    """Return about how much memory a JSON text takes, with its value, which is not below what is really taken by much.

    It takes far less time than parsing: the value is measured if it has few parts, else a few passes in C estimate it.

    :param value: what was decoded from the text; None if it was not kept in one piece.
    """
    elements = count_elements(data)
    if elements <= _FEW and value is not None:
        return len(data) + memory_size(value, sys.maxsize)
    wide = not data.isascii() or b"\\u" in data  # one character can make all others of its string as wide
    return (5 if wide else 2) * len(data) + 120 * min(elements, 2 * limits.elements)


def object_of(value: Any) -> Any:
    """Return an empty object for an empty array, since PHP writes both in the same way; any other value as it is."""
    return {} if value == [] else value


def first_members(value: Dict[str, Any], most: int) -> Dict[str, Any]:
    """Return the first members of an object, as many as take *most* bytes of memory."""
    left = most
    kept: Dict[str, Any] = {}
    for name, item in value.items():
        left -= memory_size([name, item], left)
        if left < 0:
            break
        kept[name] = item
    return kept


# --- writing --------------------------------------------------------------------------------------------


def _refuse(value: Any) -> Any:
    raise TypeError(f"a value of the class {type(value).__name__} is not JSON")


def _converted(value: Any) -> Any:
    from .jsonable import jsonable  # for the few values that are not JSON

    return jsonable(value)


def _encoder(default: Callable[[Any], Any]) -> Callable[[Any, int], Iterable[str]]:
    """Return what writes a value in pieces.

    :param default: returns the JSON data of a value that is not JSON, or raises TypeError.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False,
                                   default=default)
        return lambda value, level: (encoder.encode(value),)
    # JSONEncoder.encode builds this object on every call, which takes longer than writing a small message.
    # Without a dictionary of markers (no check for cycles) it has no state, so one serves all threads.
    pieces: Callable[[Any, int], Iterable[str]] = make(
        None, default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return pieces


_pieces = _encoder(_refuse)
_params_pieces = _encoder(_converted)


def encode_json(value: Any) -> str:
    """Return a value as compact JSON, with all characters as they are.

    :raises TypeError: a value in it is not JSON.
    :raises ValueError: a number is not finite, or the value is nested too deeply or contains itself.
    """
    try:
        return "".join(_pieces(value, 0))
    except RecursionError:
        # A cycle ends here: check_circular, which costs a dictionary entry for each container, is off.
        raise ValueError("the value is nested too deeply, or contains itself") from None


def encode_params(params: Any) -> str:
    """Return the params of a message as :func:`encode_json` does, with dates, dataclasses and others as JSON data.

    :func:`~.jsonable.jsonable` converts what the encoder does not know, so that plain values cost nothing more. Keys are not
    converted.

    :raises TypeError, ValueError: as for :func:`encode_json`, and a value has no form in JSON.
    """
    try:
        return "".join(_params_pieces(params, 0))
    except RecursionError:
        raise ValueError("the value is nested too deeply, or contains itself") from None


#: Returns a string as :func:`encode_json` writes it; for strings only.
encode_string: Callable[[str], str] = json.encoder.encode_basestring
#: Characters of a text that is encoded in slices, and of a slice.
LONG = 65_536


def write_long(before: str, text: str, after: str, quote: bool = False, cut: int = 0) -> bytes:
    """Return three texts in UTF-8, with lone surrogates as escapes, as ``(before + text + after).encode()`` would.

    The one in the middle may be long. Whole, it would be copied for each step, and memory that is new costs more than the
    step: for a result of 10 MB this is a fifth of the server's time.

    :param quote: whether *text* is the value of a string, which is written as :func:`encode_string` does.
    :param cut: characters at the end of *text* that are left out.
    """
    end = len(text) - cut
    out = io.BytesIO()  # which returns its bytes without another copy
    out.write((before + '"' * quote).encode("utf-8", "backslashreplace"))
    for at in range(0, end, LONG):
        part = text[at:min(at + LONG, end)]
        out.write((encode_string(part)[1:-1] if quote else part).encode("utf-8", "backslashreplace"))
    out.write(('"' * quote + after).encode("utf-8", "backslashreplace"))
    return out.getvalue()


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

    __slots__ = ("id", "code", "message", "answers", "oversized", "bare", "printed")

    def __init__(self, id: Optional[Id], code: int, message: str, answers: bool = False, oversized: bool = False) -> None:
        self.id = id
        self.code = code
        self.message = message
        self.answers = answers
        self.oversized = oversized
        #: Whether it has an id, and neither a method nor a result nor an error: it may be meant as a response.
        self.bare = False
        #: What a program printed in place of a message, quoted; "" for all other input.
        self.printed = ""


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

    @property
    def unclosed(self) -> Tuple[str, str]:
        """The text of an object, and what is written in place of its last brace; both may be long."""
        return self.text, "}"


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
        return Invalid(None, INVALID_REQUEST, f"a message is an object, not {kind_name(value)}")
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
    message = parse(data, changed(limits, duplicate_keys=True))
    if isinstance(message, Invalid) and message.code == PARSE_ERROR:
        return message
    id = None if error.key == "id" else getattr(message, "id", None)
    answers = message.answers if isinstance(message, Invalid) else isinstance(message, (Response, Failure, Notification))
    return Invalid(id, INVALID_REQUEST, str(error), answers)


def _message(value: Any, limits: JSONLimits, size: int) -> "Union[Request, Notification, Response, Failure, Invalid]":
    if type(value) is not dict:
        return Invalid(None, INVALID_REQUEST, f"a message is an object, not {kind_name(value)}")
    id = value.get("id")
    if len(value) == 3 and "result" in value and type(id) is int and 0 <= id < _SHORT:
        # What most answers are; the rest of the function reads all others, and this one as well.
        result = value["result"]
        if type(result) is dict and value.get("jsonrpc") == "2.0":
            return Response(id, result)
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
                return Invalid(id, INVALID_REQUEST, f"params must be an object, not {kind_name(params)}", not has_id)
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
    return Invalid(id, INVALID_REQUEST, f"a result must be an object, not {kind_name(value['result'])}", True)


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

    :param params: an object for :func:`encode_params`, or one that is :class:`Encoded`.
    :raises TypeError, ValueError: as for :func:`dump`.
    """
    shown = id if type(id) is int else encode_json(id)
    head = f'{{"jsonrpc":"2.0","id":{shown},"method":{encode_string(method)}'
    if params is None:
        return (head + "}").encode("utf-8", "backslashreplace")
    if isinstance(params, Encoded):
        text, end = params.unclosed
        if len(text) > LONG:
            return write_long(head + ',"params":', text, end + "}", cut=1)
        return f'{head},"params":{text[:-1]}{end}}}'.encode("utf-8", "backslashreplace")
    text = encode_params(params)
    if len(text) > LONG:
        return write_long(head + ',"params":', text, "}")
    return f'{head},"params":{text}}}'.encode("utf-8", "backslashreplace")


def dump_notification(method: str, params: Optional[Dict[str, Any]]) -> bytes:
    """Return a notification as :func:`dump` does.

    :raises TypeError, ValueError: as for :func:`dump`.
    """
    text = '{"jsonrpc":"2.0","method":' + encode_string(method)
    text += "}" if params is None else ',"params":' + encode_params(params) + "}"
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
