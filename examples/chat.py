"""Chat with a language model that may use a server's tools.

    ANTHROPIC_API_KEY=... python examples/chat.py python examples/weather.py

Reads questions from stdin, one in a line, and asks before each tool call. CHAT_API and CHAT_MODEL choose
another endpoint and model. The endpoint takes messages in the form of Anthropic's API.
"""
import os
import sys
from typing import Any, Dict, List

import requests

import mcplite

API = os.environ.get("CHAT_API", "https://api.anthropic.com/v1/messages")
MODEL = os.environ.get("CHAT_MODEL", "claude-sonnet-4-5")


def ask_model(messages: List[Dict[str, Any]], tools: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Send the conversation so far; return the model's message."""
    headers = {"x-api-key": os.environ.get("ANTHROPIC_API_KEY", ""), "anthropic-version": "2023-06-01"}
    body = {"model": MODEL, "max_tokens": 1000, "messages": messages, "tools": tools}
    answer = requests.post(API, json=body, headers=headers, timeout=120)
    answer.raise_for_status()
    return answer.json()


def use_tool(client: mcplite.Client, name: str, arguments: Dict[str, Any]) -> Dict[str, Any]:
    """Call a tool if the user agrees; return the text for the model."""
    if input(f"[{name} {arguments}] allow? (y/n) ").strip().lower() != "y":
        return {"content": "The user did not allow this call.", "is_error": True}
    result = client.call_tool(name, arguments)
    return {"content": result.text, "is_error": bool(result.is_error)}


def main(command: List[str]) -> None:
    """Start the server and talk until stdin ends."""
    with mcplite.connect(command) as client:
        tools = [{"name": tool.name, "description": tool.description or "", "input_schema": tool.input_schema}
                 for tool in client.list_tools()]
        messages: List[Dict[str, Any]] = []
        for line in iter(sys.stdin.readline, ""):
            messages.append({"role": "user", "content": line.strip()})
            while messages[-1]["role"] == "user":
                reply = ask_model(messages, tools)["content"]
                messages.append({"role": "assistant", "content": reply})
                print("\n".join(block["text"] for block in reply if block["type"] == "text"), flush=True)
                answers = [{"type": "tool_result", "tool_use_id": block["id"],
                            **use_tool(client, block["name"], block["input"])}
                           for block in reply if block["type"] == "tool_use"]
                messages.extend([{"role": "user", "content": answers}] if answers else [])


if __name__ == "__main__":
    main(sys.argv[1:])
