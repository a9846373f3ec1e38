"""Masks: secrets that are masked at any depth, and what only looks like one."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from mcplite.rpc.tracing import mask

SECRET = "s3cr3t-value"


def masked(value):
    return json.loads(mask(json.dumps(value).encode()))


@pytest.mark.parametrize("key", [
    "authorization", "Authorization", "token", "TOKEN", "access_token", "refreshToken", "password", "db_passwd", "passphrase",
    "client_secret", "SECRET_KEY", "api_key", "apiKey", "API-KEY", "x-apikey", "credentials", "Cookie", "private_key", "pwd",
    "PWD", "dbpwd", "pass", "db_pass", "passcode", "jwt", "JWT", "idJwt", "otp", "totp_code", "pin", "cardPin", "api key",
    "API Key", "code_verifier", "codeVerifier", "client_assertion", "AccountKey", "AccessKeyId", "SharedKey", "Mcp-Session-Id",
    "sessionId", "requestState", "connectionString", "connection_string", "Set-Cookie", "proxy-authorization",
    "a" * 100 + "password", "bearer", "basicAuth", "DATABASE_URL", "dsn",
])
@pytest.mark.parametrize("value", [SECRET, [SECRET], {"value": SECRET}])
def test_values_of_keys_that_name_secrets_are_masked_at_any_depth(key, value):
    message = {"params": {"env": {key: value, "HOME": "/root"}, "list": [{key: value}]}}
    assert masked(message) == {"params": {"env": {key: "***", "HOME": "/root"}, "list": [{key: "***"}]}}


@pytest.mark.parametrize("value", [
    {"pass": 3}, {"pass": 3, "fail": 0.5}, {"pass_rate": 0.9}, {"auth": 1, "cookies": 12, "credentials": 2, "secrets": 0},
    {"tokens": 5, "tokenCount": 7, "token_limit": -1, "passwordLength": 12, "pinCount": 4, "auth_ms": 1e3}, {"pass": False},
    {"text": '{"pass": 3, "fail": 1'}, {"password": True}, {"progressToken": 7}, {"maxTokens": 100},
    {"text": "the token is not a key"}, {"token": None}, {"token": True},
    {"inputSchema": {"properties": {"token": {"type": "string"}}}}, ["token", SECRET], 3, "x",
    {"properties": {"password": {"type": "string", "description": "of the user", "minLength": 8}}},
    {"pinned": 1, "compass": 2, "passenger": 3, "passed": True, "spin": 4, "mapping": 5, "author": "Ada", "authority": "x"},
    {"total_tokens": 3, "promptTokens": 4}, {"tokenType": "Bearer", "tokenizer": "x"},
    {"tokenize": 1, "secretary": "x", "token_endpoint": "https://x/"}, {"text": 'it said "yes": fine'},
])
def test_values_of_harmless_keys_are_not_masked(value):
    assert masked(value) == value


@pytest.mark.parametrize("key", ["pin", "PIN", "cardPin", "card_pin", "otp", "totp", "password", "db_password", "passwd",
                                 "passcode", "pincode", "pwd", "secret", "client-secret", "token", "apiKey", "access_token"])
@pytest.mark.parametrize("number", [123456, 0, -5, 1.5])
def test_numbers_that_are_secrets_are_masked(key, number):
    assert masked({"a": [{key: number}]}) == {"a": [{key: "***"}]}
    assert mask(json.dumps({key: number, "b": 1})[:-1].encode()) == f'{{"{key}": "***", "b": 1'.encode()


@pytest.mark.parametrize("value", [
    {"params": {"arguments": {"properties": {"password": SECRET}}}}, {"properties": {"password": {"value": SECRET}}},
    {"properties": {"password": [SECRET]}}, {"properties": {"password": {"type": "string", "default": SECRET}}},
    {"properties": {"password": {"enum": [SECRET]}}}, {"properties": {"properties": {"token": SECRET}}},
])
def test_what_only_looks_like_a_schema_is_masked(value):
    assert SECRET not in json.dumps(masked(value))


@pytest.mark.parametrize("before", [" ", "\n", "\ufeff", "\t \r\n", "result: ", "```json\n", "(", "a, b; c\n\n", '"x": 1, '])
@pytest.mark.parametrize("inner", [
    {"password": SECRET}, {"a": {"b": [{"token": SECRET}]}}, [{"token": SECRET}],
    {"text": " " + json.dumps({"token": SECRET})}])
@pytest.mark.parametrize("indent", [None, 2])
def test_json_anywhere_in_a_text_is_masked(before, inner, indent):
    assert SECRET not in mask(json.dumps({"text": before + json.dumps(inner, indent=indent)}).encode()).decode()


@pytest.mark.parametrize("key", ["password", "pass\\u0077ord", "\\u0070assword", "a" * 70 + "password", "api key", "pwd", "jwt",
                                 "x" * 9000 + "token"])
@pytest.mark.parametrize("start", ['{"%s":"%s"', '{"a":{"%s" : "%s"', '{"t":"{\\"%s\\": \\"%s\\"}"', '[{"b":1,"%s":["%s"]'])
def test_keys_of_a_message_that_is_not_parsed(key, start):
    data = (start % (key, SECRET) + ',"z":"' + "y" * 300_000 + '"}').encode()
    assert SECRET not in mask(data).decode()


@pytest.mark.parametrize("piece", [b'"', b'"a":', b'"token":"', b"\\", b'"a":"b",', b'{"', b'":'])
def test_texts_without_an_end_take_linear_time(piece):
    mask(b'"' + piece * 300_000)


@pytest.mark.parametrize("more", ["", "y" * 300_000], ids=["parsed", "long"])
@pytest.mark.parametrize("text", [
    f"postgres://user:{SECRET}@host/db", f"AccountName=x;AccountKey={SECRET};E=1", f"Server=a;Pwd = {SECRET};",
    f"https://host/path?token={SECRET}&x=1", f"Authorization: Bearer abc.{SECRET}"])
def test_secrets_of_urls_and_connection_strings_are_masked(text, more):
    shown = mask(json.dumps({"text": text, "city": "Rome", "more": more}).encode()).decode()
    assert SECRET not in shown and "Rome" in shown


@pytest.mark.parametrize("text", [
    "maxTokens=5 of 7", "https://host:8080/a@b", "the bearer authentication", "x=1;y=2", "a://b"])
def test_harmless_texts_are_shown(text):
    assert masked({"text": text}) == {"text": text}


def test_the_first_of_two_values_is_masked():
    assert SECRET not in mask(f'{{"a": {{"token": "{SECRET}"}}, "a": 1}}'.encode()).decode()


@pytest.mark.parametrize("piece", ["=", "token=", "://a:", "Bearer ", "QUJD+/9", "password", " "])
def test_texts_that_are_no_json_take_linear_time(piece):
    mask(json.dumps({"text": piece * (200_000 // len(piece))}).encode())


def test_a_message_without_secrets_is_unchanged():
    data = b'{ "jsonrpc" : "2.0", "method":"x" , "params": {"a":  1.50} }'
    assert mask(data) == data


def test_json_within_text_is_masked_too():
    inner = json.dumps({"token": SECRET, "city": "Rome"})
    shown = mask(json.dumps({"content": [{"type": "text", "text": inner}]}).encode()).decode()
    assert SECRET not in shown and "Rome" in shown
    cut = mask(json.dumps({"text": inner[:-3]}).encode()).decode()
    assert SECRET[:8] not in cut


@pytest.mark.parametrize("data", [
    f'{{"token": "{SECRET}", "a": 1', f'{{"token": "{SECRET}', f'{{"token":["{SECRET}", "{SECRET}"], "a"',
    f'{{"token" : {{"a": "{SECRET}"}}, ', f'"{{\\"token\\": \\"{SECRET}\\"', f'{{"password":"a\\"{SECRET}"', "[" * 100_000
    + f'{{"token": "{SECRET}"',
])
def test_incomplete_json_is_masked_as_text(data):
    assert SECRET not in mask(data.encode()).decode()


def test_harmless_values_in_text_are_not_masked():
    assert b'"progressToken":7' in mask(b'{"progressToken":7, "a": ')
    assert mask(b"Listening on port 8000\n") == b"Listening on port 8000\n"
    assert b'"a": 1' in mask(b'{"token": "x", "a": 1, ')


@settings(max_examples=100, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)), st.binary())
@pytest.mark.slow
def test_masking_never_fails_and_gives_json_for_json(value, noise):
    json.loads(mask(json.dumps(value).encode()))
    mask(noise)
    mask(b'{"token": ' + noise)
