"""HTTP requests and responses as values."""

from mcplite.protocol.http.headers import Headers
from mcplite.server.http.messages import HTTPRequest


def test_a_request_does_not_show_its_query():
    # The query may hold a token, and user-defined routes get the request.
    assert "s3cret" not in repr(HTTPRequest("GET", "/", Headers([]), "access_token=s3cret"))
