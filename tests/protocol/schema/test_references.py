"""What references refer to; more of them, and their errors, are in the tests of the rules."""

import pytest

from mcplite.protocol.schema.references import BadURI, Outside, References, below, rebuilt

BASE = "https://example.com/a/main.json"
SCHEMA = {
    "$id": BASE, "x": {"y": [{"title": "by pointer"}]}, "$defs": {
        "a/b~c %": {"title": "escaped"}, "part": {"$id": "d/part.json", "title": "part", "$defs": {"p": {"title": "inner"}}},
        "anchored": {"$anchor": "here", "title": "anchored"}, "old": {"$id": "#there", "title": "old"}},
}


@pytest.mark.parametrize("reference, title", [
    ("#/x/y/0", "by pointer"), ("#/$defs/a~1b~0c%20%25", "escaped"), (BASE + "#here", "anchored"), ("#there", "old"),
    ("d/part.json", "part"), ("https://example.com/a/d/part.json#/$defs/p", "inner"), ("#/$defs/part/$defs/p", "inner"),
    ("#/x/y/1", None), ("#nowhere", None),
])
def test_parts_are_found(reference, title):
    found, _ = References(SCHEMA, False, True).find(reference, BASE)
    assert found is None if title is None else found["title"] == title


def test_references_in_a_part_are_relative_to_it():
    references = References(SCHEMA, False, False)
    part, around = references.find("d/part.json", BASE)
    inside = references.base(part, around)
    assert inside == "https://example.com/a/d/part.json"
    assert references.find("#/$defs/p", inside) == ({"title": "inner"}, inside)
    assert references.find("#there", BASE)[0] is None  # an anchor of draft-07


def test_what_is_no_part():
    references = References(SCHEMA, False, False)
    with pytest.raises(Outside) as caught:
        references.find("other.json#/x", BASE)
    assert (caught.value.uri, caught.value.fragment) == ("https://example.com/a/other.json", "/x")
    with pytest.raises(BadURI, match="is not a URI"):
        references.find("http://[", BASE)
    with pytest.raises(BadURI):
        References({"$id": BASE, "items": {"$id": "http://["}}, False, False)


def test_parts_are_rebuilt_the_innermost_first():
    schema = {"type": "a", "items": {"type": "b"}, "anyOf": [{"type": "c"}, True], "enum": [{"type": "d"}], "properties": {
        "type": {"not": {"type": "e"}}}}
    seen = []
    made = rebuilt(schema, lambda one: seen.append(one.get("type")) or {**one, "new": 1})
    assert seen == ["b", "c", "e", None, "a"]
    assert made["properties"]["type"]["not"] == {"type": "e", "new": 1} and made["enum"] == [{"type": "d"}]
    assert schema["items"] == {"type": "b"} and len(list(below(made))) == 4
