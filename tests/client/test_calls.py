"""Resources, prompts, completion and log levels."""

import threading

import pytest

import mcplite
from mcplite import revisions
from mcplite.errors import ResourceNotFound
from tests.support.fakes import LIMIT, Fake, Refusal

LEGACY = [revision.name for revision in revisions.LEGACY]
STRUCTURED = [revision.name for revision in revisions.LEGACY if revision.structured_output]


# --- resources ---------------------------------------------------------------------------------------------------


def test_a_resource_is_read():
    contents = [{"uri": "a://b", "text": "one"}, {"uri": "a://b/c", "blob": "dHdv", "mimeType": "text/plain"}]
    with Fake({"resources/read": {"contents": contents}}) as fake, fake.connect() as client:
        result = client.read_resource("a://b")
        assert result.text == "one" and result.contents[1].bytes == b"two"
        assert fake.got("resources/read")["params"] == {"uri": "a://b"}


def test_a_template_is_read_with_arguments():
    template = "weather://{city}/history{?year,all}"
    with Fake({"resources/read": {"contents": []}}) as fake, fake.connect() as client:
        for arguments, uri in (({"city": "Rom, IT"}, "weather://Rom%2C%20IT/history"),
                               ({"city": "Rome", "year": 2026, "all": True}, "weather://Rome/history?year=2026&all=true")):
            client.read_resource(template, arguments)
            assert fake.sent[-1]["params"] == {"uri": uri}
        for arguments, text in (({}, "needs a value for 'city'"), ({"city": ""}, "needs a value for 'city'"),
                                ({"city": "Rome", "yaer": 1}, "has no variable 'yaer'; it has 'city', 'year', 'all'")):
            with pytest.raises(ValueError, match=text):
                client.read_resource(template, arguments)
        assert fake.methods().count("resources/read") == 2


@pytest.mark.parametrize("code, data, uri",
                         [(-32002, {"uri": "a://x"}, "a://x"), (-32602, None, "a://b"), (-32002, None, None)])
def test_both_error_codes_mean_a_missing_resource(code, data, uri):
    with Fake({"resources/read": Refusal(code, "gone", data)}) as fake, fake.connect() as client:
        with pytest.raises(ResourceNotFound) as caught:
            client.read_resource("a://b")  # RSRC-18
        assert caught.value.code == code and caught.value.received and caught.value.uri == uri


def test_other_errors_of_reading_are_raised_unchanged():
    with Fake({"resources/read": Refusal(-32603, "broken")}) as fake, fake.connect() as client:
        with pytest.raises(mcplite.errors.InternalError):
            client.read_resource("a://b")


def test_subscribe_then_read_on_update():
    heard, uris = threading.Event(), []
    with Fake({"resources/read": {"contents": [{"uri": "a://b", "text": "new"}]}}) as fake:
        client = fake.connect(on_resource_updated=lambda uri: (uris.append(client.read_resource(uri).text), heard.set()))
        with client:
            client.subscribe_resource("a://b")
            assert fake.got("resources/subscribe")["params"] == {"uri": "a://b"}
            fake.tell("notifications/resources/updated", {"uri": "a://b"})
            assert heard.wait(LIMIT) and uris == ["new"]  # NS-15
            client.unsubscribe_resource("a://b")
            assert fake.got("resources/unsubscribe")["params"] == {"uri": "a://b"}


# --- prompts and completion -----------------------------------------------------------------------------------------


def test_arguments_of_prompts_become_strings():
    with Fake({"prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}}) as fake:
        with fake.connect() as client:
            result = client.get_prompt("p", {"a": "x", "b": 3, "c": True, "d": 1.5, "e": [1, "\u00e9"], "f": None})
            assert result.messages[0].content.text == "hi"
            assert fake.got("prompts/get")["params"] == {"name": "p", "arguments": {
                "a": "x", "b": "3", "c": "true", "d": "1.5", "e": '[1, "\u00e9"]', "f": "null"}}  # PRMT-17
            client.get_prompt("p")
            assert fake.got("prompts/get", 2)["params"] == {"name": "p", "arguments": {}}
            with pytest.raises(TypeError):
                client.get_prompt("p", {"a": object()})


@pytest.mark.parametrize("version", LEGACY)
def test_completion_in_each_revision(version):
    answer = {"completion": {"values": ["Rome", "Rouen"], "total": 5, "hasMore": True}}
    with Fake({"completion/complete": answer}, version=version) as fake, fake.connect() as client:
        result = client.complete(prompt="briefing", argument="city", value="Ro", context={"country": "IT"})
        assert result.values == ["Rome", "Rouen"] and result.completion.total == 5 and result.completion.has_more
        params = fake.got("completion/complete")["params"]
        assert params["ref"] == {"type": "ref/prompt", "name": "briefing"}
        assert params["argument"] == {"name": "city", "value": "Ro"}
        # COMP-06
        assert params.get("context") == ({"arguments": {"country": "IT"}} if version in STRUCTURED else None)
        client.complete(resource="a://{x}", argument="x", value="")
        assert fake.got("completion/complete", 2)["params"]["ref"] == {"type": "ref/resource", "uri": "a://{x}"}


def test_completion_needs_one_reference():
    with Fake() as fake, fake.connect() as client:
        for wrong in ({}, {"prompt": "p", "resource": "r"}):
            with pytest.raises(ValueError, match="prompt= or resource="):
                client.complete(argument="a", value="", **wrong)


def test_revisions_without_the_capability_may_try_to_complete():
    with Fake(version=LEGACY[0], capabilities={}) as fake, fake.connect() as client:
        assert client.complete(prompt="p", argument="a", value="").values == []  # COMP-02
    with Fake(version=LEGACY[1]) as fake, fake.connect() as client, pytest.raises(mcplite.errors.MethodNotFound):
        client.complete(prompt="p", argument="a", value="")


def test_a_level_is_set():
    with Fake() as fake, fake.connect() as client:
        client.set_log_level("warning")
        assert fake.got("logging/setLevel")["params"] == {"level": "warning"}  # LOG-03
