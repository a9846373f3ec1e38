"""What passes between a host and the exchange."""

from mcplite.protocol.http.headers import Headers
from mcplite.server.http.messages import HTTPRequest


def test_a_request_does_not_show_its_query():
    # Somebody may have put a token there, and routes of one's own get the request.
    assert "s3cret" not in repr(HTTPRequest("GET", "/", Headers([]), "access_token=s3cret"))
