"""Sealed values: whole, by a known key and in their own context, or nothing."""

from hypothesis import given, strategies as st

from mcplite.protocol.opaque import open_sealed, seal

OLD, NEW = b"an old key of some bytes", b"a new key of some bytes"


@given(st.binary(max_size=100), st.text(max_size=20))
def test_sealed_content_is_opened(content, context):
    sealed = seal(content, NEW, context)
    assert sealed.isascii() and sealed.isprintable() and " " not in sealed
    assert open_sealed(sealed, [OLD, NEW], context) == content
    assert open_sealed(sealed, [OLD], context) is None
    assert open_sealed(sealed, [NEW], context + "x") is None


@given(st.binary(min_size=1, max_size=40), st.data())
def test_every_change_is_noticed(content, data):
    sealed = seal(content, NEW, "c")
    position = data.draw(st.integers(0, len(sealed) - 2))  # the last letter may stand for bits that are not there
    letter = data.draw(st.sampled_from("ABab01-_").filter(lambda letter: letter != sealed[position]))
    assert open_sealed(sealed[:position] + letter + sealed[position + 1:], [NEW], "c") is None


@given(st.text(max_size=100))
def test_other_texts_are_not_opened(text):
    assert open_sealed(text, [NEW], "c") is None


def test_the_context_cannot_run_into_the_content():
    assert open_sealed(seal(b"bc", NEW, "a"), [NEW], "ab") is None
    one, other = seal(b"1:x", NEW, ""), seal(b"x", NEW, "1:")
    assert one[:40] != other[:40]
