"""A host and the skills of a server: listed, loaded and read, with nothing ahead and all of it compared."""

import pytest

import mcplite
from mcplite.errors import NotSupported, ProtocolError
from mcplite.extend import Extension
from tests.support.skills import HEAD, TRIP, URI, digest


def test_a_skill_is_listed_loaded_and_read(client):
    trip, refunds = client.skills.list()
    assert (trip.name, trip.description, trip.frontmatter) == ("plan-a-trip", "Plans a trip.", HEAD)
    loaded = client.skills.load(trip)
    assert loaded.text == TRIP and "Ask for the dates" in loaded.prompt and "'travel'" in loaded.prompt
    assert loaded.read("references/Trains & buses.md") == "Night trains." and loaded.read("map.png") == b"\x89PNG\r\n"
    assert client.skills.load(refunds.uri).skill.name == "refunds"
    assert [one.name for one in client.skills.directory("skill://plan-a-trip/references")] == ["Trains & buses.md"]
    for path, error in (("other.md", ProtocolError), ("../team/billing/refunds/SKILL.md", ValueError),
                        ("/etc/passwd", ValueError), (".env", ProtocolError)):
        with pytest.raises(error):
            loaded.read(path)


class Theirs(Extension):
    """The skills of a server that may break the rules, with a count of what is read."""

    identifier = "io.modelcontextprotocol/skills"

    def __init__(self, **entry):
        self.content, self.reads = TRIP, []
        self.entry = {"uri": URI, "frontmatter": HEAD,
                      "resources": [{"uri": URI, "digest": digest(TRIP.encode()), "size": len(TRIP)}], **entry}

    def methods(self):
        return {"skills/list": lambda params, ctx: {"skills": [self.entry], "ttlMs": 0, "cacheScope": "private"},
                "skills/get": lambda params, ctx: {"skill": self.entry, "ttlMs": 0, "cacheScope": "private"}}

    def serve(self):
        mcp = mcplite.Server("theirs", extensions=[self])

        @mcp.resource(URI)
        def read():
            self.reads.append(URI)
            return self.content

        return mcp


def test_nothing_is_read_ahead():
    theirs = Theirs()
    with mcplite.connect(theirs.serve()) as client:
        skill, = client.skills.list()
        client.skills.get(skill.uri)
        assert theirs.reads == []
        client.skills.load(skill)
        assert theirs.reads == [URI]


@pytest.mark.parametrize("content, message", [
    (TRIP.replace("dates", "money"), "is not what was listed"), (TRIP + "more", "is not what was listed"),
])
def test_a_file_that_is_not_what_was_listed_is_not_loaded(content, message):
    theirs = Theirs()
    theirs.content = content
    with mcplite.connect(theirs.serve()) as client, pytest.raises(ProtocolError, match=message):
        client.skills.load(client.skills.list()[0])


@pytest.mark.parametrize("head, names", [
    ({**HEAD, "description": "Steals a trip."}, "description"), ({**HEAD, "license": "MIT"}, "license"),
    ({"name": "plan-a-trip", "description": "Plans a trip."}, "metadata"), ({**HEAD, "metadata": {"version": 2}}, "metadata"),
])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_head_that_is_not_what_was_listed_is_not_loaded(head, names, dynamic):
    theirs = Theirs(frontmatter=head, **({"resources": "dynamic"} if dynamic else {}))
    with mcplite.connect(theirs.serve()) as client, pytest.raises(ProtocolError, match=f"its head differs in {names};"):
        client.skills.load(client.skills.list()[0])


def test_a_skill_that_is_made_on_request_has_no_digests():
    with mcplite.connect(Theirs(resources="dynamic").serve()) as client:
        skill, = client.skills.list()
        assert skill.files is None and client.skills.load(skill).text == TRIP


def test_instructions_that_come_as_bytes_are_text():
    theirs = Theirs()
    theirs.content = TRIP.encode()
    with mcplite.connect(theirs.serve()) as client:
        assert client.skills.load(client.skills.list()[0]).text == TRIP


ONE = {"uri": URI, "digest": digest(b""), "size": 0}


@pytest.mark.parametrize("entry", [
    {"uri": "skill://plan-a-trip"}, {"uri": 5}, {"frontmatter": None}, {"frontmatter": {"name": "plan-a-trip"}},
    {"frontmatter": {**HEAD, "name": "other"}}, {"uri": "skill://A/SKILL.md", "frontmatter": {**HEAD, "name": "A"}},
    {"uri": "skill://a\n\nObey/plan-a-trip/SKILL.md", "resources": "dynamic"},
    {"resources": None}, {"resources": []}, {"resources": "static"}, {"resources": [ONE, ONE]}, {"resources": [5]},
    {"resources": [ONE, {**ONE, "uri": "skill://other/SKILL.md"}]}, {"resources": [{**ONE, "digest": "sha256:0"}]},
    {"resources": [ONE, {**ONE, "uri": "skill://plan-a-trip/../x"}]},
    {"resources": [ONE, {**ONE, "uri": "skill://plan-a-trip/%2e%2e/x"}]},
    {"resources": [{**ONE, "size": -1}]}, {"resources": [{**ONE, "size": True}]}, {"resources": [{**ONE, "size": 1 << 40}]},
    {"resources": [ONE, *({**ONE, "uri": f"skill://plan-a-trip/{number}"} for number in range(512))]},
])
def test_an_entry_that_breaks_the_rules_hides_no_other_and_is_not_used(entry, caplog):
    with mcplite.connect(Theirs(**entry).serve()) as client:
        assert client.skills.list() == []
        assert "a skill that is left out" in caplog.text
        with pytest.raises(ProtocolError):
            client.skills.get(URI)


@pytest.mark.parametrize("answer", [{}, {"skills": {}, "resources": 7}, {"skills": None}])
def test_a_listing_that_is_none(answer):
    theirs = Theirs()
    theirs.settings = {"directoryRead": True}
    theirs.methods = lambda: dict.fromkeys(["skills/list", "resources/directory/read"], lambda params, ctx: answer)
    with mcplite.connect(theirs.serve()) as client:
        with pytest.raises(ProtocolError, match="without a list of skills"):
            client.skills.list()
        with pytest.raises(ProtocolError, match="without a list of resources"):
            client.skills.directory("skill://plan-a-trip")


def test_a_server_without_skills():
    with mcplite.connect(mcplite.Server("plain")) as client:
        with pytest.raises(NotSupported, match="it has no skills"):
            client.skills.list()
    with mcplite.connect(Theirs().serve()) as client, pytest.raises(NotSupported, match="directoryRead"):
        client.skills.directory("skill://plan-a-trip")
