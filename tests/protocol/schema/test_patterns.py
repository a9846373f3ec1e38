import re
import time

import pytest
from hypothesis import given, strategies as st

from mcplite.protocol.schema.patterns import MAX_PATTERN, MAX_SUBJECT, longest_subject


@pytest.mark.parametrize("pattern", [
    "", "^", "^$", "x", "^abc$", "^[a-z]+(-[a-z]+)*$", r"^\d{4}-\d{2}-\d{2}$", r"\d{1,3}", "a|b|cd", r"^https?://\S+$",
    r"^(\d{1,3}\.){3}\d{1,3}$", "^(foo|far)+$", "^(a|ab)*c", r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", r"\bword\b",
    "^(?:[a-z]+?;)*$", "^[^é]*é", "^(?P<year>[0-9]+)-", r"^[\w.]+:", "^[α-ω]+ [^a-z]", r"^\D+\d", r"^\W\w+$", r"^a*[^\x00-ÿ]",
    "^a*(b|c)d", "^[^a-\U0010ffff]*a",
])
def test_ordinary_patterns_are_for_long_texts(pattern):
    assert longest_subject(pattern) == MAX_SUBJECT


@pytest.mark.parametrize("pattern", [
    # SEC-78
    "^(a+)+$", "((a+))+", "(?:(?:a+)b?)+", "(a|a)*b", "(a|ab|b)*c", "(a*)*", "(a?){30}", "a?" * 30 + "a" * 30, "([(]+)+",
    r"(\w+\s?)*", "(.*)*", "(.+)+x", "([a-z]+)*$", r"(\d+|\w+)*x", "(a{1,9}){20}", "(a|b?)*", "^(é+)+$", r"^(\D+)+$",
    "([^a]+|b)*", "(x+x+)+y", "(a{2,})+", r"(\s|[^x])*$", r"(äb?|\w)*x", r"(٣b?|\p{N})*x", r"(α|[^a-z]b?)*x",
    # three choices that overlap
    "a*a*a*a*b", "^a*a*a*a*b", ".*a.*b.*",
    # what cannot be judged
    r"(a)\1", "(?i)a", "(?i:a)", "(?P<n>a)(?P=n)", "(a)?(?(1)b|c)", "(?:^){9}", r"^(?=.*\d)(?=.*[a-z])(?=.*-).{8,}$",
    "((?=a*b)a)*", "x" * (MAX_PATTERN + 1), "é" * MAX_PATTERN, "(" * 200 + "a" + ")*" * 200,
], ids=lambda pattern: pattern[:20])
def test_exponential_patterns_are_refused_for_any_text(pattern):
    assert longest_subject(pattern) == 0


@pytest.mark.parametrize("pattern, longest", [
    # It is tried at each character, or each of its ends is.
    ("[a-z]+", 2000), (r"\s+$", 2000), (r"(\w+\s)*-", 2000), (r"^[^@]+@[^@]+\.[^@]+$", 2000),
    ("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", 2000),
    # Both, or two of its choices overlap.
    (".*foo.*", 158), ("a*a*b", 158), ("^.*foo.*bar.*$", 158), (r"^(?=.*\d).{8,}$", 158), ("^(?![a-z]*x)[a-z]+$", 158),
    ("^(?!admin)[a-z]+$", 2000), ("(ab|[a-c]c)+?", 0), ("(ab|[a-c]c)x*", 1414), ("a{1,3}ax*", 1154),
])
def test_choices_that_overlap_make_texts_shorter(pattern, longest):
    assert longest_subject(pattern) == longest


def test_the_newer_repeats():
    for pattern, longest in (("^(?>a+)b", MAX_SUBJECT), ("^x*(?>a+)b", MAX_SUBJECT), ("^(a++)+$", 0)):
        try:
            re.compile(pattern)
        except re.error:
            continue  # an older Python
        assert longest_subject(pattern) == longest


PIECES = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\w", r"\d", "c", "$", "^", r"\b"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})")),
    max_leaves=8)


@given(PIECES, st.sampled_from(["a", "ab", "abc", "aab", "b", "1a"]))
def test_accepted_patterns_are_quick(pattern, text):
    try:
        re.compile(pattern)
    except re.error:
        return
    longest = longest_subject(pattern)
    if longest:
        subject = (text * longest)[:longest - 1] + "!"
        before = time.thread_time()
        re.search(pattern, subject)
        re.search(f"(?:{pattern})Z", subject)
        # Twenty times what it should take: a pattern that should not be here would take years.
        assert time.thread_time() - before < 2
