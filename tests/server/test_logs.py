"""Python logging, forwarded to clients."""

import logging

import pytest


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
        with pytest.raises(ValueError, match="no log level"):
            server.sessions[0].log("verbose", "x")
    finally:
        logger.removeHandler(handler)
