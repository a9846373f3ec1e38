import json

import pytest

from mcplite.protocol.framing import CutLine, LineBuffer, refuse_unread
from mcplite.protocol.jsonrpc import Batch, Invalid

LONG = "a" * 300_000
#: What would be an id if a string were not one.
QUOTED = '","id":9},{"id":10,' * 20_000


def seen(text, limit=1000, answers=False):
    """The ids of a text, and whether each is that of an answer."""
    buffer = LineBuffer(limit)
    buffer.feed(text.encode() + b"\n")
    line = buffer.next()
    assert type(line) is CutLine
    found = refuse_unread(line[:-1], line.tail, Invalid(None, -32700, "too long", oversized=True), answers)
    return [(one.id, one.answers) for one in (found.items if type(found) is Batch else [found])]


def request(**members):
    return {"jsonrpc": "2.0", "method": "tools/call", **members}


@pytest.mark.parametrize("message, id", [
    ({"id": 7, **request(params={"a": LONG})}, 7), (request(params={"a": LONG}, id="é\"\\}"), "é\"\\}"),
    (request(id=0, params={"a": LONG}), 0), (request(params=[LONG], id=""), ""), (request(params={"a": LONG}, id=-5), -5),
    (request(params={"id": 8, "a": LONG}), None), (request(params={"a": LONG, "id": 8}), None),
    (request(params={"a": LONG, "x": {"id": 8}}, id=7), 7), (request(params={"a": [{"id": 8}] * 20_000}, id=7), 7),
    (request(params={"id": 8, "a": LONG, "x": [{"id": 9}, {"method": "x", "id": 10}]}), None),
    ({"params": {"a": LONG}, "id": 7, **request()}, 7), (request(params={"a": QUOTED}, id=7), 7),
    (request(params={"a": QUOTED}), None), (request(params={"a": ["\\", LONG, '\\"id":9}']}), None),
    (request(params={"a": LONG, 'b"id': 9}), None), (request(id=None, params={"a": LONG}), None),
    (request(id=True, params={"a": LONG}), None), (request(id=[7], params={"a": LONG}), None),
    (request(id="a" * 300, params={"a": LONG}), None), (request(params={"a": LONG}, **{"x": "id"}), None),
    ({"id": 7, "x": LONG}, 7), ({"x": LONG, "id": 7}, 7), ({"x": LONG}, None), ({"method": LONG, "id": 7}, 7)])
@pytest.mark.parametrize("spaces", [(", ", ": "), (",", ":")])
@pytest.mark.parametrize("limit", [1000, 100_000])
def test_the_id_of_a_request(message, id, spaces, limit):
    for escaped in (True, False):
        assert seen(json.dumps(message, separators=spaces, ensure_ascii=escaped), limit) == [(id, False)]


@pytest.mark.parametrize("message, told", [
    ({"jsonrpc": "2.0", "id": 7, "result": {"a": LONG, "id": 8}}, (7, True)), ({"result": {"a": LONG}, "id": 7}, (7, True)),
    ({"error": {"message": LONG, "id": 8}, "jsonrpc": "2.0", "id": "7"}, ("7", True)), ({"id": 7, "x": LONG}, (7, True)),
    ({"id": 7, "params": {"a": LONG}}, (7, False)), ({"params": LONG, "id": 7, "method": "ping"}, (7, False)),
    ({"method": "notifications/x", "params": {"a": LONG, "id": 8}}, (None, True)),
    ({"params": {"a": LONG, "id": 8}, "method": "notifications/x"}, (None, True)),
    ({"result": {"a": LONG, "id": 8}}, (None, False))])
def test_what_a_message_is(message, told):
    assert seen(json.dumps(message), answers=True) == [told]


def test_the_messages_of_an_array():
    first, last = request(id=1), request(id=3, params={"id": 9})
    assert seen(json.dumps([first, request(params={"a": LONG}, id="2"), last])) == [(1, False), ("2", False), (3, False)]
    assert seen(json.dumps([first, request(id=2, params={"a": LONG}), last])) == [(1, False), (2, False), (3, False)]
    assert seen(json.dumps([request(params={"a": LONG}), last, first])) == [(3, False), (1, False)]
    assert seen(json.dumps([{"id": 1, "result": {"a": LONG}}, {"id": 2, "result": {}}])) == [(1, True), (2, True)]
    assert seen(json.dumps([{"method": "notifications/x", "params": {"a": LONG}}])) == [(None, False)]
    assert seen(json.dumps([first] * 10_000)) == [(1, False)]


@pytest.mark.parametrize("text", [LONG, "7" * 100_000, '"' + LONG + '"', "{" * 100_000, "[" * 100_000,
                                  '{"id":7' + "0" * 100_000,
                                  LONG + ',"id":7}', '[' + LONG, '[{"id":' + LONG, '{"id":"' + LONG, '[' + '{"id":7' * 30_000])
def test_what_is_no_message_shows_no_id(text):
    assert seen(text) == [(None, False)]


def test_a_mark_and_blanks_stand_in_front():
    assert seen("\ufeff \t" + json.dumps(request(id=7, params={"a": LONG}))) == [(7, False)]
