"""Chat with a language model that may use a server's tools, and see their images.

    ANTHROPIC_API_KEY=... python examples/chat.py python examples/weather.py

Reads questions from stdin, one in a line, and asks before each tool call. CHAT_API and CHAT_MODEL choose
another endpoint and model. The endpoint takes messages in the form of Anthropic's API.
"""
import os
import sys
from typing import Any, Callable, Dict, List

import requests

import mcplite
from mcplite import llm

API = os.environ.get("CHAT_API", "https://api.anthropic.com/v1/messages")
MODEL = os.environ.get("CHAT_MODEL", "claude-sonnet-5-5")


def ask_model(messages: List[Dict[str, Any]], tools: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Send the conversation so far; return the model's message."""
    headers = {"x-api-key": os.environ.get("ANTHROPIC_API_KEY", ""), "anthropic-version": "2023-06-01"}
    body = {"model": MODEL, "max_tokens": 1000, "messages": messages, "tools": tools}
    answer = requests.post(API, json=body, headers=headers, timeout=120)
    if not answer.ok:
        raise SystemExit(f"{API} refused the request for {MODEL}: {answer.status_code} {answer.text[:500]}")
    return answer.json()


def approve(method: str, params: Dict[str, Any], proceed: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
    """Ask the user before a tool is called; the model reads why it was not."""
    if method == "tools/call":
        print(f"[{params['name']} {params['arguments']}] allow? (y/n) ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "y":  # also at the end of stdin
            raise mcplite.ToolError("The user did not allow this call.")
    return proceed()


def main(command: List[str]) -> None:
    """Start the server and talk until stdin ends."""
    if not command:
        sys.exit("usage: python examples/chat.py COMMAND ...    such as: python examples/weather.py")
    with mcplite.connect(command, middleware=[approve]) as client:
        kit = llm.anthropic_tools(client)
        messages: List[Dict[str, Any]] = []
        for line in iter(lambda: print("> ", end="", file=sys.stderr, flush=True) or sys.stdin.readline(), ""):
            messages.append({"role": "user", "content": line.strip()})
            while messages[-1]["role"] == "user":
                reply = ask_model(messages, kit.tools)
                messages.append({"role": "assistant", "content": reply["content"]})
                print("\n".join(block["text"] for block in reply["content"] if block["type"] == "text"), flush=True)
                messages += kit.answers(reply)  # runs the calls that the model asks for; images are kept


if __name__ == "__main__":
    main(sys.argv[1:])
