"""Loading a document, and where its references may lead."""

import datetime
import json
import sys

import pytest

from mcplite.errors import RegistrationError
from mcplite.openapi.document import Document, parse

from .conftest import document

YAML = """
openapi: 3.0.0
info: {title: Shop, version: 2024-01-01}
paths:
  /things:
    get:
      responses:
        200: {description: fine}
components:
  schemas:
    one: &one {type: string}
    two: *one
"""


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


@pytest.mark.parametrize("head, version", [
    ({"openapi": "3.0.3"}, "3.0"), ({"openapi": "3.1.0"}, "3.1"), ({"openapi": "3.2.0"}, "3.1"), ({"swagger": "2.0"}, "2"),
    ({"swagger": 2.0}, "2")])
def test_the_version(head, version):
    assert Document({**head, "paths": {}}).version == version


@pytest.mark.parametrize("spec", [{}, {"openapi": "4.0"}, {"swagger": "1.2"}, {"openapi": "3.0.0", "paths": []}])
def test_what_is_no_document(spec):
    with pytest.raises(RegistrationError, match="OpenAPI|paths"):
        Document(spec)


def test_what_json_cannot_carry_is_left_out_of_a_dict_and_of_a_file():
    made = Document({"openapi": "3.0.0", "paths": {}, 200: (1, float("nan"), datetime.date(2024, 1, 1))}).root
    assert made["200"] == [1, None, "2024-01-01"]
    assert parse(b'{"a": [NaN, -Infinity, 1e999, 1.5]}', "x.json") == {"a": [None, None, None, 1.5]}


def test_a_file_of_json(tmp_path):
    assert Document(write(tmp_path / "api.json", document({}))).root["info"]["title"] == "Shop"


def test_a_file_of_yaml(tmp_path):
    pytest.importorskip("yaml")
    loaded = Document(str(write(tmp_path / "api.yaml", YAML)))
    assert loaded.root["info"]["version"] == datetime.date(2024, 1, 1).isoformat()
    assert list(loaded.root["paths"]["/things"]["get"]["responses"]) == ["200"]
    assert loaded.root["components"]["schemas"]["two"] == {"type": "string"}


@pytest.mark.parametrize("written, read", [
    ("[on, off, auto]", ["on", "off", "auto"]), ("[NO, SE, yes, n]", ["NO", "SE", "yes", "n"]),
    ("[true, False]", [True, False]), ("[null, ~, NULL]", [None, None, None]),
    ("[010, 12:30, 1_000]", ["010", "12:30", "1_000"]),
    ("[0, -7, +7, 0o17, 0x1F]", [0, -7, 7, 15, 31]), ("[1.5, .5, 1e3, -2., .inf]", [1.5, 0.5, 1000.0, -2.0, None]),
    ("[2024-01-01, =, '1', 1.2.3]", ["2024-01-01", "=", "1", "1.2.3"]), ("", None), ("{on: 1, no: 2}", {"on": 1, "no": 2})])
def test_scalars_of_yaml_are_those_of_version_1_2(written, read):
    pytest.importorskip("yaml")
    assert parse(f"a: {written}".encode(), "x") == {"a": read}


@pytest.mark.parametrize("version", ["1.0", "1.10", "2", "2024-01-01"])
def test_the_version_of_an_api_is_a_text_without_quotes_too(version):
    pytest.importorskip("yaml")
    assert parse(f"info: {{version: {version}}}".encode(), "x") == {"info": {"version": version}}


def test_yaml_merges_a_mapping():
    pytest.importorskip("yaml")
    assert parse(b"a: &a {x: 1}\nb: {<<: *a, y: 2}", "x")["b"] == {"x": 1, "y": 2}


@pytest.mark.parametrize("text, made", [
    ("", None), ("# a remark", None), ("just a text", "just a text"), ("- info", ["info"]), ("info: 3", {"info": 3}),
    ("info: {version: }", {"info": {"version": None}}), ("info: {version: [1]}", {"info": {"version": [1]}})])
def test_yaml_of_other_forms(text, made):
    pytest.importorskip("yaml")
    assert parse(text.encode(), "x") == made


def test_a_number_of_yaml_that_is_none():
    pytest.importorskip("yaml")
    with pytest.raises(RegistrationError, match="neither JSON nor YAML"):
        parse(b"a: !!int x", "x.yaml")


def test_yaml_that_contains_itself(tmp_path):
    pytest.importorskip("yaml")
    made = parse(b"a: &a [1, *a]", "x")
    assert made["a"][1] is made["a"]


def test_yaml_makes_no_objects(tmp_path):
    pytest.importorskip("yaml")
    with pytest.raises(RegistrationError, match="neither JSON nor YAML"):
        parse(b"!!python/object/apply:os.getcwd []", "x.yaml")


def test_yaml_without_its_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(RegistrationError, match="pip install PyYAML"):
        parse(b"openapi: 3.0.0", "x.yaml")


@pytest.mark.parametrize("data, words", [
    (b'{"openapi": ', "not JSON"), (b"\xff\xfe\x00", "not UTF-8"), (b"[" * 100_000, "JSON|deep")])
def test_what_cannot_be_read(data, words):
    with pytest.raises(RegistrationError, match=words):
        parse(data, "x.json")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(RegistrationError, match="cannot be read"):
        Document(tmp_path / "none.json")


@pytest.mark.parametrize("reference, found", [
    ("#/components/schemas/a~1b", 1), ("#/components/schemas/c~0d", 2), ("#/components/schemas/e%20f", 3),
    ("#/components/schemas/100%25", 4), ("#/list/1", 6)])
def test_pointers(reference, found):
    spec = document({}, list=[5, 6], components={"schemas": {"a/b": 1, "c~d": 2, "e f": 3, "100%25": 4}})
    assert Document(spec).resolve({"$ref": reference}, "")[0] == found


@pytest.mark.parametrize("reference, words", [
    ("#/components/schemas/None", "leads to nothing"), ("#/circle/a", "in a circle"), ("#anchor", "no pointer"),
    ("other.json#/a", "a dict has no place")])
def test_references_that_lead_nowhere(reference, words):
    spec = document({}, circle={"a": {"$ref": "#/circle/b"}, "b": {"$ref": "#/circle/a"}})
    with pytest.raises(RegistrationError, match=words):
        Document(spec).resolve({"$ref": reference}, "")


def test_a_reference_to_another_file_is_relative_to_its_own(tmp_path):
    write(tmp_path / "deep" / "pet.json", {"Pet": {"$ref": "kinds.json#/Kind"}})
    write(tmp_path / "deep" / "kinds.json", {"Kind": {"$ref": "../shared.json"}})
    write(tmp_path / "shared.json", {"type": "integer"})
    loaded = Document(write(tmp_path / "api.json", document({})))
    node, place = loaded.resolve({"$ref": "deep/pet.json#/Pet"}, loaded.location)
    assert node == {"type": "integer"} and place.endswith("shared.json")


@pytest.mark.parametrize("reference", ["../secret.json", "deep/../../secret.json", "%2e%2e/secret.json",
                                       "/etc/hostname", "file:///etc/hostname", "http://127.0.0.1:1/x.json", "link.json"])
def test_a_file_outside_of_the_folder_is_not_read(tmp_path, reference):
    write(tmp_path / "secret.json", {"a": 1})
    loaded = Document(write(tmp_path / "docs" / "api.json", document({})))
    try:
        (tmp_path / "docs" / "link.json").symlink_to(tmp_path / "secret.json")
    except OSError:
        pytest.skip("no symbolic links")
    with pytest.raises(RegistrationError, match="leads out of the document's folder"):
        loaded.resolve({"$ref": reference + "#/a"}, loaded.location)


def fetched(files):
    asked = []

    def fetch(url):
        asked.append(url)
        return json.dumps(files[url]).encode("utf-8")

    return fetch, asked


def test_a_url_and_a_reference_of_its_origin():
    files = {"https://a.example/v1/api.json": document({}), "https://a.example/v1/pet.json": {"Pet": 1}}
    fetch, asked = fetched(files)
    loaded = Document("https://a.example/v1/api.json", fetch)
    assert [loaded.resolve({"$ref": "pet.json#/Pet"}, loaded.location)[0] for _ in range(2)] == [1, 1]
    assert asked == list(files)


@pytest.mark.parametrize("reference", ["https://b.example/x.json", "//b.example/x.json", "http://a.example/x.json",
                                       "https://a.example:8443/x.json"])
def test_a_reference_to_another_origin_is_not_loaded(reference):
    fetch, asked = fetched({"https://a.example/api.json": document({})})
    loaded = Document("https://a.example/api.json", fetch)
    with pytest.raises(RegistrationError, match="another origin"):
        loaded.resolve({"$ref": reference}, loaded.location)
    assert len(asked) == 1
