"""Questions to the client's model, as FastMCP 2 and 3 spell them."""
from fastmcp import Context, FastMCP

mcp = FastMCP("summarizer")


@mcp.tool
async def summarize(text: str, ctx: Context) -> str:
    """Summarize a text."""
    reply = await ctx.sample(f"Summarize: {text}", system_prompt="Be brief.", temperature=0.2, max_tokens=50)
    return reply.text


if __name__ == "__main__":
    mcp.run()
