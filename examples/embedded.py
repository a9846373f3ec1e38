"""A server inside an ordinary script: no child process, no network; the script is its own client.

    python examples/embedded.py
"""
import time
from typing import Dict, List

import mcplite

orders: List[Dict[str, object]] = [
    {"id": 1, "item": "tea", "paid": True},
    {"id": 2, "item": "coffee", "paid": False},
]

mcp = mcplite.Server("shop")


@mcp.tool()
def unpaid() -> List[Dict[str, object]]:
    """List the orders that are not paid."""
    return [order for order in orders if not order["paid"]]


@mcp.tool()
def ship(ctx: mcplite.Context) -> int:
    """Ship all paid orders; return their number."""
    paid = [order for order in orders if order["paid"]]
    for number, order in enumerate(paid, 1):
        time.sleep(0.01)  # a handler may block; other calls do not wait for it
        ctx.report_progress(number, len(paid), f"shipped {order['item']}")
    return len(paid)


def main() -> None:
    """Use the server through a client in this process: the same messages, without a wire."""
    with mcplite.connect(mcp) as client:
        print([tool.name for tool in client.list_tools()])
        print(client.call_tool("unpaid").structured_content)
        orders[1]["paid"] = True  # the script and the tools share their data
        result = client.call_tool("ship", on_progress=lambda step: print(step.message))
        print(result.text, "shipped;", "unpaid() is still a plain function:", unpaid())


if __name__ == "__main__":
    main()
