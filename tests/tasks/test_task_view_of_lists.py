"""Which tools run as tasks: from listed pages, until the list changes."""

from mcplite.tasks.task_view import TaskSupport
from mcplite.types import Tool


def tool(name, support=None):
    return Tool(name, {"type": "object"}, execution=None if support is None else {"taskSupport": support})


def test_a_tool_is_known_from_its_page_and_the_others_from_the_whole_list():
    support = TaskSupport()
    support.learn([tool("a", "required"), tool("b", "optional"), tool("c", "forbidden"), tool("d"), tool("e", "maybe")])
    assert [support.of(name, 0) for name in "abcdx"] == ["required", "optional", None, None, None]
    support.complete(0)
    assert [support.of(name, 0) for name in "abcdex"] == ["required", "optional", *["forbidden"] * 4]  # TSK-06
    assert support.of("x", 1) is None  # the list has changed meanwhile


def test_a_change_of_the_list_forgets_all():
    support = TaskSupport()
    support.learn([tool("a", "required")])
    support.complete(0)
    support.forget()
    assert support.of("a", 0) is None
