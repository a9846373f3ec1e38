"""Reading results as they come over the wire."""


def text_of(result):
    """Return all text of a tool's result, a line for each block."""
    return "\n".join(item["text"] for item in result["content"] if item["type"] == "text")
