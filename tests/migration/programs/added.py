"""Tools and resources that are added without a decorator."""
from fastmcp import Context, FastMCP

mcp = FastMCP("plugins")


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def increase(self, by: int = 1) -> int:
        """Increase the counter."""
        self.value += by
        return self.value


counter = Counter()
mcp.add_tool(counter.increase)


@mcp.tool
async def who(ctx: Context) -> str:
    """Tell whether the request has an id."""
    return "a request" if ctx.request_id else "no request"


if __name__ == "__main__":
    mcp.run()
