"""Static tokens: compared in constant time, never shown."""

import hmac

import pytest

import mcplite
from mcplite.auth.verify import static_tokens
from mcplite.auth.verify.static_tokens import StaticTokens

ADA, BOB = "a-token-of-ada-0123456789", "a-token-of-bob-0123456789"
UNSENDABLE = "cannot be sent in a header"


def test_holders_are_given_by_name_or_as_principals():
    tokens = StaticTokens({ADA: "ada", BOB: mcplite.Principal("bob", scopes=["write"])}, scopes=["read"])
    ada, bob = tokens(ADA), tokens(BOB)
    assert (ada.subject, ada.scopes, ada.audience) == ("ada", {"read"}, mcplite.auth.ISSUED_HERE)
    assert (bob.subject, bob.scopes) == ("bob", {"write"}) and bob.audience is mcplite.auth.ISSUED_HERE
    assert tokens(ADA + "x") is None and tokens(ADA[:-1]) is None and tokens("") is None


def test_a_given_audience_is_kept():
    assert StaticTokens({ADA: mcplite.Principal("ada", audience="x")})(ADA).audience == ("x",)


def test_tokens_without_names_are_distinguished():
    assert StaticTokens(ADA)(ADA).subject == "token 1"
    several = StaticTokens([ADA, BOB])
    assert several(ADA).key != several(BOB).key


def test_each_known_token_is_compared_whichever_it_is(monkeypatch):
    # In constant time: no early exit, and only digests of equal length are compared.
    seen = []
    monkeypatch.setattr(static_tokens.hmac, "compare_digest", lambda a, b: seen.append((len(a), len(b))) or a == b)
    tokens = StaticTokens([ADA, BOB])
    for token in (ADA, BOB, "none"):
        seen.clear()
        tokens(token)
        assert seen == [(32, 32)] * 2
    assert hmac is static_tokens.hmac


@pytest.mark.parametrize("tokens, said", [
    ("short", "token number 1 has 5 characters"), ([ADA, "x" * 15], "token number 2 has 15"),
    ({"": "ada"}, UNSENDABLE),
    ("a token with blanks in it", UNSENDABLE), ("ein-schlüssel-mit-umlaut", UNSENDABLE), ([], "no token"),
    ({}, "no token"),
    ([ADA, ADA], "twice"), ({ADA: 5}, "a name or a Principal"), ([5], UNSENDABLE), ("x" * 9000, UNSENDABLE),
])
def test_unusable_tokens_are_refused_and_not_shown(tokens, said):
    with pytest.raises(ValueError, match=said) as raised:
        StaticTokens(tokens)
    for token in [tokens] if isinstance(tokens, str) else tokens:
        assert len(str(token)) < 6 or str(token) not in str(raised.value)


def test_the_repr_shows_no_token():
    tokens = StaticTokens({ADA: "ada"})
    assert repr(tokens) == "<StaticTokens of 'ada'>"
    assert ADA not in str(vars(tokens))
