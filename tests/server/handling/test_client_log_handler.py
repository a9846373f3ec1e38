"""Python logging, forwarded to clients."""

import logging
import threading

import pytest

import mcplite
from tests.support import connecting

LIMIT = 30


def test_python_logging_reaches_the_client_of_the_request_or_all(connect, server):
    logger = logging.getLogger("test.forwarded")
    logger.setLevel(logging.DEBUG)
    handler = server.logging_handler()
    logger.addHandler(handler)
    try:
        @server.tool()
        def work() -> None:
            logger.warning("from %s", "inside")
            logging.getLogger("mcplite.own").warning("not this one")

        first, second = connect(server), connect(server)
        first.call("work")
        assert [message["params"] for message in first.others] == [
            {"level": "warning", "data": "from inside", "logger": "test.forwarded"}]
        for number, level in ((logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.INFO, "info")):
            logger.log(number, "to all")
            for client in (first, second):
                assert client.receive()["params"] == {"level": level, "data": "to all", "logger": "test.forwarded"}
        logger.debug("below the level")
        assert second.result("ping") == {} and second.others == []
        with pytest.raises(ValueError, match="not a log level"):
            server.sessions[0].log("verbose", "x")
    finally:
        logger.removeHandler(handler)


def test_records_outside_of_requests_do_not_reach_authenticated_clients():
    # AUTH-19: a verifier runs outside of all requests, and libraries say at which URLs they ask.
    ada, bob = "a-token-of-ada-0123456789", "a-token-of-bob-0123456789"
    logger = logging.getLogger("test.verifier")
    logger.setLevel(logging.DEBUG)

    def verify(token):
        logger.debug('"GET /userinfo?access_token=%s HTTP/1.1" 200', token)
        return mcplite.Principal({ada: "ada", bob: "bob"}[token], audience=mcplite.auth.ISSUED_HERE)

    mcp = mcplite.Server("logs", auth=mcplite.BearerAuth(verify))

    @mcp.tool()
    def work() -> None:
        logger.warning("of a request")

    handler = mcp.logging_handler()
    logger.addHandler(handler)
    heard, all_heard = [], threading.Event()

    def hear(message):
        heard.append(message.data)
        if message.data == "the end":
            all_heard.set()

    options = dict(era="legacy", timeout=LIMIT)
    try:
        with mcplite.serve(mcp) as server, connecting.connect(server.url, auth=bob, log_handler=hear, **options) as client:
            client.set_log_level("debug")
            client.call_tool("work")
            with connecting.connect(server.url, auth=ada, listen=False, **options) as other:
                other.call_tool("work")
            session, = [session for session in mcp.sessions if session.principal.subject == "bob"]
            session.log("info", "the end", "test")  # behind all that is for all
            assert all_heard.wait(LIMIT)
    finally:
        logger.removeHandler(handler)
    assert sorted(heard) == ["of a request", "the end"]


def test_a_client_that_has_left_does_not_keep_a_record_from_the_others(connect, server, monkeypatch):
    def leave(level, data, logger):
        raise mcplite.errors.ConnectionClosed("the pipe is broken")

    logger = logging.getLogger("test.left")
    handler = server.logging_handler()
    logger.addHandler(handler)
    try:
        connect(server)
        second = connect(server)
        monkeypatch.setattr(server.sessions[0], "log", leave)
        logger.error("to all")
        assert second.receive()["params"]["data"] == "to all"
    finally:
        logger.removeHandler(handler)
