import pytest
from hypothesis import example, given, settings, strategies as st

from mcplite.protocol.http.oauth import Challenge, find_challenge, parse_challenges, write_challenge
from tests.support.cost import fastest

TOKEN = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LIMIT = 16_384


def read(header):
    return [(challenge.scheme, challenge.parameters) for challenge in parse_challenges(header)]


@pytest.mark.parametrize("header, challenges", [
    # RFC 9110, section 11.6.1
    ('Basic realm="simple", Newauth realm="apps", type=1, title="Login to \\"apps\\""',
     [("basic", {"realm": "simple"}), ("newauth", {"realm": "apps", "type": "1", "title": 'Login to "apps"'})]),
    ('Newauth realm="apps", type=1, title="Login to \\"apps\\"", Basic realm="simple"',
     [("newauth", {"realm": "apps", "type": "1", "title": 'Login to "apps"'}), ("basic", {"realm": "simple"})]),
    # RFC 6750, section 3
    ('Bearer realm="example"', [("bearer", {"realm": "example"})]),
    ('Bearer realm="example", error="invalid_token", error_description="The access token expired"',
     [("bearer", {"realm": "example", "error": "invalid_token", "error_description": "The access token expired"})]),
    # RFC 9728, section 5.1, and the specification
    ('Bearer resource_metadata="https://resource.example.com/.well-known/oauth-protected-resource"',
     [("bearer", {"resource_metadata": "https://resource.example.com/.well-known/oauth-protected-resource"})]),
    ('Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource",\r\n'
     '                         scope="files:read"',
     [("bearer",
         {"resource_metadata": "https://mcp.example.com/.well-known/oauth-protected-resource",
             "scope": "files:read"})]),
    ('Bearer error="insufficient_scope", scope="files:read files:write",'
     ' error_description="Additional file write permission required"',
     [("bearer", {"error": "insufficient_scope", "scope": "files:read files:write",
                  "error_description": "Additional file write permission required"})]),
    # RFC 9449, section 7.1
    ('DPoP error="invalid_token", error_description="Invalid DPoP key binding", algs="ES256"',
     [("dpop", {"error": "invalid_token", "error_description": "Invalid DPoP key binding", "algs": "ES256"})]),
    ('Bearer, DPoP algs="ES256 PS256"', [("bearer", {}), ("dpop", {"algs": "ES256 PS256"})]),
    # RFC 7235, appendix C, lists with empty elements; RFC 4559, token68
    (', Basic realm="x", , ,Bearer ,', [("basic", {"realm": "x"}), ("bearer", {})]),
    ("Negotiate", [("negotiate", {})]),
    ("Negotiate YWJj+/._~-==", [("negotiate", {})]),
    ("Negotiate YWJj==, Bearer scope=a", [("negotiate", {}), ("bearer", {"scope": "a"})]),
    ("Negotiate YWJj=, NTLM, Bearer scope=a", [("negotiate", {}), ("ntlm", {}), ("bearer", {"scope": "a"})]),
])
def test_examples_of_the_specifications(header, challenges):
    assert read(header) == challenges


@pytest.mark.parametrize("header, parameters", [
    ('bEARER Realm="X", SCOPE=y', {"realm": "X", "scope": "y"}),
    ('Bearer\trealm\t=\t"x"\t,\tscope = y', {"realm": "x", "scope": "y"}),
    ('Bearer  \t realm="x"', {"realm": "x"}),
    ('Bearer realm="a, Basic realm=b", scope=c', {"realm": "a, Basic realm=b", "scope": "c"}),
    ('Bearer realm="a=\\"b\\", c=\\"d\\"",scope=e', {"realm": 'a="b", c="d"', "scope": "e"}),
    (r'Bearer realm="back\\", scope=a', {"realm": "back\\", "scope": "a"}),
    (r'Bearer realm="\a\,\\\"", scope=a', {"realm": 'a,\\"', "scope": "a"}),
    ('Bearer realm="", scope=a', {"realm": "", "scope": "a"}),
    ('Bearer scope="a" , realm="b" ', {"scope": "a", "realm": "b"}),
    ('Bearer realm="tab\there, é"', {"realm": "tab\there, é"}),
    # Of what is said twice, the first: who adds a line behind another's changes nothing.
    ('Bearer scope="a", Scope="b", scope=c', {"scope": "a"}),
    ('Bearer realm, scope=a', {"scope": "a"}),
])
def test_parameters_in_all_their_spellings(header, parameters):
    assert read(header) == [("bearer", parameters)]


@pytest.mark.parametrize("fold", ["\r\n ", "\n\t", "\r\n  \t ", "\r "])
def test_a_line_may_go_on_in_the_next(fold):
    assert read(f'Bearer{fold}realm="a{fold}b",{fold}scope=c,{fold}Basic{fold}realm = d{fold}') == [
        ("bearer", {"realm": "a b", "scope": "c"}), ("basic", {"realm": "d"})]


def test_line_ends_do_not_get_into_values():
    assert read('Bearer realm="a\r\nSet-Cookie: b"') == [("bearer", {"realm": "a Set-Cookie: b"})]


@pytest.mark.parametrize("header, challenges", [
    ("", []), (" ,\t, ", []), ("=", []), ('"Bearer"', []), ("@", []), ("\0", []), ("é", []), ("realm=x", []),
    ('realm="x", Bearer', []), ("Bearer=x", []), ("Bearer = x", []), ("Bearer  =x", []), ("[1]", []), ("{}", []),
    ("<html>", []), ("Bearer; realm=x", []), ("Bearer: x", []),
    # up to where it goes wrong
    ('Bearer realm="open', [("bearer", {})]), ('Bearer realm="open\\"', [("bearer", {})]),
    ('Bearer scope=a, realm="open', [("bearer", {"scope": "a"})]), ('Bearer scope=a, realm=', [("bearer", {"scope": "a"})]),
    ('Bearer scope=a, realm="x"y, error=z', [("bearer", {"scope": "a"})]), ('Bearer scope="a" realm="b"', [("bearer", {})]),
    ("Bearer resource_metadata=https://h/x, scope=a", [("bearer", {})]),
    ("Bearer scope=a, =b, realm=c", [("bearer", {"scope": "a"})]),
    ('Basic realm="x", é="y", Bearer scope=z', [("basic", {"realm": "x"})]),
    # no challenge by the grammar, but each word alone is one
    ("one two three", [("one", {}), ("two", {})]),
])
def test_parsing_ends_at_the_first_malformed_part(header, challenges):
    assert read(header) == challenges


def test_scopes_are_a_list_of_different_ones():
    assert Challenge("bearer", {"scope": " b  a b "}).scopes == ["b", "a"]
    assert Challenge("bearer", {"scope": " "}).scopes is Challenge("bearer").scopes is None


def test_the_first_scheme_asked_for_is_preferred():
    known = parse_challenges("Basic realm=x, Bearer scope=a, DPoP algs=ES256, Bearer scope=b")
    assert find_challenge(known, "dpop", "bearer").get("algs") == "ES256"
    assert find_challenge(known, "digest", "bearer").scopes == ["a"]
    assert find_challenge(iter(known), "bearer", "basic").scheme == "bearer"
    assert find_challenge(known, "digest") is find_challenge([], "bearer") is find_challenge(known) is None


# --- size --------------------------------------------------------------------------------------------

def filled(beginning, piece, ending="", size=LIMIT):
    """Return a header of at most *size* characters."""
    return beginning + piece * ((size - len(beginning) - len(ending)) // len(piece)) + ending


NASTY = {
    "one long word": ("", "a", ""),
    "spaces before an equals sign": ("Bearer", " ", "="),
    "tabs and spaces before nothing": ("Bearer", "\t ", "@"),
    "spaces after a parameter": ("Bearer a=b", " ", "@"),
    "spaces after a quoted one": ('Bearer a="b"', " ", "@"),
    "spaces after an equals sign": ("Bearer a=", " ", "@"),
    "an open quote": ('Bearer a="', "x", ""),
    "an open quote of escapes": ('Bearer a="', "\\\\", ""),
    "an open quote of escaped quotes": ('Bearer a="', '\\"', ""),
    "a quote that is followed by rubbish": ('Bearer a="', "x\\y", '" @'),
    "many quotes": ("Bearer ", '"', ""),
    "many equals signs": ("Bearer a", "=", " @"),
    "many commas": ("Bearer ", ",", "@"),
    "many line ends": ("Bearer ", "\r\n", "@"),
    "many folds": ("Bearer", "\r\n ", "="),
    "many schemes": ("", "a ", "@"),
    "many schemes with spaces": ("", "a    ", "="),
    "many schemes with commas": ("", "a,", "@"),
    "many parameters": ("Bearer ", "a=b,", "@"),
    "many quoted parameters": ("Bearer ", 'a="b",', "@"),
    "many openings": ("Bearer ", 'a="', ""),
    "many credentials": ("", "a b==,", "@"),
    "nearly credentials": ("Bearer ", "a/", " @"),
    "many words that are no parameters": ("Bearer ", "a  =  ", "@"),
}


@pytest.mark.parametrize("shape", NASTY, ids=lambda name: name.replace(" ", "_"))
def test_reading_takes_linear_time(shape):
    # AUTH-27. Quadratic would be sixteen times as long for four times as much, linear is four.
    def seconds(size):
        header = filled(*NASTY[shape], size)
        return fastest(lambda: parse_challenges(header))

    # What the machine does besides makes single measurements too long, but not all of them.
    assert any(seconds(LIMIT) < 9 * seconds(LIMIT // 4) + 0.0001 for _ in range(10))


@pytest.mark.parametrize("shape", NASTY, ids=lambda name: name.replace(" ", "_"))
def test_the_parsed_length_is_bounded(shape):
    header = filled(*NASTY[shape], 100_000)
    assert len(header) > 90_000
    assert parse_challenges(header) == parse_challenges(header[:LIMIT] + ", and something else")


@pytest.mark.parametrize("last", ["scope=files", 'scope="files"', "Basic", "Negotiate YWJj"])
def test_a_challenge_cut_at_the_limit_is_not_used(last):
    def padded(size):
        """Return a header that has *last* end at *size*."""
        start = 'Bearer realm="'
        return start + "x" * (size - len(start) - len('", ') - len(last)) + '", ' + last

    assert len(padded(LIMIT)) == LIMIT
    whole, cut = read(padded(LIMIT)), read(padded(LIMIT) + "more")
    assert whole[0][1]["realm"] == cut[0][1]["realm"]
    assert len(str(whole)) > len(str(cut)) or last.startswith("Negotiate") and whole == cut
    assert all(parameters.get("scope") is None for _, parameters in cut) and "basic" not in dict(cut)


# --- writing ------------------------------------------------------------------------------------------

def test_challenges_are_written():
    assert write_challenge("Bearer", {}) == write_challenge("Bearer", {"scope": None}) == "Bearer"
    assert write_challenge("Bearer", {"error": "invalid_token", "scope": None, "realm": 'a "b" \\ c'}) == (
        'Bearer error="invalid_token", realm="a \\"b\\" \\\\ c"')
    assert write_challenge("Bearer", {"realm": ""}) == 'Bearer realm=""'


@pytest.mark.parametrize("value",
    ["a\r\nSet-Cookie: b", "a\nb", "a\rb", "a\0b", "a\x85b", "a\u2028b", "é", "\x7f", "\t"])
def test_foreign_text_does_not_end_the_line(value):
    # SEC-18
    written = write_challenge("Bearer", {"error_description": value})
    assert written.isascii() and written.isprintable() and "?" in written


@pytest.mark.parametrize("scheme, name", [
    ("Bearer\r\nX: y", "realm"), ("Bearer", "realm\r\nX: y"), ("", "realm"), ("Bearer", ""), ("Bearer x", "realm"),
    ("Bearer", 'a="b", c'), ("Bearer", "a b"), ("Bearer\n", "realm"), ("Bärer", "realm"),
])
def test_names_that_are_not_tokens_are_refused(scheme, name):
    with pytest.raises(ValueError, match="is not a name of a challenge"):
        write_challenge(scheme, {name: "x"})


NAMES = st.text(TOKEN, min_size=1, max_size=12)


@settings(max_examples=50)
@given(st.lists(st.tuples(NAMES, st.dictionaries(NAMES.map(str.lower), st.text(max_size=40), max_size=5)), min_size=1,
    max_size=4))
@example([("Bearer", {"realm": "a\r\nb", "scope": '", error="x'}), ("Basic", {}), ("DPoP", {"algs": "\\"})])
def test_written_challenges_are_parsed_back(challenges):
    header = ", ".join(write_challenge(scheme, parameters) for scheme, parameters in challenges)
    assert header.isascii() and header.isprintable()
    kept = [(scheme.lower(), {
        name: "".join(character if " " <= character <= "~" else "?" for character in value)
        for name, value in parameters.items()}) for scheme, parameters in challenges]
    assert read(header) == kept


@given(st.text(st.sampled_from(' \t\r\n,="\\aB1/@é\0'), max_size=60))
@example('a=b, c="d')
def test_whatever_comes_is_read_without_complaint(header):
    for challenge in parse_challenges(header):
        assert challenge.scheme and challenge.scheme == challenge.scheme.lower()
        assert not any("\r" in text or "\n" in text for item in challenge.parameters.items() for text in item)


@given(st.text(max_size=60))
def test_malformed_text_does_not_change_the_challenges_before_it(rubbish):
    assert read('Bearer scope="a b", realm=c, ' + rubbish)[0][1].items() >= {"scope": "a b", "realm": "c"}.items()
