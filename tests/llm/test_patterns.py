import re

import pytest
from hypothesis import given, strategies as st

from mcplite.llm.patterns import is_portable


@pytest.mark.parametrize("pattern", [
    "", "a|b", "^[a-z]{2,3}(?:-[A-Z]+)?$", r"\d{4}-\d{2}", "(a|b)*?", "[-a]", "[a-]", "[^a-z0-9_]", r"[\w.+-]+@[\w-]+\.[a-z]+",
    "ä+", r"^\/api\/.*$", r"\x41", "()", r"[\]\[]", "a{0}", "a{3,}", "a{1000}", r"[+\-*/]", "[.]", r"[\t\n]", "^$|^a$", "a b",
])
def test_patterns_that_every_api_compiles(pattern):
    assert is_portable(pattern)


@pytest.mark.parametrize("pattern", [
    "(?=x)", "(?!x)", "(?<=a)b", "(?<!a)b", r"(a)\1", r"^[a-z@#+\-=[\]{}|]*$", "(?>a)", "a++", "a*+", "a?+", "a{2}+", "a**",
    r"\u{1F600}", r"\u0041", r"(?<n>a)\k<n>", "(?P<n>a)", "(?i)a", "(?i:a)", "(?#x)", "(?(1)a|b)", "[[:alpha:]]", "[]",
    "[]a]", "[^]", "*a", "(*a)", "|*", "^*", "a{1001}", "(a{100}){100}", "a{3,2}", "a{,3}", "[z-a]", r"[\w-z]", r"[a-\d]",
    "[a", "(a", "a)", "a\\", r"\cA", r"\p{L}", r"\Z", r"\A", r"\0", "{", "}", "a{", "]", "[a--b]", "[a&&b]",
    "\ud800", "[\ud800]", "a" * 2001,
])
def test_patterns_that_some_api_refuses(pattern):
    assert not is_portable(pattern)


@given(st.lists(st.sampled_from([*r"ab()[]{}*+?|^$.\-,:=!<>dw123", "(?:", "[^", "{2,3}", r"\d", "[a-z]"]),
                max_size=10).map("".join))
def test_what_is_portable_can_be_compiled(pattern):
    if is_portable(pattern):
        re.compile(pattern)
