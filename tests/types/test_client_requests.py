import pytest

from mcplite.types import CreateMessageResult, ElicitRequest, ImageContent, SamplingMessage, TextContent


@pytest.mark.parametrize("make", [
    lambda content: SamplingMessage("user", content), lambda content: CreateMessageResult("assistant", content, "m"),
], ids=["message", "result"])
def test_content_is_always_a_list(make):
    text, image = TextContent("x"), ImageContent("", "image/png")
    blocks = [text, image]
    assert make(text).content == [text]
    assert make(blocks).content is blocks
    assert make((text, image)).content == blocks
    assert make([]).content == []
    assert make([text, image, TextContent("y")]).text == "x\ny"


@pytest.mark.parametrize("url, host", [
    (None, ""), ("", ""), ("https://example.com", "example.com"), ("https://example.com/a?b@c#d", "example.com"),
    ("https://example.com:8443/", "example.com:8443"), ("https://example.com?x=/@evil.example", "example.com"),
    ("https://example.com#@evil.example", "example.com"), ("https://good.example@evil.example/", "evil.example"),
    ("https://a@b@evil.example", "evil.example"), ("https://[::1]:80/x", "[::1]:80"),
    # What browsers make of them, since that is where the user ends up.
    ("https://evil.example\\@good.example/", "evil.example"), ("https:evil.example", "evil.example"),
    ("https:\\\\evil.example/", "evil.example"), ("https:///evil.example/", "evil.example"),
    ("ht\ntps://ev\til.example\r/", "evil.example"),
])
def test_the_host_is_the_one_that_is_visited(url, host):
    assert ElicitRequest("m", mode="url", url=url).host == host
