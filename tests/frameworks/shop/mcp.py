"""The MCP server of the shop."""

import threading
from typing import Any, Dict, List

from django.db import connection

import mcplite
from mcplite.contrib.django import request_of

from .models import Order

mcp = mcplite.Server("shop")


@mcp.tool()
def orders() -> List[str]:
    return list(Order.objects.order_by("id").values_list("article", flat=True))


@mcp.tool()
def add(article: str, ctx: mcplite.Context) -> int:
    return Order.objects.create(article=article, user=ctx.principal.subject if ctx.principal else "").pk


@mcp.tool()
def count(ctx: mcplite.Context) -> int:
    """Count the orders, on a worker thread."""
    return Order.objects.count()


@mcp.tool()
def break_connection(ctx: mcplite.Context) -> str:
    """Break the database connection of this thread, as a restart of the database does."""
    connection.ensure_connection()
    connection.connection.close()
    return threading.current_thread().name


@mcp.tool()
def break_connection_of_request() -> str:
    connection.ensure_connection()
    connection.connection.close()
    return threading.current_thread().name


@mcp.tool()
def who(ctx: mcplite.Context) -> Dict[str, Any]:
    request = request_of(ctx)
    return {"user": request.user.get_username(), "tenant": request.tenant, "path": request.path,
            "principal": ctx.principal and ctx.principal.subject, "header": ctx.http.headers.get("X-Tenant")}


@mcp.tool()
def remote(ctx: mcplite.Context) -> str:
    return ctx.http.remote


@mcp.tool()
def streams(steps: int, ctx: mcplite.Context) -> List[int]:
    found = []
    for step in range(steps):
        found.append(Order.objects.count())
        ctx.report_progress(step + 1, steps)
        ctx.sleep(0.01)
    return found


@mcp.tool()
def order(article: str, ctx: mcplite.Context) -> str:
    """Order an article, when the user agrees."""
    before = Order.objects.count()
    action = ctx.elicit(f"Order {article}?").action
    if action == "accept":
        Order.objects.create(article=article)
    return f"{action} {Order.objects.count() - before} {request_of(ctx).tenant}"
