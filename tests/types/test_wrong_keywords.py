"""What the error for a wrong keyword proposes; test_signatures has the names of all public functions."""

import pytest

import mcplite
from mcplite.types.wrong_keywords import explains_keywords


@pytest.mark.parametrize("function, keyword, proposal", [
    (mcplite.connect, "headres", ". Did you mean headers=?"),
    (mcplite.connect, "cache", ". Write options=ClientOptions(cache=...)"),
    (mcplite.connect, "cach", ". Did you mean options=ClientOptions(cache=...)?"),
    (mcplite.connect_all, "timout", ". Did you mean timeout=?"),
    (mcplite.Server, "instruction", ". Did you mean instructions=?"),
    (mcplite.Server, "page_size", ". Write options=ServerOptions(page_size=...)"),
    (mcplite.Server, "sessions", ". Write limits=Limits(sessions=...)"),
    (mcplite.connect, "xyz", ""),
], ids=lambda value: getattr(value, "__name__", None))
def test_the_nearest_keyword_is_proposed(function, keyword, proposal):
    with pytest.raises(TypeError) as raised:
        function(**{keyword: 1})
    assert str(raised.value) == f"{function.__name__}() got an unexpected keyword argument {keyword!r}{proposal}"
    assert raised.value.__context__ is None


def test_other_errors_are_raised_as_they_are():
    @explains_keywords("add")
    def add(left: int, *, right: int = 0) -> int:
        return left + right

    assert add(1, right=2) == 3
    with pytest.raises(TypeError, match="unsupported operand"):
        add(1, right="x")
