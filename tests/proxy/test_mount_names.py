"""Names of what is mounted."""


import pytest

from mcplite.proxy.mount_names import Names, model_name


@pytest.mark.parametrize("name, expected", [
    ("weather_forecast", "weather_forecast"), ("a.b c/d", "a_b_c_d"), ("ü", "_"), ("x" * 64, "x" * 64),
])
def test_names_are_those_that_models_take(name, expected):
    assert model_name(name) == expected


def test_names_that_become_equal_are_kept_apart():
    names = Names("w").named("tools", ["a.b", "a b"])
    assert sorted(names.values()) == ["a b", "a.b"] and len(names) == 2


def test_a_uri_with_the_prefix_is_one_of_the_mount():
    names = Names("My_Weather")
    assert names.own_uri("my-weather+config://x") == "config://x"
    assert names.own_uri("config://x") is None
    assert Names("").own_uri("+config://x") is None
    assert names.seen_uri("config://x") == "config://x"
    assert names.other_uri("config://x") == "my-weather+config://x" == names.seen_uri("config://x")
    names.forget_uris()
    assert not names.changes_uris
