"""Scalars and how errors quote them; the tables of test_schemas have what each annotation accepts."""

from hypothesis import given, strategies as st

from mcplite.server.functions.converters import SIMPLE, Mismatch, summary


@given(st.text(max_size=30) | st.from_regex(r"[0-9T:.,Z+-]{0,30}") | st.from_regex(r"-?P[0-9YMWDTHS.]{0,20}"))
def test_any_text_is_converted_or_refused(text):
    for node in SIMPLE.values():
        try:
            node.convert(text)
        except Mismatch as error:
            assert error.message.endswith(str(error)) and "is not" in error.message


def test_the_path_leads_through_lists_and_objects():
    error = Mismatch("is required").below("name").below(3).below("items")
    assert error.path == ("items", 3, "name")
    assert error.sentence() == "items[3].name: is required" and error.sentence("arg") == "arg.items[3].name: is required"
    assert Mismatch("is odd").sentence() == "is odd"


def test_long_values_and_names_are_cut():
    assert summary("x" * 10 ** 6) == "'" + "x" * 76 + "..."
    assert summary(["x" * 1000] * 5).endswith("...") and len(summary(["x" * 1000] * 5)) == 80
    assert summary([1] * 21) == "a list of 21" and summary([1, 2]) == "[1, 2]"
    assert summary(dict.fromkeys(range(30))) == "an object of 30"
    assert len(Mismatch("is odd").below("k" * 1000).sentence("a")) < 120
