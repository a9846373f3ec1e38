import re

import pytest

from mcplite.protocol.schema.ecma import problem_of, python_pattern, translated
from mcplite.protocol.schema.validation import Validator, check_schema


@pytest.mark.parametrize("pattern, good, bad", [
    ("^a$", ["a"], ["a\n", "ab"]), ("a$|b", ["ca", "b\n"], ["a\n"]), (r"^\d+$", ["019"], ["٣", "१"]),
    (r"^\w+$", ["aZ_9"], ["é", "ß", "٣"]), (r"^\W$", ["é", "-"], ["a", "_"]), (r"^\D$", ["٣", "x"], ["3"]),
    (r"^\s$", [" ", "\t", "\u00a0", "\ufeff", "\u2029"], ["\x1c", "\x85", "x"]), (r"^\S$", ["\x1c", "a"], ["\ufeff"]),
    ("^.$", ["a", "é", "😀", "\x85"], ["\n", "\r", "\u2028", "\u2029", ""]),
    (r"\bfoo\b", ["foo", "éfoo", "a foo."], ["foob", "_foo"]), (r"a\Bb", ["ab"], ["a b"]), (r"^\B$", [""], ["a"]),
    (r"^\cJ\cm$", ["\n\r"], ["JM"]), (r"^\x41\u0042\u{1F600}\uD83D\uDE00$", ["AB😀😀"], []),
    (r"^\/\-\_\@\"\é\ $", ['/-_@"é '], []), (r"^\0$", ["\0"], ["0"]), (r"^[\b]$", ["\b"], ["b"]),
    (r"^\f\n\r\t\v$", ["\f\n\r\t\v"], []), ("^[^]$", ["\n", "a"], ["", "ab"]), ("a[]", [], ["a", "a[]"]),
    ("^[[&&~~|-]+$", ["[&~|", "[-"], ["]"]), (r"^[\w-.]+$", ["a-.b"], ["a+"]), (r"^[^\S\n]$", ["\t", "\u00a0"], ["\n", "a"]),
    (r"^[a\]\\-]$", ["]", "\\", "-", "a"], ["b"]), ("^[a-c-e]$", ["b", "-", "e"], ["d"]), (r"^\p{L}+$", ["éλа"], ["1", "a1"]),
    (r"^[\p{Lu}\d_]+$", ["ÉA_1"], ["e"]), (r"^\P{Letter}$", ["1"], ["é"]),
    (r"^\p{gc=Nd}\p{General_Category=digit}$", ["4৪"], ["Ⅳ4"]), (r"^\p{ASCII}\p{Any}$", ["aé"], ["éa"]),
    (r"^\p{punct}\p{LC}$", ["!a"], ["!ª"]), (r"^(?<año>a)(?<$y>b)\k<$y>\1$", ["abba"], ["abab"]),
    (r"^(a)?\1b$", ["b", "aab"], ["ab"]), (r"(?i:É)t", ["ét"], ["éT"]), ("^${a}$", [], [""]),
    (r"^\${name}]$", ["${name}]"], []), ("^a{2}?b{1,}c{0,2}$", ["aab", "aabbcc"], ["ab"]), ("^x{,}{y$", ["x{,}{y"], ["x"]),
    ("(?=a)[^b]", ["a"], ["b"]), ("(?<!a)b(?!c)(?<=b)", ["b", "cb"], ["ab", "bc"]), ("^(?:a|b)+?$", ["abab"], ["c"]),
    ("^#\t é$", ["#\t é"], []),
])
def test_patterns_match_what_they_match_in_ecma_262(pattern, good, bad):
    compiled = re.compile(translated(pattern))
    assert not problem_of(pattern)
    for text in good:
        assert compiled.search(text) is not None, text
    for text in bad:
        assert compiled.search(text) is None, text
    check_schema({"pattern": pattern}, what="it")
    # A name may be matched by jsonschema, a text here or there.
    for schema, value in (({"pattern": pattern}, str), ({"not": {"not": {"pattern": pattern}}}, str),
                          ({"patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": False},
                          lambda text: {text: 1}),
                          ({"patternProperties": {pattern: True}, "unevaluatedProperties": False}, lambda text: {text: 1})):
        validator = Validator(schema)
        validator.trust_patterns()
        assert all(validator.is_valid(value(text)) for text in good)
        assert not any(validator.is_valid(value(text)) for text in bad)


@pytest.mark.parametrize("pattern, remedy", [
    (r"a\Z", "write $"), (r"\Aa", "write ^"), (r"a\z", "write $"), ("(?i)a", "[Aa]"), ("a(?i)", "[Aa]"), ("a++", "write +"),
    ("a{2}+", "write {2}"), ("(?P<n>a)", "(?<name>...)"), (r"(?<n>a)(?P=n)", r"\k<name>"), ("(?>a)", "(?:...)"),
    ("(?#x)a", "leave the comment out"), ("(a)?(?(1)b|c)", "alternatives"), ("a{,3}", "{0,n}"),
    (r"\p{Script=Greek}", "general categories"), (r"\p{}", "general categories"), (r"\pL", r"\p{L}"), (r"\u12", "hexadecimal"),
    (r"\u{110000}", "hexadecimal"), (r"\xg", r"\x"), (r"\01", r"\0"), (r"\c1", r"\c"), (r"\2(a)", "no group"),
    (r"\k<m>(?<n>a)", "no group"), ("[b-a]", "order"), ("[a", "not closed"), ("\\", "write \\\\"), ("(?~a)", "no group"),
    ("(", "missing"), ("a**", "multiple repeat"), ("*a", "nothing to repeat"), ("(?<=a*)b", "fixed-width"), (5, "no text"),
    (None, "no text"),
])
def test_what_is_not_ecma_262_or_cannot_be_matched_is_named_with_the_remedy(pattern, remedy):
    assert remedy in problem_of(pattern)


def test_a_peer_s_pattern_that_is_not_ecma_262_is_python_s():
    assert python_pattern(r"(?i)^a\Z") == r"(?i)^a\Z" and python_pattern("a$") == r"a\Z"
    assert Validator({"pattern": r"^a\Z"}, trusted=False).is_valid("a")
    assert not Validator({"pattern": "^a$"}, trusted=False).is_valid("a\n")


@pytest.mark.parametrize("pattern, fits, fails", [
    ("(?i)[[:alpha:]", "[", "b"), ("(?i)^[^[a]+\\Z", "bc", "b["), ("\\A[a&&b]\\Z", "&", "&&"), ("(?i)[a||b]", "|", "c"),
    ("(?i)[a~~b]", "~", "c"), (r"(?i)\[[]a[]", "[[", "[b"), (r"(?i)[\[\\[]", "\\", "a"), ("(?i)[+--]", ",", "x"),
    ("(?i)[0-9--a]", "/", "~"), (r"(?i)[\--a]", "0", ","), ("(?i)[----]", "-", "a"), ("(?i)[!-a--/]", ".", "~")])
def test_a_set_of_python_s_prints_no_warning(pattern, fits, fails, recwarn):
    expression = re.compile(python_pattern(pattern))
    assert expression.search(fits) and not expression.search(fails)
    assert not recwarn.list


def test_a_reference_to_a_part_under_a_pattern_is_kept():
    schema = {"patternProperties": {"^a$": {"type": "integer"}}, "properties": {"b": {"$ref": "#/patternProperties/%5Ea%24"}}}
    assert Validator(schema).problems({"b": 1, "a": 2}) == [] and len(Validator(schema).problems({"b": "x", "a": "x"})) == 2
