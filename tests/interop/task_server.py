"""Our server with tasks, for the clients of others; over stdio, and over HTTP by ``python -m mcplite.server``."""

import mcplite

mcp = mcplite.Server("tasks for others")
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@mcp.tool()
def plain(text: str) -> str:
    return text


@mcp.tool(task="required")
def count(to: int, ctx: mcplite.Context) -> int:
    """Count, one step every twentieth of a second."""
    for number in range(to):
        ctx.task_status(f"{number} of {to}")
        ctx.sleep(0.05)
    return to


@mcp.tool(task="optional")
def either(text: str) -> str:
    """Return the text."""
    return text


@mcp.tool(task="required")
def forever(ctx: mcplite.Context) -> None:
    """Never end."""
    ctx.sleep(3600)


@mcp.tool(task="required")
def broken() -> str:
    """Fail."""
    raise mcplite.ToolError("it broke")


@mcp.tool(task="required")
def greet(ctx: mcplite.Context) -> str:
    """Ask in the middle."""
    answer = ctx.elicit("What is your name?", FORM)
    return f"Hello {answer.content['name']}" if answer.accepted else f"no name: {answer.action}"


@mcp.tool()
def confer(ctx: mcplite.Context) -> str:
    """Ask the user and the model, as tasks of the client."""
    name = ctx.elicit("What is your name?", FORM, task=True).content["name"]
    return f"{name}: {ctx.sample('Is it nice?', max_tokens=20, task=True).text}"


if __name__ == "__main__":
    mcp.run()
