"""The tree of exceptions: their attributes, and the class of an error from the wire."""

import copy
import os
import pickle

import pytest

import mcplite
from mcplite import errors
from mcplite.errors import RemoteError, remote_error

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODES = {
    -32601: errors.MethodNotFound, -32602: errors.InvalidParams, -32603: errors.InternalError,
    -32002: errors.ResourceNotFound, -32020: errors.HeaderMismatch, -32021: errors.MissingCapability,
    -32022: errors.UnsupportedVersion, -32042: errors.UrlElicitationRequired,
}


@pytest.mark.parametrize("code, kind", [*CODES.items(), (-31001, RemoteError), (7, RemoteError)])
def test_a_code_from_the_wire_picks_the_class(code, kind):
    error = remote_error(code, "no", {"a": 1})
    assert type(error) is kind and error.received
    assert (error.code, error.message, error.data) == (code, "no", {"a": 1})
    assert str(error) == f"no (code {code})"


@pytest.mark.parametrize("code", [None, "7", 1.5, True])
def test_a_code_that_is_not_an_integer_is_an_internal_error(code):
    error = remote_error(code, {"not": "text"})
    assert type(error) is errors.InternalError and error.code == -32603 and error.message == "{'not': 'text'}"  # RPC-10


@pytest.mark.parametrize("code, kind", CODES.items())
def test_each_class_has_its_code(code, kind):
    error = kind("no")
    assert error.code == code and not error.received
    assert kind("no", code=5).code == 5


@pytest.mark.parametrize("kind, name, data, found", [
    (errors.ResourceNotFound, "uri", {"uri": "a://b"}, "a://b"), (errors.ResourceNotFound, "uri", None, None),
    (errors.UnsupportedVersion, "supported", {"supported": ["x", 1]}, ["x"]),
    (errors.UnsupportedVersion, "supported", {"supported": "x"}, []),
    (errors.MissingCapability, "required", {"requiredCapabilities": {"roots": {}}}, {"roots": {}}),
    (errors.MissingCapability, "required", [], {}),
    (errors.UrlElicitationRequired, "urls", {"elicitations": [{"url": "https://a"}, 1]}, [{"url": "https://a"}]),
    (errors.UrlElicitationRequired, "urls", {"elicitations": {}}, []),
])
def test_malformed_error_data_is_ignored(kind, name, data, found):
    assert getattr(kind("no", data=data), name) == found


def test_the_error_of_a_second_attempt_says_as_much_as_its_own():
    second = errors.TransportError("a redirect")
    second.status, second.temporary, second.unsent = 302, False, True
    error = second.of_second_attempt(errors.TransportError("reset"))
    assert str(error) == "a redirect; this was the second attempt: before, reset"
    assert (error.status, error.temporary) == (302, False) and not error.unsent, "the first attempt may have been sent"


@pytest.mark.parametrize("pages", [[{"url": "https://a"}], ({"url": "https://a"},), {"elicitations": []}, []])
def test_pages_in_place_of_the_message_are_refused(pages):
    with pytest.raises(TypeError, match="data={'elicitations'"):
        errors.UrlElicitationRequired(pages)


def test_connection_closed_shows_stderr():
    error = errors.ConnectionClosed("it is gone", stderr_tail="Traceback\nValueError: x\n", returncode=1)
    assert str(error) == "it is gone\n--- last lines of its stderr ---\nTraceback\nValueError: x"
    assert str(errors.ConnectionClosed("it is gone")) == "it is gone"


def test_errors_of_http():
    error = errors.HTTPStatusError("502 from a proxy", status=502, body="<html>")
    assert (error.status, error.body, str(error)) == (502, "<html>", "502 from a proxy")
    assert errors.AuthError("log in", challenge="Bearer").challenge == "Bearer"


@pytest.mark.parametrize("error, also", [
    (errors.RequestTimeout("late"), TimeoutError), (errors.RegistrationError("bad"), ValueError),
    (errors.ConnectionClosed("gone"), errors.TransportError), (errors.ResourceNotFound("no"), errors.InvalidParams)])
def test_errors_derive_from_builtin_errors(error, also):
    assert isinstance(error, also) and isinstance(error, errors.MCPError)


class OfAUser(mcplite.ToolError):
    def __init__(self, place, *, attempts):
        super().__init__(f"nothing at {place}")
        self.attempts = attempts


#: What the classes are made with, besides a message.
ARGUMENTS = {"HTTPStatusError": {"status": 502, "body": "<html>"}, "ConnectionClosed": {"stderr_tail": "x", "returncode": 3},
             "RemoteError": {"code": 5, "data": [1]}, "AuthError": {"challenge": "Bearer", "error": "access_denied"},
             "SessionLost": {"session": "s", "unserved": True}, "InputNeeded": {"requests": {"a": {}}, "state": "s"},
             "ToolError": {"content": ["x"]}}
EXAMPLES = [getattr(errors, name)("no", **ARGUMENTS.get(name, {})) for name in errors.__all__
            if isinstance(getattr(errors, name), type)] + [errors.ProtocolError("bad", b"x"), OfAUser("home", attempts=2)]


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],
                         ids=["copy", "deepcopy", "pickle"])
@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_a_copy_is_equal(error, again):
    # Several threads wait for one connection, and each raises a copy of its error; a pool of processes pickles it.
    error.task_id = "t-1"
    twin = again(error)
    assert type(twin) is type(error) and (str(twin), twin.args) == (str(error), error.args) and vars(twin) == vars(error)


def test_the_tree_in_the_docstring_is_the_tree():
    for name in errors.__all__:
        item = getattr(errors, name)
        if isinstance(item, type):
            assert name in (errors.__doc__ or ""), name
