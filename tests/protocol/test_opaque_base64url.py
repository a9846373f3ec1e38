import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.opaque import base64url_decode, base64url_encode


@given(st.binary())
def test_encoded_bytes_are_decoded(data):
    text = base64url_encode(data)
    assert base64url_decode(text) == data and set(text).isdisjoint("+/=")


@pytest.mark.parametrize("data, text", [(b"", ""), (b"\xfb\xff", "-_8"), (b"a", "YQ"), (b"abc", "YWJj")])
def test_the_alphabet_is_that_of_urls(data, text):
    assert base64url_encode(data) == text and base64url_decode(text) == data


@pytest.mark.parametrize("text", ["YQ==x", "Y", "Y Q", "\u00fc"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError):
        base64url_decode(text)
