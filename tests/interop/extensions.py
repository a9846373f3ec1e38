"""A server with MCP Apps and Skills, as docs/extensions.rst shows them, for other people's clients to try."""

import hashlib
from typing import Any, Dict

import mcplite

mcp = mcplite.Server("extended", extensions={"io.modelcontextprotocol/ui": {}, "io.modelcontextprotocol/skills": {}})

# --- MCP Apps: a tool with a page ----------------------------------------------------------------


@mcp.tool(meta={"ui": {"resourceUri": "ui://clock/face", "visibility": ["model", "app"]}})
def clock(city: str = "Rome") -> str:
    """Show the time."""
    return f"It is noon in {city}."


@mcp.tool
def plain() -> str:
    return "no page"


@mcp.resource("ui://clock/face", mime_type="text/html;profile=mcp-app",
              meta={"ui": {"csp": {"connectDomains": ["https://time.example.com"]}}})
def face() -> Any:
    return mcplite.types.TextResourceContents(
        uri="ui://clock/face", mime_type="text/html;profile=mcp-app", text="<!doctype html><title>Clock</title><p>Noon",
        meta={"ui": {"csp": {"connectDomains": ["https://time.example.com"]}}})


# --- Skills ----------------------------------------------------------------------------------------

SKILL = """---
name: plan-a-trip
description: Plans a trip from what the user likes.
---

Ask for the dates first.
"""


@mcp.resource("skill://plan-a-trip/SKILL.md", name="plan-a-trip", mime_type="text/markdown",
              description="Plans a trip from what the user likes.")
def plan_a_trip() -> str:
    return SKILL


def entry() -> Dict[str, Any]:
    """Return the skill as skills/list and skills/get have it."""
    uri, data = "skill://plan-a-trip/SKILL.md", SKILL.encode("utf-8")
    return {"uri": uri,
            "frontmatter": {"name": "plan-a-trip", "description": "Plans a trip from what the user likes."},
            "resources": [{"uri": uri, "digest": "sha256:" + hashlib.sha256(data).hexdigest(), "size": len(data)}]}


@mcp.method("skills/list")
def list_skills(params, ctx):
    return {"skills": [entry()], "ttlMs": 60_000, "cacheScope": "public"}


@mcp.method("skills/get")
def get_skill(params, ctx):
    if params.get("uri") != entry()["uri"]:
        raise mcplite.errors.InvalidParams(f"there is no skill at {params.get('uri')!r}")
    return {"skill": entry(), "ttlMs": 60_000, "cacheScope": "public"}


if __name__ == "__main__":
    mcp.run()
