"""A token that the caller has: where it goes, and where it never shows."""

import logging

import pytest
import requests

import mcplite
from mcplite.net.settings import Bearer
from tests.support.webscript import WebScript

LIMIT = 30


class Request:
    def __init__(self, **headers):
        self.headers = headers


@pytest.mark.parametrize("token", ["t", "a.b-c_d~e+f/g==", "x" * 8000])
def test_the_token_is_put_into_the_header(token):
    request = Request(Accept="text/html", Authorization="Basic eA==")
    assert Bearer(token)(request) is request
    assert request.headers == {"Accept": "text/html", "Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("token", ["s3cret\r\nX: y", "s3cret\n", "s3cret\x00", "s3cret\x7f", "s3cret\u20ac",
                                   "s3cret\ud800", "s3crét", "", "  "])
def test_tokens_that_cannot_stand_in_a_header_are_refused_without_being_shown(token):
    with pytest.raises(ValueError, match="the bearer token is empty, or has characters that cannot") as caught:
        Bearer(token)
    assert "s3" not in str(caught.value)
    bearer, request = Bearer(lambda: token), Request()
    with pytest.raises(ValueError, match="the bearer token is empty, or has characters that cannot") as caught:
        bearer(request)
    assert "s3" not in str(caught.value) and request.headers == {}


@pytest.mark.parametrize("token", ["Bearer s3cret", "s3cret s3cret"])
def test_a_token_has_no_blanks(token):
    with pytest.raises(ValueError, match="give the token alone, without 'Bearer' before it") as caught:
        Bearer(token)
    assert "s3" not in str(caught.value)


def test_a_callable_that_returns_no_token_is_an_error():
    with pytest.raises(ValueError, match="the bearer token is empty"):
        Bearer(lambda: None)(Request())


@pytest.mark.parametrize("auth", [12, object(), Bearer, mcplite.OAuth, {"token": "s3cret"}],
                         ids=lambda auth: type(auth).__name__)
def test_other_values_of_auth_are_refused(auth):
    with pytest.raises(TypeError, match="auth= is a token as a string"):
        mcplite.connect("http://127.0.0.1:9/mcp", auth=auth).open()


def test_the_error_of_a_callable_is_raised():
    def give():
        raise LookupError("the vault is closed")

    with pytest.raises(LookupError, match="the vault is closed"):
        Bearer(give)(Request())


def test_the_token_is_not_shown():
    for bearer in (Bearer("s3cret"), Bearer(lambda: "s3cret")):
        assert "s3cret" not in f"{bearer!r} {bearer}" and repr(bearer) == "<Bearer>"


@pytest.mark.parametrize("auth", ["s3cret", Bearer("s3cret"), Bearer(lambda: "s3cret")],
                         ids=["text", "token", "callable"])
def test_each_request_of_a_client_has_it(auth, caplog):
    caplog.set_level(logging.DEBUG)
    with WebScript() as script:
        with mcplite.connect(script.url, auth=auth, timeout=LIMIT) as client:
            client.ping()
            client.call_tool("t")
    assert {request.method for request in script.requests} >= {"POST", "DELETE"}
    assert {request.headers.get("authorization") for request in script.requests} == {"Bearer s3cret"}
    assert not any("s3cret" in request.path for request in script.requests)
    assert "s3cret" not in caplog.text


def test_a_token_is_renewed_between_two_requests():
    tokens = ["old"]
    with WebScript() as script:
        with mcplite.connect(script.url, auth=Bearer(lambda: tokens[-1]), timeout=LIMIT) as client:
            tokens.append("new")
            client.ping()
        assert script.wait_for("initialize")[0].headers["authorization"] == "Bearer old"
        assert script.wait_for("ping")[0].headers["authorization"] == "Bearer new"


def test_a_refused_token_is_an_error_that_does_not_show_it():
    def refuse(request, answer):
        answer.status(401, WWW_Authenticate='Bearer error="invalid_token"')

    with WebScript(refuse) as script, pytest.raises(mcplite.errors.AuthError) as caught:
        mcplite.connect(script.url, auth=Bearer("s3cret"), timeout=LIMIT).open()
    assert caught.value.challenge == 'Bearer error="invalid_token"'
    assert "s3cret" not in f"{caught.value!r} {caught.value}"
    assert len(script.requests) == 1


def test_it_goes_to_no_other_origin():
    with WebScript() as other:
        with WebScript(lambda request, answer: answer.status(307, Location=other.url)) as script:
            with pytest.raises(mcplite.TransportError, match="another origin"):
                mcplite.connect(script.url, auth=Bearer("s3cret"), timeout=LIMIT).open()
    assert other.requests == []


def test_requests_takes_it_as_well():
    with WebScript(lambda request, answer: answer.status(200)) as script, requests.Session() as session:
        session.get(script.url, auth=Bearer("t"), timeout=LIMIT)
        session.auth = Bearer("u")
        session.get(script.url, timeout=LIMIT)
    assert [request.headers["authorization"] for request in script.requests] == ["Bearer t", "Bearer u"]
