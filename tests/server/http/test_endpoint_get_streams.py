"""The GET streams of an endpoint: their number is bounded, and names of unknown streams are refused."""

import mcplite
from mcplite.protocol.http.headers import Headers
from mcplite.server.handling.http_request import HTTPRequest
from mcplite.server.http.endpoint import GetStreams
from mcplite.server.http.messages import HTTPResponse
from mcplite.server.limits import Limits
from mcplite.server.state.response_bodies import StreamingBody


class Body(StreamingBody):
    stopped = False

    def stop(self):
        self.stopped = True

    def close(self):
        self.closed()


def request(principal=None):
    return HTTPRequest("GET", "/mcp", Headers([]), principal=principal)


def refused(rejection):
    return HTTPResponse(rejection.status)


def test_one_more_than_the_limit_ends_the_oldest():
    streams, bodies = GetStreams(Limits(streams=2), refused), [Body() for _ in range(3)]
    responses = [streams.open(request(), body) for body in bodies]
    assert [body.stopped for body in bodies] == [True, False, False] and len(streams) == 2
    for response in responses:
        assert response.status == 200 and response.streaming
        response.close()
    assert len(streams) == 0


def test_what_is_called_at_the_end_is_called_once():
    streams, told = GetStreams(Limits(), refused), []
    response = streams.open(request(), Body(), lambda: told.append(1))
    response.close()
    response.close()
    assert told == [1]


def test_a_stream_ends_with_the_token_of_its_request():
    # AUS-31
    body = Body()
    GetStreams(Limits(), refused).open(request(mcplite.Principal("ada", expires_at=1.0)), body)
    assert body.left < 0


def test_without_its_events_a_stream_is_refused():
    assert GetStreams(Limits(), refused).open(request(), None).status == 400
