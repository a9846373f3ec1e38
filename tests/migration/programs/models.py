"""Pydantic models as parameters and results."""
from typing import List, Optional

from fastmcp import FastMCP
from pydantic import BaseModel, Field

mcp = FastMCP("orders")


class Item(BaseModel):
    product: str
    quantity: int = Field(ge=1)


class Order(BaseModel):
    customer: str
    items: List[Item]
    note: Optional[str] = None


class Receipt(BaseModel):
    number: int
    total: float


@mcp.tool
def place_order(order: Order) -> Receipt:
    """Place an order."""
    return Receipt(number=7, total=2.5 * sum(item.quantity for item in order.items))


if __name__ == "__main__":
    mcp.run()
