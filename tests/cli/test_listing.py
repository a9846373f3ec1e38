"""``list`` and ``describe``: what a search finds, and which definitions a name stands for."""

import argparse
from typing import Annotated

import pytest

import mcplite
from mcplite.cli import listing
from mcplite.cli.listing import chosen, fitting
from mcplite.cli.parser import UsageError
from mcplite.types import Prompt, Resource, Tool


def test_a_name_may_be_of_several_kinds():
    found = {"tools": [Tool("a", {}), Tool("b", {})], "prompts": [Prompt("a")], "resources": [Resource("n://a", "b")]}
    assert {kind: len(items) for kind, items in chosen(found, "a").items()} == {"tools": 1, "prompts": 1}
    assert list(chosen(found, "n://a")) == ["resources"] and list(chosen(found, "b")) == ["tools", "resources"]
    with pytest.raises(UsageError, match="it offers nothing"):
        chosen({}, "a")


@pytest.mark.one_python
@pytest.mark.parametrize("words, found", [
    ("send mails", ["send_mail", "post"]), ("Fast", ["letters://fast"]), ("receiver", ["compose"]),
    ("zebra", ["nothing of this server has a word of 'zebra'; list without --search shows all"])])
def test_a_search_lists_what_has_a_word_of_it_the_best_first(words, found, capsys):
    server = mcplite.Server("post")
    server.tool(name="post", description="A mail to all.", structured_output=False)(lambda text: text)
    server.tool(name="send_mail", description="Send it.", structured_output=False)(lambda to: to)
    server.resource("letters://fast", name="letters")(lambda: "")

    @server.prompt()
    def compose(to: Annotated[str, "The receiver."] = "") -> str:
        return to

    with mcplite.connect(server) as client:
        assert listing.show_lists(client, [], argparse.Namespace(json=False, search=words)) == 0
    shown = capsys.readouterr().out.splitlines()[1:]
    assert [line.split("(")[0].strip() for line in shown if line.strip() and not line.endswith(":")] == found


def test_a_search_without_a_word_says_what_to_write():
    with pytest.raises(UsageError, match="give some words, such as --search 'send mail'"):
        fitting({}, "-")
