"""Resource templates: parameters in a URI."""
from fastmcp import FastMCP

mcp = FastMCP("weather")


@mcp.resource("weather://{city}/current")
def current(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@mcp.resource("weather://{city}/forecast{?days}")
def forecast(city: str, days: int = 3) -> str:
    """The forecast of a city."""
    return f"{days} days of rain in {city}"


@mcp.resource("files://{path*}")
def file(path: str) -> str:
    """A file in any folder."""
    return f"contents of {path}"


if __name__ == "__main__":
    mcp.run()
