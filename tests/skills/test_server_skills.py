"""A server's skills: what its methods say of folders, what is served, and what cannot be."""

import os

import pytest

import mcplite
from mcplite.errors import InvalidParams, RegistrationError
from tests.support.skills import HEAD, TRIP, URI, digest, skill, write


def test_the_methods_answer_as_the_extension_says(client):
    listed = client.request("skills/list")
    trains = "skill://plan-a-trip/references/Trains%20%26%20buses.md"
    trip, refunds = listed["skills"]
    assert trip["uri"] == URI and trip["frontmatter"] == HEAD
    assert {one["uri"]: (one["digest"], one["size"]) for one in trip["resources"]} == {
        URI: (digest(TRIP.encode()), len(TRIP)), trains: (digest(b"Night trains."), 13),
        "skill://plan-a-trip/map.png": (digest(b"\x89PNG\r\n"), 6)}
    assert refunds["uri"] == "skill://team/billing/refunds/SKILL.md"
    assert isinstance(listed["ttlMs"], int) and listed["cacheScope"] == "public" and "nextCursor" not in listed
    assert client.request("skills/get", {"uri": URI})["skill"] == trip
    children = client.request("resources/directory/read", {"uri": "skill://plan-a-trip"})["resources"]
    assert children == [{"uri": URI, "name": "SKILL.md", "mimeType": "text/markdown"},
                        {"uri": "skill://plan-a-trip/map.png", "name": "map.png", "mimeType": "image/png"},
                        {"uri": "skill://plan-a-trip/references", "name": "references", "mimeType": "inode/directory"}]
    below = client.request("resources/directory/read", {"uri": "skill://plan-a-trip/references"})["resources"]
    assert below == [{"uri": trains, "name": "Trains & buses.md", "mimeType": "text/markdown"}]
    assert client.read_resource(trains).text == "Night trains."
    listed = {resource.uri: resource for resource in client.list_resources()}
    assert set(listed) == {URI, "skill://team/billing/refunds/SKILL.md"}
    first = listed[URI]
    assert (first.name, first.description, first.mime_type) == ("plan-a-trip", "Plans a trip.", "text/markdown")
    assert client.server_capabilities.extensions == {"io.modelcontextprotocol/skills": {"directoryRead": True}}


@pytest.mark.parametrize("method, params", [
    ("skills/get", {}), ("skills/get", {"uri": 5}), ("skills/get", {"uri": "skill://plan-a-trip"}),
    ("skills/get", {"uri": "skill://other/SKILL.md"}), ("skills/list", {"cursor": 5}),
    ("resources/directory/read", {}), ("resources/directory/read", {"uri": URI}),
    ("resources/directory/read", {"uri": "skill://plan-a-trip/other"}), ("resources/directory/read", {"uri": "skill://team"}),
    ("resources/directory/read", {"uri": "skill://plan-a-trip/../../notes.txt"}),
    ("resources/directory/read", {"uri": "skill://plan-a-trip/%2e%2e/team"}),
    ("resources/directory/read", {"uri": "file:///etc"}),
    ("resources/read", {"uri": "skill://plan-a-trip/.env"}), ("resources/read", {"uri": "skill://notes.txt"}),
    ("resources/read", {"uri": "skill://plan-a-trip/%2e%2e/notes.txt"}),
])
def test_what_the_server_does_not_have(client, method, params):
    with pytest.raises(InvalidParams):
        client.request(method, params)


def test_a_changed_file_has_its_new_digest_at_once(mcp, folder):
    with mcplite.connect(mcp) as client:
        before = client.skills.get(URI)
        write(folder, "plan-a-trip/map.png", b"another")
        write(folder, "plan-a-trip/added.md", "new")
        after = client.skills.get(URI)
        assert after.files["skill://plan-a-trip/map.png"] == (digest(b"another"), 7)
        assert set(after.files) - set(before.files) == {"skill://plan-a-trip/added.md"}
        write(folder, "plan-a-trip/SKILL.md", TRIP.replace("plan-a-trip", "other"))
        assert [skill.name for skill in client.skills.list()] == ["refunds"]
        with pytest.raises(InvalidParams, match="is not that of the folder"):
            client.skills.get(URI)


def test_many_skills_have_pages(tmp_path):
    for number in range(5):
        for name in range(400):
            write(tmp_path, f"s{number}/{name}.md", "x")
        write(tmp_path, f"s{number}/SKILL.md", skill(f"s{number}"))
    mcp = mcplite.Server("many")
    mcp.add_skills(tmp_path, prefix="a/b")
    with mcplite.connect(mcp) as client:
        assert "nextCursor" in client.request("skills/list")
        assert [one.uri for one in client.skills.list()] == [f"skill://a/b/s{number}/SKILL.md" for number in range(5)]
        assert len(client.skills.directory("skill://a/b/s0")) == 401


def test_skills_inside_of_skills(tmp_path):
    write(tmp_path, "outer/SKILL.md", skill("outer"))
    write(tmp_path, "outer/inner/SKILL.md", skill("inner"))
    mcp = mcplite.Server("nested")
    mcp.add_skills(tmp_path / "outer")
    with mcplite.connect(mcp) as client:
        outer, inner = sorted(client.skills.list(), key=lambda one: one.uri, reverse=True)
        assert {outer.uri, inner.uri} == {"skill://outer/SKILL.md", "skill://inner/SKILL.md"}


@pytest.mark.parametrize("files, message", [
    ({}, "there is no SKILL.md in"),
    ({"a/SKILL.md": "text"}, "the first line is not ---"),
    ({"a/SKILL.md": skill("b")}, "the name 'b' is not that of the folder, 'a'"),
    ({"A/SKILL.md": skill("A")}, "1 to 64 characters from a-z"),
    ({"a/SKILL.md": b"---\nname: a\ndescription: \xff\n---\n"}, "SKILL.md"),
    ({"a/SKILL.md": skill("a"), **{f"a/{number}": "" for number in range(512)}}, "a skill has at most 512 files"),
    ({"a/SKILL.md": skill("a"), "a/big": b"x" * (16 << 20)}, "16777216 bytes together"),
])
def test_folders_that_cannot_be_served(tmp_path, files, message):
    for name, content in files.items():
        write(tmp_path, name, content)
    with pytest.raises(RegistrationError) as caught:
        mcplite.Server("bad").add_skills(tmp_path)
    assert message in str(caught.value)


def test_what_is_taken(tmp_path, folder, mcp):
    with pytest.raises(RegistrationError, match="there is a skill at skill://plan-a-trip/SKILL.md already"):
        mcp.add_skills(folder)
    mcp.add_skills(folder, prefix="again")
    with pytest.raises(RegistrationError, match="is not a directory"):
        mcp.add_skills(tmp_path / "none")
    with pytest.raises(RegistrationError, match="is not a directory"):
        mcp.add_skills("")
    with pytest.raises(RegistrationError, match="without . and .."):
        mcp.add_skills(folder, prefix="team/../up")
    with pytest.raises(RegistrationError, match="another extension"):
        mcplite.Server("own", extensions={"io.modelcontextprotocol/skills": {}}).add_skills(folder)


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name != "posix", reason="needs symbolic links")
def test_links_out_of_the_folder_are_not_followed(tmp_path, folder):
    secret = write(tmp_path, "secret", "key")
    os.symlink(secret, folder / "plan-a-trip" / "link")
    os.symlink(tmp_path, folder / "plan-a-trip" / "up")
    mcp = mcplite.Server("links")
    mcp.add_skills(folder)
    with mcplite.connect(mcp) as client:
        assert not {"link", "up"} & {uri.rpartition("/")[2] for uri in client.skills.get(URI).files}
        for name in ("link", "up/secret"):
            with pytest.raises(InvalidParams):
                client.read_resource(f"skill://plan-a-trip/{name}")
