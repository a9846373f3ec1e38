"""The parsers as functions of bytes: each target reads any input without a foreign exception, and a property holds.

Most compare two ways to the same result: the whole input against its pieces, or this parser against another one.
``python -m tests.fuzz`` looks for inputs that break one; ``test_corpus.py`` runs the inputs that were kept.
"""

import contextlib
import dataclasses
import http.client
import io
import ipaddress
import json
import os
import re
import urllib.parse

from jsonschema import Draft202012Validator

from mcplite import types
from mcplite.auth.login.web import is_public
from mcplite.client import config
from mcplite.errors import InvalidParams, ProtocolError, RegistrationError, TransportError, UnsupportedVersion
from mcplite.protocol import jsonrpc, opaque, uris, uritemplate
from mcplite.protocol.framing import KEPT_BYTES, LineBuffer
from mcplite.protocol.http import headers, http1, oauth, routing_headers, sse
from mcplite.protocol.schema.validation import Validator, check_schema
from mcplite.revisions import REVISIONS
from mcplite.server.sessions import modern
from mcplite.types import codec

MODELS = [model for model in (getattr(types, name) for name in types.__all__)
          if isinstance(model, type) and dataclasses.is_dataclass(model)]
KEY = b"a key of enough bytes"


def pieces(data):
    """Cut an input at places that its first byte tells: (the input, its pieces)."""
    step = data[0] % 7 + 1 if data else 1
    rest = data[1:]
    return rest, [rest[at:at + step] for at in range(0, len(rest), step)]


def text_of(data):
    return data.decode("utf-8", "surrogateescape")


# --- JSON -------------------------------------------------------------------------------------------


def json_text(data):
    """What is read as JSON is what the standard library reads, and is written and read again unchanged."""
    try:
        value = jsonrpc.load(data)
    except (ValueError, RecursionError):
        return
    assert value == json.loads(data)
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate, which JSON can say in an escape
        assert jsonrpc.load(jsonrpc.encode_json(value).encode("utf-8")) == value


def message(data):
    """A message is read, or refused as a value; what was read is written and read as the same."""
    read = jsonrpc.parse(data)
    assert jsonrpc.describe(read)
    if isinstance(read, (jsonrpc.Request, jsonrpc.Notification, jsonrpc.Response, jsonrpc.Failure)):
        with contextlib.suppress(UnicodeEncodeError):
            again = jsonrpc.parse(jsonrpc.dump(read))
            assert type(again) is type(read) and getattr(again, "id", None) == getattr(read, "id", None)


def model(data):
    """Any JSON object is decoded to a type, or refused; what was decoded can be sent in every revision."""
    if not data:
        return
    cls = MODELS[data[0] % len(MODELS)]
    try:
        value = codec.decode(cls, jsonrpc.load(data[1:]))
    except (ValueError, ProtocolError, RecursionError):
        return
    for revision in REVISIONS:
        with contextlib.suppress(ProtocolError, ValueError):
            jsonrpc.encode_json(codec.encode(value, revision))


def metadata(data):
    """The metadata of a request is read, or refused with the error that the client understands."""
    try:
        params = jsonrpc.load(data)
    except (ValueError, RecursionError):
        return
    if isinstance(params, dict):
        with contextlib.suppress(InvalidParams, UnsupportedVersion):
            modern.read_envelope(params)


def schema(data):
    """The quick check of a schema agrees with jsonschema."""
    try:
        given = jsonrpc.load(data)
    except (ValueError, RecursionError):
        return
    if not (isinstance(given, list) and len(given) == 2 and isinstance(given[0], dict)):
        return
    rules, instance = given
    try:
        check_schema(rules, what="the schema", trusted=False)
    except RegistrationError:
        return
    validator = Validator(rules, trusted=False)
    verdict = validator.is_valid(instance)
    found = validator.problems(instance, "value")
    assert verdict is not bool(found)
    if "pattern" in str(rules) or "$" in str(rules) or any("stopped" in one or "cannot" in one for one in found):
        return  # bounded here, and not there
    if "multipleOf" in str(rules):
        return  # by decimal value here: 0.3 is a multiple of 0.1
    assert Draft202012Validator(rules).is_valid(instance) is verdict


def settings(data):
    """A settings file without comments means what the standard library says; any other is read or refused."""
    text = data.decode("utf-8", "replace")
    try:
        value, _ = config.parse(text, "a file")
    except TransportError:
        value = None
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        return
    assert value == plain or "NaN" in text or "//" in text or "/*" in text


# --- HTTP -------------------------------------------------------------------------------------------


def _head(buffer):
    limits = http1.HeadLimits(line=128, total=512, count=8)
    try:
        end = http1.find_head(buffer, limits)
        if end is None:
            return None
        head = http1.parse_head(bytes(buffer[:end]), limits)
        return end, head, http1.body_plan(head)
    except http1.BadRequest as error:
        return error.status


def http_head(data):
    """A request's head is the same whole and in pieces, and its headers are what the standard library reads."""
    whole, parts = pieces(data)
    buffer = bytearray()
    found = None
    for part in parts:
        buffer += part
        found = _head(buffer)
        if found is not None:
            break
    once = _head(bytearray(whole))
    if isinstance(found, tuple):
        assert isinstance(once, tuple) and once[0] == found[0] and once[2] == found[2]
        end, head, _ = found
        lines = whole[:end].partition(b"\r\n")[2]
        theirs = http.client.parse_headers(io.BytesIO(lines))
        assert not theirs.defects
        assert [(name.lower(), value) for name, value in head.headers.items()] == [
            (name.lower(), value.strip(" \t")) for name, value in theirs.items()]
    else:
        assert not isinstance(once, tuple) or found is None


def chunked_body(data):
    """A chunked body is the same whole and in pieces, and what the standard library reads of it."""
    whole, parts = pieces(data)

    def decode(chunks):
        decoder = http1.ChunkedDecoder(4096)
        out = b""
        try:
            for chunk in chunks:
                if not decoder.done:
                    out += decoder.feed(chunk)
        except http1.BadRequest as error:
            return error.status
        return out, decoder.done

    once, stepwise = decode([whole]), decode(parts)
    assert once == stepwise or (isinstance(once, tuple) and not once[1] and isinstance(stepwise, int)), (once, stepwise)
    if isinstance(once, tuple) and once[1]:
        response = http.client.HTTPResponse(_Socket(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + whole))
        response.begin()
        assert response.read() == once[0]


class _Socket:
    def __init__(self, data):
        self._data = data

    def makefile(self, mode):
        return io.BytesIO(self._data)


def event_stream(data):
    """An event stream is the same whole, in pieces and byte by byte."""
    whole, parts = pieces(data)

    def parse(chunks):
        parser = sse.EventParser(1024)
        found = []
        try:
            for chunk in chunks:
                found += [(one.event, one.data, one.id, one.retry) for one in parser.feed(chunk)]
        except ProtocolError:
            return found, "too long"
        return found, "whole"

    once = parse([whole])
    for chunks in (parts, [bytes([byte]) for byte in whole]):
        stepwise = parse(chunks)
        # An event that is too long may be noticed before or behind events of the same chunk.
        assert stepwise == once or "too long" in (*once, *stepwise)


def stdio_lines(data):
    """Lines are the same whole and in pieces, and what split() finds."""
    whole, parts = pieces(data)

    def cut(chunks):
        buffer = LineBuffer(64)
        found = []
        for chunk in [*chunks, b""]:
            buffer.feed(chunk)
        while True:
            line = buffer.next()
            if line is None:
                return found
            found.append((line, getattr(line, "tail", None)))

    # An empty chunk would be the end.
    once, stepwise = cut([whole] if whole else []), cut(parts)
    assert once == stepwise
    plain = [line[:-1] if line.endswith(b"\r") else line for line in whole.split(b"\n")[:-1]]
    plain = [line for line in plain if line.strip(b" \t\r\v\f\xef\xbb\xbf")]
    assert [(line, None) if tail is None else (line[:-1], tail) for line, tail in once] == [
        (line, None if len(line) <= 64 else line[KEPT_BYTES:]) for line in plain]


def header_value(data):
    """Values of headers are read or refused: hosts and origins as urllib reads them, marked values reversibly."""
    text = data.decode("latin-1")
    for challenge in oauth.parse_challenges(text):
        assert challenge.scheme == challenge.scheme.lower()
    headers.accepts(text, "application/json", "text/event-stream")
    headers.media_type(text)
    host = headers.parse_host(text)
    if host is not None:
        with contextlib.suppress(ValueError):  # no such IPv6 address; the value is only compared
            parts = urllib.parse.urlsplit("//" + text)
            assert (parts.hostname or "").rstrip(".") == host[0].strip("[]").rstrip(".") and parts.port == host[1]
    origin = headers.parse_origin(text)
    if origin is not None:
        assert urllib.parse.urlsplit(text).scheme == origin[0]
    assert routing_headers.decode_value(routing_headers.encode_value(text)) == text
    with contextlib.suppress(ValueError):
        routing_headers.decode_value(text)


# --- URLs, paths, addresses -------------------------------------------------------------------------


def url(data):
    """A URL that is accepted has the origin that urllib finds, and stands for itself."""
    text = text_of(data)
    try:
        origin = oauth.origin_of(text)
        plain = oauth.canonical(text)
    except ValueError:
        return
    parts = urllib.parse.urlsplit(text)
    assert origin[:2] == (parts.scheme, parts.hostname) and "@" not in parts.netloc
    assert origin[2] == (parts.port or {"http": 80, "https": 443}[origin[0]])
    assert oauth.origin_of(plain) == origin and oauth.canonical(plain) == plain
    assert oauth.covers(plain, plain) or set(plain) & set("?#")


def address(data):
    """An address that is taken for public is global for Python as well; one that stands for others is if they are."""
    text = text_of(data)
    public = is_public(text)
    if len(data) in (4, 16):
        packed = ipaddress.ip_address(data)
        stands_for = [] if packed.version == 4 else [packed.ipv4_mapped, packed.sixtofour, *(packed.teredo or ())]
        assert is_public(str(packed)) <= all(one.is_global for one in list(filter(None, stands_for)) or [packed])
    if public:
        assert ipaddress.ip_address(text.partition("%")[0])


def uri_template(data):
    """A template's own expansion matches it; any URI is matched or not, in linear time."""
    template, _, uri = text_of(data).partition("\n")
    try:
        compiled = uritemplate.Template(template)
    except ValueError:
        return
    found = compiled.match(uri)
    assert found is None or set(found) <= set(compiled.names)
    # Text that looks like a query of its own stands in the way of a query expression.
    if template.isascii() and not set("?&=") & set(re.sub(r"\{[^}]*\}", "", template)):
        assert compiled.match(compiled.expand({name: "value" for name in compiled.names})) is not None


def path(data):
    """A joined path stays below its root, and a path is found again from its URI."""
    text = text_of(data)
    root = os.path.realpath(os.path.dirname(__file__))
    with contextlib.suppress(ValueError, OSError):
        joined = uris.safe_join(root, text)
        assert joined == root or joined.startswith(root + os.sep)
        assert uris.path_of(uris.file_uri(joined)) == joined
    with contextlib.suppress(ValueError):
        assert "\0" not in uris.path_of(text)
    with contextlib.suppress(ValueError):
        uris.check_root_uri(text)


# --- what comes back from a client ------------------------------------------------------------------


def returned_value(data):
    """A cursor or a sealed value that this server did not make is refused; its own are read."""
    text = text_of(data)
    assert opaque.open_sealed(text, [KEY], "context") is None
    sealed = opaque.seal(data, KEY, "context")
    assert opaque.open_sealed(sealed, [KEY], "context") == data
    assert opaque.open_sealed(sealed, [KEY], "another") is None
    with contextlib.suppress(InvalidParams):
        opaque.page([text, "b"], text, 1, "tools", key=str)
    _, cursor = opaque.page([text, "b"], None, 1, "tools", key=str)
    assert opaque.page([text, "b"], cursor, 1, "tools", key=str) == (["b"], None)


TARGETS = {target.__name__: target for target in (
    json_text, message, model, metadata, schema, settings, http_head, chunked_body, event_stream, stdio_lines,
    header_value, url, address, uri_template, path, returned_value)}
