"""What the library needs of a context is not part of what handlers see of it; the same holds for the server's class."""

import mcplite
from mcplite.server.handling.request_context import RequestContext

CONTEXT = """
    ask can_elicit can_elicit_url can_list_roots can_sample cancelled check_cancelled client_capabilities client_info
    close_stream critical debug elicit elicit_url elicitation_complete error extensions http info input_responses lifespan
    list_roots log meta method notice on_cancel once principal protocol_version report_progress request_id round sample sleep
    state task_id task_status token trace_context warning
"""
SERVER = """
    add_directory add_method add_notification add_prompt add_resource add_tool auth close completion debug fleet info
    instructions limits logging_handler method name observe prompt prompts_changed remove_directory remove_prompt
    remove_resource mount remove_tool resource resource_updated resources_changed revisions run run_task serve_channel sessions
    tool
    tools_changed wsgi
"""


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


def test_help_shows_what_handlers_use():
    assert public(mcplite.Context) - set(CONTEXT.split()) == set()


def test_help_shows_what_servers_are_made_with():
    # Parts that are added to the public names belong into the list; what only the library calls does not.
    assert public(mcplite.Server) - set(SERVER.split()) == set()


def test_a_handler_gets_the_context_of_its_request():
    mcp, seen = mcplite.Server("contexts"), []

    @mcp.tool
    def look(ctx: mcplite.Context) -> str:
        ctx.report_progress(1)
        seen.append(ctx)
        return ctx.method

    with mcplite.connect(mcp) as client:
        assert client.call_tool("look").text == "tools/call"
    assert isinstance(seen[0], RequestContext) and isinstance(seen[0], mcplite.Context)
