import datetime
import json

import pytest
from hypothesis import given, strategies as st

from mcplite.errors import INVALID_REQUEST, PARSE_ERROR
from mcplite.protocol.jsonrpc import (
    LONG,
    Batch,
    Encoded,
    Failure,
    Invalid,
    JSONLimits,
    Notification,
    Request,
    Response,
    describe,
    dump,
    own_id,
    parse,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12)
IDS = st.integers() | st.text(max_size=256)
PARAMS = st.none() | st.dictionaries(st.text(), JSON, max_size=4)


def wire(**members):
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def same(left, right):
    return type(left) is type(right) and all(
        getattr(left, name) == getattr(right, name) and type(getattr(left, name)) is type(getattr(right, name))
        for name in left.__slots__ if name != "size")


# ---- what is a message ----

def test_a_notification_knows_the_size_of_its_text():
    text = wire(method="m", params={"a": 1})
    assert parse(text).size == len(text) > 20


@pytest.mark.parametrize("id", [7, "7", 0, -1, "", 2**53 + 1, -(10**40), "\u2028", "x" * 256, "\0", "é😀", 10**255])
def test_request_ids_keep_value_and_type(id):
    # RPC-03, RPC-07, SEC-29
    for message in (parse(wire(id=id, method="m")), parse(wire(id=id, result={})),
                    parse(wire(id=id, error={"code": 1, "message": "x"}))):
        assert message.id == id and type(message.id) is type(id)
        assert same(parse(dump(message)), message)


@pytest.mark.parametrize("id", [None, True, False, 1.5, -0.5, 1e256, [], {}, [1], "x" * 257, 10**256, -(10**255)])
def test_invalid_ids_are_refused_and_not_taken_for_a_notification(id):
    # RPC-04, SEC-28
    message = parse(wire(id=id, method="m"))
    assert type(message) is Invalid
    assert (message.id, message.code, message.answers) == (None, INVALID_REQUEST, False)
    answer = parse(wire(id=id, result={}))
    assert type(answer) is Invalid and answer.answers and answer.id is None


@pytest.mark.parametrize("id, number", [(1.0, 1), (0.0, 0), (-0.0, 0), (-7.0, -7), (2.0**53, 2**53), (1e100, int(1e100))])
def test_a_float_without_a_fraction_names_the_integer(id, number):
    # as languages write it whose JSON knows only such numbers
    for message in (parse(wire(id=id, method="m")), parse(wire(id=id, result={})),
                    parse(wire(id=id, error={"code": 1, "message": "x"})), parse(wire(id=id, result=None))):
        assert message.id == number and type(message.id) is int


def test_an_empty_array_is_an_empty_object():
    # as PHP writes it
    assert parse(wire(id=1, result=[])).result == {} == parse(wire(id=1, method="m", params=[])).params
    assert parse(wire(method="m", params=[])).params == {}


@pytest.mark.parametrize("members, bare", [
    ({"id": 3}, True), ({"id": 3.0, "content": []}, True), ({"id": "3"}, True), ({}, False), ({"id": None}, False),
    ({"id": 3, "method": None}, False), ({"id": 3, "result": None}, False), ({"id": True}, False),
])
def test_a_message_with_an_id_alone_may_be_meant_as_an_answer(members, bare):
    message = parse(wire(**members))
    assert type(message) is Invalid and message.bare == bare


def test_a_notification_has_no_id():
    message = parse(wire(method="notifications/x", params={"a": 1}))
    assert type(message) is Notification
    assert (message.method, message.params) == ("notifications/x", {"a": 1})
    assert b'"id"' not in dump(message)


def test_params_may_be_absent_or_null():
    assert parse(wire(id=1, method="m")).params is None
    assert parse(wire(id=1, method="m", params=None)).params is None
    assert dump(Request(1, "m")) == b'{"jsonrpc":"2.0","id":1,"method":"m"}'
    assert dump(Request(1, "m", {})) == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}'


@pytest.mark.parametrize("members, id", [
    # RPC-01, RPC-17, SEC-26
    ({"jsonrpc": "1.0", "id": 3, "method": "m"}, 3), ({"jsonrpc": 2.0, "id": 3, "method": "m"}, 3),
    ({"jsonrpc": None, "id": "a", "method": "m"}, "a"), ({"id": 3, "method": "m", "params": [1]}, 3),
    ({"id": 3, "method": "m", "params": 5}, 3), ({"id": 3, "method": "m", "params": "x"}, 3),
    ({"id": 3, "method": "m", "params": False}, 3), ({"id": 3, "method": 5}, 3), ({"id": 3, "method": None}, 3),
    ({"id": 3, "method": ["m"]}, 3), ({"id": 3, "method": "x" * 257}, 3), ({"id": 3}, 3), ({"id": True, "method": 5}, None),
    ({}, None),
    # SEC-24: other spellings of a member are other members
    ({"id": 3, "Method": "m"}, 3), ({"JSONRPC": "2.0", "jsonrpc": "", "id": 3, "method": "m"}, 3),
    ({"id": 3, "method ": "m"}, 3), ({"id": 3, "re\u017fult": {}}, 3),
])
def test_broken_envelopes(members, id):
    message = parse(json.dumps({"jsonrpc": "2.0", **members}).encode())
    assert type(message) is Invalid
    assert (message.id, message.code, message.answers) == (id, INVALID_REQUEST, False)
    assert type(message.id) is type(id)
    assert message.message and "\n" not in message.message


@pytest.mark.parametrize("members", [
    {"method": "m", "params": [1]}, {"method": "m", "params": 5}, {"method": "m", "params": False}, {"method": "x" * 257},
])
def test_a_broken_notification_is_not_answered(members):
    # RPC-15
    message = parse(wire(**members))
    assert (type(message), message.id, message.code, message.answers) == (Invalid, None, INVALID_REQUEST, True)


def test_the_version_member_is_needed():
    message = parse(b'{"id":1,"method":"m"}')
    assert (message.id, message.code, message.answers) == (1, INVALID_REQUEST, False)
    assert "jsonrpc" in message.message
    assert parse(b'{"id":1,"result":{}}').answers
    assert parse(b'{"id":1,"error":{}}').answers


def test_misspelt_params_are_unknown_members():
    # SEC-24: the Go SDK took "paramſ" for "params"
    assert parse(wire(id=1, method="m", **{"param\u017f": {"a": 1}})).params is None


@pytest.mark.parametrize("text", [b"5", b'"x"', b"true", b"null", b"1.5"])
def test_scalars_are_refused(text):
    message = parse(text)
    assert (type(message), message.id, message.code) == (Invalid, None, INVALID_REQUEST)


@pytest.mark.parametrize("members, readable", [
    # RPC-08, RPC-09, SEC-35: an answer that is none is never answered in turn
    ({"id": 1, "result": {}, "error": {"code": 1, "message": "x"}}, 1), ({"id": 1, "result": None}, 1),
    ({"id": 1, "result": [1]}, 1), ({"id": 1, "result": 5}, 1), ({"id": 1, "result": True}, 1), ({"id": 1, "result": "x"}, 1),
    ({"id": 1, "result": 1.5}, 1), ({"result": {}}, None), ({"id": None, "result": {}}, None), ({"id": 1, "error": None}, 1),
    ({"id": 1, "error": "bad"}, 1), ({"id": True, "error": {"code": 1, "message": "x"}}, None),
    ({"id": 1, "method": 5, "result": {}}, 1), ({"id": [], "method": 5, "error": {}}, None),
])
def test_broken_answers(members, readable):
    message = parse(wire(**members))
    assert (type(message), message.id, message.code, message.answers) == (Invalid, readable, INVALID_REQUEST, True)


def test_the_member_that_does_not_apply_may_be_null():
    # as JSON-RPC 1 had it
    assert parse(wire(id=1, result={"a": 1}, error=None)).result == {"a": 1}
    assert parse(wire(id=1, result=None, error={"code": 5, "message": "x"})).code == 5
    for broken in ({"result": None, "error": None}, {"result": 5, "error": None}, {"result": None, "error": 5}):
        message = parse(wire(id=1, **broken))
        assert (type(message), message.id, message.answers) == (Invalid, 1, True)


@pytest.mark.parametrize("id, number", [
    (7, 7), ("7", 7), ("0", 0), ("-7", None), ("07", None), ("7.0", None), ("\u0667", None), ("", None), ("seven", None),
    (True, None), (7.0, 7), (7.5, None), (float("inf"), None), (float("nan"), None), (None, None), ([7], None),
    ("9" * 5000, None)])
def test_ids_of_this_side(id, number):
    assert own_id(id) == number


@pytest.mark.parametrize("id", [None, 4, "4"])
def test_an_error_may_lack_its_id(id):
    # RPC-11: both forms are accepted
    members = {"error": {"code": -32700, "message": "x", "data": [1]}}
    message = parse(wire(id=id, **members))
    assert (message.id, message.code, message.message, message.data) == (id, -32700, "x", [1])
    assert type(parse(wire(**members))) is Failure and parse(wire(**members)).id is None


def test_odd_errors_arrive_as_they_are():
    # RPC-10: the caller still gets an error
    message = parse(wire(id=1, error={"code": "E", "message": 5}))
    assert (type(message), message.code, message.message, message.data) == (Failure, "E", 5, None)
    assert (parse(wire(id=1, error={})).code, parse(wire(id=1, error={})).message) == (None, None)


def test_unknown_members_are_ignored_and_inner_ones_kept():
    # RPC-20
    message = parse(wire(id=1, method="m", params={"x-new": [1]}, more=5))
    assert message.params == {"x-new": [1]}


# ---- batches ----

def test_batches():
    # RPC-24
    batch = parse(b'[{"jsonrpc":"2.0","id":1,"method":"a"},1,[],{"jsonrpc":"2.0","method":"b"},{"id":2}]')
    assert type(batch) is Batch
    assert [type(item) for item in batch.items] == [Request, Invalid, Invalid, Notification, Invalid]
    assert [item.code for item in batch.items if type(item) is Invalid] == [INVALID_REQUEST] * 3
    assert batch.items[4].id == 2
    assert [type(item) for item in parse(b"[1]").items] == [Invalid]


def test_an_empty_batch_and_one_too_long():
    # SEC-31
    assert parse(b"[]").code == INVALID_REQUEST
    item = b'{"jsonrpc":"2.0","id":1,"method":"a"}'
    assert len(parse(b"[" + b",".join([item] * 50) + b"]").items) == 50
    for count in (51, 20_000):
        message = parse(b"[" + b",".join([item] * count) + b"]")
        assert (type(message), message.code, message.id) == (Invalid, INVALID_REQUEST, None)
    assert type(parse(b"[" + item + b"," + item + b"]", JSONLimits(batch=1))) is Invalid


# ---- what is no JSON ----

@pytest.mark.parametrize("text", [
    # SEC-20
    b"", b" ", b"{", b"}", b"[", b"]", b'{"a"}', b'{"a":}', b"{'a':1}", b"{a:1}", b'{"a":1,}', b"[1,]", b"[,]",
    b'"', b"\\", b"nul", b"True", b"01", b"1.", b".5", b"+1", b"0x1", b"{}{}", b'{"a":1} x', b"//", b'"\n"',
    b'"\\x"', b'"\\u12"', b"\x00", b'"\x01"', b"1e", b"--1",
    # SEC-22
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"9" * 5000, b"-" + b"9" * 5000,
    # SEC-23
    '{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-32"), '{"a":"é"}'.encode("latin-1"), b'"\xff"', b'"\xc0\x80"',
    '"\ud800"'.encode("utf-8", "surrogatepass"),
])
def test_invalid_json_gets_a_parse_error(text):
    for data in (text, b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":' + text + b"}}"):
        message = parse(data)
        if data is not text and not text.strip(b'{}[]" '):
            continue  # it changes the structure around it
        assert (type(message), message.id, message.code) == (Invalid, None, PARSE_ERROR), data[:60]
        assert not message.answers


@pytest.mark.parametrize("levels", [900, 100_000])
def test_depth_is_bounded(levels):
    # SEC-21
    for data in (b"[" * levels, b"[" * levels + b"]" * levels, b'{"a":' * levels + b"1" + b"}" * levels,
                 b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":' + b"[" * levels + b"]" * levels + b"}}"):
        message = parse(data)
        assert (type(message), message.code) == (Invalid, PARSE_ERROR)


def room_for(calls):
    """Whether the stack has room for so many calls within one another."""
    try:
        return calls == 0 or room_for(calls - 1)
    except RecursionError:
        return False


def test_parsing_never_raises_however_deep_the_stack():
    # SEC-21: as long as parse has room for its own calls; a tracer takes some of the room as well
    texts = [b"[" * 60 + b"]" * 60, SEEDS[0], b'{"a":1,"a":' + b"[" * 60, b"1e999", b"\xff"]
    seen, raised = set(), []

    def deeper():
        if not room_for(25):
            return
        for text in texts:
            try:
                seen.add(type(parse(text)))
            except RecursionError as error:
                raised.append(error)
        try:
            deeper()
        except RecursionError:
            return  # its own call

    deeper()
    assert seen == {Invalid, Batch, Request}
    assert not raised


def test_duplicate_keys():
    # SEC-24: a proxy in front of us may have read the other one
    text = b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}'
    message = parse(text)
    assert (type(message), message.code) == (Invalid, INVALID_REQUEST)
    assert "'method'" in message.message
    assert parse(text, JSONLimits(duplicate_keys=True)).method == "b"


@pytest.mark.parametrize("text, id, answers", [
    # RPC-11: the refusal reaches the caller, or ends the wait for what was an answer
    (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1,"a":2}}', 7, False),
    (b'{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}', 7, True),
    (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"code":2}}', 7, True),
    (b'{"jsonrpc":"2.0","id":7,"result":{},"result":5}', 7, True),
    (b'{"jsonrpc":"2.0","method":"m","params":{"a":1,"a":2}}', None, True),
    (b'{"jsonrpc":"2.0","id":7,"id":8,"method":"m"}', None, False),
    (b'{"jsonrpc":"2.0","id":7,"id":8,"method":5}', None, False),
    (b'{"jsonrpc":"1.0","id":7,"method":"m","method":"m"}', 7, False),
    (b'[{"jsonrpc":"2.0","id":7,"method":"m","method":"m"}]', None, False),
    (b'{"a":1,"a":2}', None, False), (b'[{"a":1,"a":2},3]', None, False),
])
def test_a_duplicate_key_is_an_invalid_request(text, id, answers):
    message = parse(text)
    assert (type(message), message.id, message.code, message.answers) == (Invalid, id, INVALID_REQUEST, answers)
    assert "comes twice" in message.message


def test_a_duplicate_key_in_invalid_json():
    assert parse(b'{"jsonrpc":"2.0","id":7,"method":"m","a":1,"a":2').code == PARSE_ERROR
    assert parse(b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1,"a":2},"b":1e999}').code == PARSE_ERROR


@pytest.mark.parametrize("data", [
    # SEC-27
    b'{"b":[' + b"0," * 1_000_000 + b"0]}",
    b"[" + b"{}," * 500_000 + b"{}]",
    b"{" + b",".join(b'"%d":0' % n for n in range(250_000)) + b"}",
], ids=["numbers", "objects", "keys"])
def test_elements_are_bounded(data):
    message = parse(data)
    assert (type(message), message.code) == (Invalid, INVALID_REQUEST)


def test_control_characters_are_data():
    # SEC-25
    message = parse(b'{"jsonrpc":"2.0","id":"\\u0000","method":"a\\u0000b","params":{"u":"file:///a\\u0000b"}}')
    assert (message.id, message.method, message.params) == ("\0", "a\0b", {"u": "file:///a\0b"})


# ---- never raises ----

SEEDS = [
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":[2.5e3,null]}}}',
    b'[{"jsonrpc":"2.0","id":"\\ud800","result":{"x":"\\"\xc3\xa9"}},{"jsonrpc":"2.0","method":"x"}]',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x","data":{"deep":[[[[{}]]]]}}}',
]


@given(st.sampled_from(SEEDS), st.lists(st.tuples(
    st.integers(0, 120), st.sampled_from(["drop", "put", "set", "cut", "double"]), st.binary(min_size=1, max_size=4)),
    max_size=6))
def test_mutated_messages_are_parsed_without_an_exception(seed, changes):
    data = bytearray(seed)
    for at, what, piece in changes:
        if what == "drop":
            del data[at:at + len(piece)]
        elif what == "put":
            data[at:at] = piece
        elif what == "set":
            data[at:at + len(piece)] = piece
        elif what == "cut":
            del data[at:]
        else:
            data[at:at] = data[at:at + 20]
    message = parse(bytes(data))
    for item in message.items if type(message) is Batch else [message]:
        if type(item) is Invalid:
            assert item.code in (INVALID_REQUEST, PARSE_ERROR) and type(item.id) in (int, str, type(None))
        else:
            assert b"\n" not in dump(item) and (type(item) is Request or describe(item))


# ---- out and in again ----

@given(st.builds(Request, IDS, st.text(max_size=256), PARAMS)
       | st.builds(Notification, st.text(max_size=256), PARAMS)
       | st.builds(Response, IDS, st.dictionaries(st.text(), JSON, max_size=4))
       | st.builds(Failure, IDS | st.none(), st.integers(), st.text(), JSON))
def test_dumped_messages_are_parsed_back(message):
    # RPC-02: any text, of any plane and direction
    data = dump(message)
    assert b"\n" not in data and b"\r" not in data
    assert same(parse(data), message)
    assert json.loads(data)["jsonrpc"] == "2.0"


def test_the_text_is_compact_utf_8():
    assert dump(Request(1, "m", {"a": [1, "é\u2028😀"]})) == \
        '{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,"é\u2028😀"]}}'.encode()
    assert dump(Response("a", {})) == b'{"jsonrpc":"2.0","id":"a","result":{}}'
    assert dump(Failure(1, -5, "x", {"d": 0})) == b'{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"x","data":{"d":0}}}'


def test_an_error_without_an_id():
    # RPC-11
    assert dump(Failure(None, -32700, "x")) == b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}'
    assert dump(Failure(None, -32700, "x"), null_id=False) == b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}'
    assert dump(Failure(3, 1, "x"), null_id=False) == b'{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"x"}}'


def test_a_lone_surrogate_goes_out_as_an_escape():
    # SEC-23
    for message in (Response(1, {"a": "\ud800é"}), Response(1, Encoded({"a": "\ud800é"})), Request("\udfff", "m")):
        data = dump(message)
        assert data.decode("utf-8").count("\\ud") == 1 and type(parse(data)) is type(message)
    assert parse(dump(Response(1, {"a": "\ud800é"}))).result == {"a": "\ud800é"}


def test_an_encoded_result_is_made_once():
    result = {"a": [1]}
    encoded = Encoded(result)
    assert dump(Response(1, encoded)) == b'{"jsonrpc":"2.0","id":1,"result":{"a":[1]}}'
    result["a"].append(2)
    assert dump(Response("x", encoded)) == b'{"jsonrpc":"2.0","id":"x","result":{"a":[1]}}'
    assert encoded.value is result


@pytest.mark.parametrize("size", [LONG - 2, LONG - 1, LONG, LONG + 1, 3 * LONG + 5])
@pytest.mark.parametrize("text", ["x", "é", '"', "\\\n", "\ud800", "\ud83d\ude00\U0001f600\x00\x7f\u2028"])
def test_a_long_text_is_sent_as_a_short_one_is(text, size):
    text = (text * size)[:size]
    shown = json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace")
    parts = Encoded(None, parts=('{"a":', text, ',"b":1}'))
    assert dump(Response(1, {"a": text})) == dump(Response(1, Encoded({"a": text}))) \
        == b'{"jsonrpc":"2.0","id":1,"result":{"a":%b}}' % shown
    assert dump(Response("\udfff", parts)) == b'{"jsonrpc":"2.0","id":"\\udfff","result":{"a":%b,"b":1}}' % shown
    assert parts.text.encode("utf-8", "backslashreplace") == b'{"a":%b,"b":1}' % shown
    for params in ({"a": text}, Encoded({"a": text})):
        assert dump(Request(1, "m", params)) == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":%b}}' % shown


cyclic = {}
cyclic["me"] = [cyclic]
deep = []
for _ in range(100_000):
    deep = [deep]


@pytest.mark.parametrize("value, error, text", [
    # SEC-22, REL-59
    ({"a": float("nan")}, ValueError, "JSON compliant|float"), ({"a": float("inf")}, ValueError, "JSON compliant|float"),
    ({"a": object()}, TypeError, "class object (is not|cannot be sent as) JSON"), ({(1, 2): 1}, TypeError, "keys must be"),
    (cyclic, ValueError, "contains itself"), ({"a": deep}, ValueError, "nested too deeply"),
    ({"a": (n for n in ())}, TypeError, "generator (is not JSON|cannot be sent)"),
], ids=lambda value: value.__name__ if isinstance(value, type) else "")
def test_values_that_are_not_json_are_not_sent(value, error, text):
    for message in (Response(1, value), Request(1, "m", value), Notification("m", value), Failure(1, 1, "x", value),
                    Response(1, Encoded(value))):
        with pytest.raises(error, match=text):
            dump(message)


@pytest.mark.parametrize("value, text", [(b"x", '"eA=="'), ({2, 1}, "[1,2]"), ([datetime.date(2024, 5, 6)], '["2024-05-06"]')])
def test_params_are_converted_and_results_are_not(value, text):
    for message in (Request(1, "m", {"a": value}), Notification("m", {"a": value})):
        assert b'"params":{"a":%b}}' % text.encode() in dump(message)
    for other in (Response(1, {"a": value}), Failure(1, 1, "x", value), Response(1, Encoded({"a": value}))):
        with pytest.raises(TypeError, match="is not JSON"):
            dump(other)


@pytest.mark.parametrize("thing", [Invalid(1, 2, "x"), Batch([]), {"jsonrpc": "2.0"}, None])
def test_only_messages_are_sent(thing):
    with pytest.raises(TypeError, match="is not a message that can be sent"):
        dump(thing)


# ---- descriptions ----

@pytest.mark.parametrize("message, text", [
    (Notification("a\x1b[0m"), r"notification 'a\x1b[0m'"),
    (Response("x\r", {}), r"result for id 'x\r'"), (Response("5", {}), "result for id '5'"),
    (Failure(None, -1, "bad\n"), r"error -1 for id None: 'bad\n'"),
])
def test_descriptions(message, text):
    assert describe(message) == text


@given(st.text(), st.integers(0, 1))
def test_descriptions_are_short_lines(text, size):
    # SEC-39
    text *= 10_000 if size else 1
    for message in (Notification(text), Response(text, {}), Failure(text, text, text)):
        description = describe(message)
        assert len(description) <= 200 and description.isprintable()
