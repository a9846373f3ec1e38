"""Docstrings of three styles: the description and the parameters; what is not understood stays text."""

import pytest
from hypothesis import given, strategies as st

from mcplite.server.functions.docstrings import parse

GOOGLE = """Forecast the weather.

    More about it.

    Args:
        city (str): Where, in English: Rome
            or Paris.
        days (Optional[Tuple[int, (int)]], optional): How many.

            At most ten.
        *rest: More cities.
        **options (Any): And more.
        unit:
            Celsius or not.

    Returns:
        Forecast: the weather
            of each day.

    Raises:
        ValueError: never

    Example:
        forecast("Rome")
    """

NUMPY = """
    Forecast the weather.

    More about it.

    Parameters
    ----------
    city : str
        Where, in English: Rome
        or Paris.
    days, unit : int, optional
        How many.

        At most ten.
    *rest
        More cities.
    **options : Any
        And more.
    (nothing)
        This is no parameter.

    Returns
    -------
    Forecast
        the weather

    Raises
    ------
    ValueError
        never

    Example
    -------
    forecast("Rome")
    """

REST = """Forecast the weather.

    More about :class:`Forecast`: it is good.

    :param city: Where, in English: Rome
        or Paris.
    :type city: str
    :param int days: How many.
        At most ten.
    :param Dict[str, int] table: Values.
    :keyword unit: Celsius or not.
    :arg \\*rest: no parameter at all
    :param **options: And more.
    :param silent:
    :returns: the weather
        of each day
    :rtype: Forecast
    :raises ValueError: never

    The end.
    """


def test_google_style():
    assert parse(GOOGLE) == (
        "Forecast the weather.\n\nMore about it.\n\nReturns:\n    Forecast: the weather\n        of each day.\n\nRaises:\n"
        '    ValueError: never\n\nExample:\n    forecast("Rome")', {
        "city": "Where, in English: Rome or Paris.", "days": "How many. At most ten.", "rest": "More cities.",
        "options": "And more.", "unit": "Celsius or not."})


def test_numpy_style():
    assert parse(NUMPY) == (
        "Forecast the weather.\n\nMore about it.\n\nParameters\n----------\n(nothing)\n    This is no parameter.\n\n"
        "Returns\n-------\nForecast\n    the weather\n\nRaises\n------\nValueError\n    never\n\n"
        'Example\n-------\nforecast("Rome")', {
        "city": "Where, in English: Rome or Paris.", "days": "How many. At most ten.", "unit": "How many. At most ten.",
        "rest": "More cities.", "options": "And more."})


def test_rest_style():
    assert parse(REST) == (
        "Forecast the weather.\n\nMore about :class:`Forecast`: it is good.\n\n:arg \\*rest: no parameter at all\n"
        ":returns: the weather\n    of each day\n:raises ValueError: never\n\nThe end.", {
            "city": "Where, in English: Rome or Paris.", "days": "How many. At most ten.", "table": "Values.",
            "unit": "Celsius or not.", "options": "And more.", "silent": ""})


@pytest.mark.parametrize("docstring", [None, "", 5, b"bytes"])
def test_without_a_docstring_there_is_no_description(docstring):
    assert parse(docstring) == (None, {})


@pytest.mark.parametrize("docstring", [" ", "\n", "\n    \n", ":rtype: str", "Args:\n", ":type a: str\n:rtype: int"])
def test_a_docstring_can_be_empty(docstring):
    assert parse(docstring) == (None, {})


@pytest.mark.parametrize("title", ["Args", "Arguments", "Parameters", "Params", "Keyword Args", "Attributes", "ARGS"])
def test_sections_have_several_names(title):
    assert parse(f"It.\n\n{title}:\n    a: first\n")[1] == {"a": "first"}
    assert parse(f"It.\n\n{title}\n{'-' * len(title)}\na\n    first\n")[1] == {"a": "first"}


def test_text_after_a_section_is_kept():
    assert parse("One.\n\nArgs:\n    a: first\nTwo.\n") == ("One.\n\nTwo.", {"a": "first"})


@pytest.mark.parametrize("docstring", [
    "Args:\n    a: first", "Args:\na: first", "Parameters\n    ---\n    a : int\n        first",
    "Parameters\n---\na\n    first"])
def test_a_section_can_come_first(docstring):
    assert parse(docstring) == (None, {"a": "first"})


@pytest.mark.parametrize("title", ["Note", "Warning", "Examples", "See Also", "Todo"])
def test_other_sections_are_kept(title):
    assert parse(f"It.\n\n{title}:\n    a: first")[0] == f"It.\n\n{title}:\n    a: first"


def test_indentation_is_kept_within_the_text():
    assert parse("First.\n\n        code\n    text\n")[0] == "First.\n\n    code\ntext"


@given(st.text(st.sampled_from("aA:\n -*()rgsReturnpm`"), max_size=80) | st.text(max_size=80))
def test_any_text_can_be_parsed(docstring):
    text, parameters = parse(docstring)
    assert text is None or text == text.strip() != ""
    assert all(isinstance(value, str) and name.isidentifier() or not name.isascii() or name[:1].isdigit()
               for name, value in parameters.items())


@pytest.mark.parametrize("section", [
    "Args:\n    a: first\n    b: second", "Args:\n    - a: first\n    - b: second", "Args:\n    * a: first\n    * b: second",
    "Args:\n    `a`: first\n    `b` (str): second", "Args:\n    **a**: first\n    **b:** second",
    "Args:\n    a -- first\n    b - second", "Parameters:\n    - `a` (int): first\n    - `b` (str): second",
    "Args:\n    'a': first\n    \"b\": second", "Args:\n    a — first\n    b – second",
    "Args:\n    • a: first\n    + b: second", "Parameters\n----------\na : int\n    first\nb\n    second",
    "Parameters\n----------\n`a` : int\n    first\n**b**\n    second", "Parameters\n----------\na : first\nb : second",
    ":param a: first\n:param str b: second", "@param a: first\n@param b: second",
])
def test_parameters_are_written_in_many_ways(section):
    assert parse(f"Do it.\n\n{section}\n", {"a", "b"}) == ("Do it.", {"a": "first", "b": "second"})


@pytest.mark.parametrize("kept", [
    "Args:\n    Give it before\n    the other.", "Args:\n    c: no parameter", "Args:\n    a.name: a member",
    "Args:\n    all of them:", "Args:\n    a, c: one of them is none\n        and more", "Args:\n    - whatever else",
    "Parameters\n----------\nc : int\n    no parameter", ":param c: no parameter\n    and more", "```\nArgs:\n    a: code\n```",
    "~~~\n:param a: code\n~~~", "Returns:\n    the sum", "Raises:\n    ValueError: never", ":returns: the sum",
    "Yields\n------\nint\n    a number", ":raises ValueError: never",
])
def test_what_is_not_understood_stays_in_the_description(kept):
    assert parse(f"Do it.\n\n{kept}\n\nThe end.", {"a", "b"}) == (f"Do it.\n\n{kept}\n\nThe end.", {})


def test_the_rest_of_a_section_is_understood():
    section = "Args:\n    in front:\n    a: first\n        and more\n    c: none\n        of it\n    b: second\n"
    assert parse(f"Do it.\n\n{section}", {"a", "b"}) == (
        "Do it.\n\nArgs:\n    in front:\n    c: none\n        of it", {"a": "first and more", "b": "second"})


def test_a_docstring_may_be_a_lazy_translation():
    class Lazy:
        def __str__(self):
            return "Do it.\n\nArgs:\n    a: first"

    assert parse(Lazy()) == ("Do it.", {"a": "first"})


@pytest.mark.parametrize("docstring", [
    "Args of any kind.", "Args", "It.\nText:\n    Args:\n        a: b", "Call it with Args:", "It.\nThe args:\n    a: b",
    "a: b", "See :func:`it` for more", ":func:`it` does it", "Note: this"])
def test_lines_that_only_look_like_a_section_are_text(docstring):
    assert parse(docstring) == (docstring, {})
