"""What few programs set for a server: each option is checked by name, and reaches the server."""

import dataclasses
import inspect

import pytest

import mcplite
from mcplite import Server, ServerOptions
from mcplite.errors import RegistrationError


@pytest.mark.parametrize("given, reason", [
    ({"page_size": 0}, "page_size must be at least 1"), ({"page_size": "5"}, "page_size"), ({"page_size": True}, "page_size"),
    ({"experimental": "x"}, "experimental= must be a dict"),
    ({"experimental": {"a": {1}}}, r"experimental\['a'\]: \{1\} is not"),
    ({"declare": "tools"}, r"declare= takes a list: write decl"), ({"declare": ["toys"]}, "toys"),
    ({"era": "ancient"}, "era is 'legacy', 'modern' or None for both, not 'ancient'"),
    ({"cache_lists": 60}, "cache_lists must be a dict"), ({"capabilities": "tools"}, "capabilities must be a dict"),
    ({"on_roots_changed": 5}, "on_roots_changed= must be a function"),
    ({"on_subscribe": "x"}, "on_subscribe= must be a function"),
    ({"trusted_patterns": "no"}, "trusted_patterns= must be True or False, not 'no'"),
    ({"hide_unauthorized": 1}, "hide_unauthorized= must be True or False, not 1"),
    ({"tasks": object()}, r"tasks= must be mcplite.tasks.Tasks\(...\), or a runner with a method submit"),
])
def test_options_of_a_wrong_type_are_refused_by_name(given, reason):
    with pytest.raises(RegistrationError, match=reason):
        Server("x", options=ServerOptions(**given))


@pytest.mark.parametrize("options", [{"page_size": 5}, 5, ServerOptions])
def test_options_are_an_object_of_their_own(options):
    with pytest.raises(RegistrationError, match=r"^server 'x': options= must be ServerOptions\(...\), not "):
        Server("x", options=options)


def test_an_option_is_no_keyword_of_the_server():
    keywords = set(inspect.signature(Server).parameters)
    assert len(keywords) == 20 and not keywords & {field.name for field in dataclasses.fields(ServerOptions)}


def test_options_are_shared_by_any_number_of_servers():
    options = ServerOptions(page_size=1, era="legacy")
    for name in ("one", "two"):
        server = Server(name, options=options)
        server.add_tool(lambda: None, name="a")
        server.add_tool(lambda: None, name="b")
        with mcplite.connect(server) as client:
            assert client.era == "legacy" and client.list_tools_page().next_cursor is not None
