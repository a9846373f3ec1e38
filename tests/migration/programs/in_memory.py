"""A client of a server in the same process, as in a test."""
import asyncio

from fastmcp import Client, FastMCP

mcp = FastMCP("memory")


@mcp.tool
def multiply(a: int, b: int) -> int:
    """Multiply two integers."""
    return a * b


@mcp.resource("memory://motto")
def motto() -> str:
    return "never forget"


async def main():
    async with Client(mcp) as client:
        print([tool.name for tool in await client.list_tools()])
        result = await client.call_tool("multiply", {"a": 6, "b": 7})
        print(result.data, result.structured_content, result.is_error)
        print(len(await client.list_resources()))


if __name__ == "__main__":
    asyncio.run(main())
