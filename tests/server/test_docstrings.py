import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcplite.server.docstrings import parse

GOOGLE = """Forecast the weather.

    More about it,
    on two lines.

    Args:
        city: City name, in English.
        days (int, optional): How far ahead,
            at most fourteen.

            Each costs extra.
        unit (Optional[Dict[str, (int)]]):
            On the next line.
        *rest: Others.
        **more (Any): And others.
        http: see https://example.com/a: b

    Returns:
        Forecast: for each day
            temperature: in degrees

    Raises:
        KeyError: no such city.

    Note:
        Costs money.

    Example:
        forecast("Rome")
    """

NUMPY = """Forecast the weather.

    Parameters
    ----------
    city : str
        City name,
        in English.
    days : {1, 2}, optional
        How far ahead.
    left, right : int
        Two at once.
    bare
        Without a type.
    *args, **kwargs
        Others.

    Returns
    -------
    Forecast
        For each day.

    Notes
    -----
    Costs money.
    """

REST = """Forecast the weather.

    See :class:`Forecast` and
    :func:`other` for more.

    :param city: City name,
        in English.
    :param int days: How far ahead.
    :type days: int
    :param Dict[str, int] unit: Which: one of two.
    :keyword more: Others.
    :returns: for each day
    :rtype: Forecast
    :raises KeyError: no such city
    """


def test_google_style():
    found = parse(GOOGLE)
    assert found.parameters == {
        "city": "City name, in English.", "days": "How far ahead, at most fourteen. Each costs extra.",
        "unit": "On the next line.", "rest": "Others.", "more": "And others.", "http": "see https://example.com/a: b"}
    assert found.text == ("Forecast the weather.\n\nMore about it,\non two lines.\n\nNote:\n    Costs money.\n\n"
                          "Example:\n    forecast(\"Rome\")")


def test_numpy_style():
    found = parse(NUMPY)
    assert found.parameters == {
        "city": "City name, in English.", "days": "How far ahead.", "left": "Two at once.", "right": "Two at once.",
        "bare": "Without a type.", "args": "Others.", "kwargs": "Others."}
    assert found.text == "Forecast the weather.\n\nNotes\n-----\nCosts money."


def test_rest_style():
    found = parse(REST)
    assert found.parameters == {"city": "City name, in English.", "days": "How far ahead.", "unit": "Which: one of two.",
                                "more": "Others."}
    assert found.text == "Forecast the weather.\n\nSee :class:`Forecast` and\n:func:`other` for more."


@pytest.mark.parametrize("docstring", [None, "", "   ", "\n", "\n\n   \n", 5])
def test_without_words_there_is_nothing(docstring):
    assert parse(docstring) == (None, {})


@pytest.mark.parametrize("docstring, text", [
    ("One line.", "One line."), ("  One line.  ", "One line."), ("\n    On the second line.\n    ", "On the second line."),
    ("Sum:\n\n    code stays\n        indented", "Sum:\n\ncode stays\n    indented"), ("Tab:\n\n\tone", "Tab:\n\none"),
    ("Args in the middle: of a line.", "Args in the middle: of a line."), ("Note: the city: Rome", "Note: the city: Rome"),
    ("Ends with\nArgs", "Ends with\nArgs"), ("A table\n-----\n1", "A table\n-----\n1"), (":class:`X` it is.", ":class:`X` it is."),
    (":not a field", ":not a field"), ("Returns:\n    nothing", None),
])
def test_the_text_is_what_people_wrote(docstring, text):
    assert parse(docstring).text == text


@pytest.mark.parametrize("title", ["Args", "Arguments", "Parameters", "Params", "Keyword Args", "Other Parameters", "Attributes"])
@pytest.mark.parametrize("style", ["{}:\n    x: which\n", "{}\n---\nx : int\n    which\n"])
def test_sections_have_many_titles(title, style):
    assert parse("Sum.\n\n" + style.format(title)) == ("Sum.", {"x": "which"})


def test_a_section_without_items_says_nothing():
    assert parse("Sum.\n\nArgs:\n\n    nothing to see\n") == ("Sum.", {})


@given(st.text(alphabet=st.sampled_from("ab :*()\n\t-A`,") | st.characters()) | st.lists(st.sampled_from(
    ["Args:", "    x: y", "Parameters", "----------", "x : int", ":param x: y", "", "  ", "text", "Returns:", "\t"])).map("\n".join))
def test_any_text_can_be_read(docstring):
    text, parameters = parse(docstring)
    assert text is None or text.strip() == text != ""
    assert all(isinstance(item, str) for item in parameters.values())
