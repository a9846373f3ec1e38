"""The heads of HTTP requests and responses beside the messages, without secrets."""

import pytest

import mcplite
from mcplite import Server
from mcplite.inspector.http_heads import masked_headers, masked_url
from mcplite.inspector.inspector_server import InspectedTarget
from mcplite.revisions import NEWEST, NEWEST_LEGACY


@pytest.mark.parametrize("revision", [NEWEST_LEGACY.name, NEWEST.name])
def test_a_message_over_http_has_its_heads_without_the_token(inspect, revision):
    app = Server("web")
    app.tool("look")(lambda: "seen")
    with mcplite.serve(app, port=0) as served:
        options = {"headers": {"Authorization": "Bearer s3cret", "X-Api-Key": "s3cret", "X-Plain": "shown"}}
        page = inspect(it=InspectedTarget("it", served.url + "?token=s3cret&a=1", lambda: options))
        page.open(revision=revision)
        page.call("tools/list")
        asked = page.wait("message-update", method="tools/list")
        http = asked["http"]
        assert http["request"]["method"] == "POST" and http["request"]["url"] == served.url + "?token=***&a=1"
        sent = {name.lower(): value for name, value in http["request"]["headers"].items()}
        assert (sent["authorization"], sent["x-api-key"], sent["x-plain"]) == ("Bearer ***", "***", "shown")
        assert http["response"]["status"] == 200
        assert page.wait("message", answers=asked["message"])["http"] == http
        assert "s3cret" not in repr(page.events)


@pytest.mark.parametrize("name, value, shown", [
    ("Authorization", "Bearer abc", "Bearer ***"), ("authorization", "abc", "***"),
    ("Proxy-Authorization", "Basic abc", "Basic ***"),
    ("Cookie", "a=b; c=d", "***"), ("Set-Cookie", "a=b", "***"), ("DPoP", "abc", "***"), ("X-Auth-Token", "abc", "***"),
    ("X-API-Key", "abc", "***"), ("Accept", "text/html", "text/html"), ("Mcp-Session-Id", "abc", "abc"),
])
def test_headers_are_masked_by_name(name, value, shown):
    assert masked_headers({name: value}) == {name: shown}


@pytest.mark.parametrize("url, shown", [
    ("http://a/b?x=1", "http://a/b?x=1"), ("http://me:pw@a/b", "http://***@a/b"),
    ("http://a/b?api_key=abc", "http://a/b?api_key=***"),
    ("http://a/?access_token=abc&b=c#token=x", "http://a/?access_token=***&b=c#token=***"),
    ("http://a/b?q=user@host", "http://a/b?q=user@host"),
])
def test_urls_are_masked(url, shown):
    assert masked_url(url) == shown


def test_a_long_url_of_a_server_takes_no_time_to_be_masked():
    url = "http://a/?" + "token" * 200_000
    assert masked_url(url) == url  # a name without a value
    assert masked_url("http://a/?" + "token=1&" * 10_000).count("***") == 10_000
