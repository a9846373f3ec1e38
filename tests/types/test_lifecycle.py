from mcplite.types import ClientCapabilities, Implementation, LogMessage, Progress, ServerCapabilities


def test_the_display_name_is_the_title_or_the_name():
    assert Implementation("name", "1").display_name == "name"
    assert Implementation("name", "1", title="Title").display_name == "Title"


def test_small_types_take_their_main_fields_by_position():
    assert Progress(1, 2, "m") == Progress(progress=1, total=2, message="m")
    assert LogMessage("info", {"a": 1}, "l") == LogMessage(level="info", data={"a": 1}, logger="l")


def test_a_missing_capability_is_none():
    assert set(vars(ClientCapabilities()).values()) == {None} == set(vars(ServerCapabilities()).values())
