"""What a mounted server is told of the client of a call, when calls of several clients follow each other on one connection."""

import json

import pytest

import mcplite
from mcplite.protocol.meta import CAPABILITIES, CLIENT_INFO, LOG_LEVEL
from mcplite.proxy.senders import Senders
from mcplite.revisions import NEWEST
from mcplite.types import ClientCapabilities, Implementation


class Session:
    """A client that can be asked for a form, or for nothing."""

    def __init__(self, name, asks, level=None):
        self.client_info = Implementation(name=name, version="1")
        self.client_capabilities = ClientCapabilities(elicitation={} if asks else None)
        self.client_facts = {"name": name, "asks": asks}
        self.askable = True
        self.log_level = level


class Request:
    def __init__(self, *args):
        self.session = Session(*args)
        self.client_info = self.session.client_info


def test_the_members_are_kept_for_requests_of_clients_that_say_the_same():
    senders = Senders()
    first = senders.members(Request("one", True), NEWEST, False)
    assert senders.members(Request("one", True), NEWEST, False) is first
    assert first[CLIENT_INFO]["name"] == "one" and first[CAPABILITIES] == {"elicitation": {}} and first[LOG_LEVEL] is None


@pytest.mark.parametrize("other", [("two", True), ("one", False), ("one", True, "error")])
def test_a_client_that_says_something_else_gets_members_of_its_own(other):
    senders = Senders()
    first = senders.members(Request("one", True), NEWEST, False)
    assert senders.members(Request(*other), NEWEST, False) != first
    assert senders.members(Request("one", True), NEWEST, False) == first


def test_a_request_that_may_become_a_task_declares_that():
    senders = Senders()
    plain = senders.members(Request("one", True), NEWEST, False)
    assert senders.members(Request("one", True), NEWEST, True)[CAPABILITIES] != plain[CAPABILITIES]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_calls_of_two_clients_in_turn_name_each_its_own(era):
    server = mcplite.Server("inner")

    @server.tool()
    def sender(ctx: mcplite.Context) -> list:
        return [ctx.client_info.name, ctx.can_elicit]

    hub = mcplite.Server("hub")
    hub.mount(mcplite.connect(server, era="modern"))
    one = mcplite.connect(hub, era=era, client_info=Implementation("one", "1"), elicitation_handler=lambda request: None)
    with one, mcplite.connect(hub, era=era, client_info=Implementation("two", "1")) as two:
        for _ in range(2):
            assert json.loads(one.call_tool("sender").text) == ["one", True]
            assert json.loads(two.call_tool("sender").text) == ["two", False]
    hub.close()
