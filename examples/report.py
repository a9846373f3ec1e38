"""A report that takes long: a task, which goes on without its client, asks in the middle and survives a restart.

    export MCPLITE_BACKEND=sqlite:///report.db MCPLITE_STATE_KEYS=$(openssl rand -hex 16)
    python -m mcplite.server examples/report.py --http 8000

With a backend another process goes on with a task whose process has ended; without one, tasks end with their process.
"""
import time

import mcplite

mcp = mcplite.Server("report")


def read_month(year: int, month: int) -> int:
    """Stand for a query that takes long."""
    time.sleep(0.05)
    return (year * 12 + month) % 97


@mcp.tool(task="optional", restartable=True)
def yearly_report(year: int, ctx: mcplite.Context) -> str:
    """Sum up a year, month by month."""
    total = 0
    for month in range(1, 13):
        ctx.report_progress(month, 12, f"reading month {month}")  # a cancelled task ends here
        # Each month is read once, also if another process goes on with the task.
        total += ctx.once(f"month {month}", lambda month=month: read_month(year, month))
    if total > 600 and not ctx.elicit(f"The sum is {total}. Publish it?", task=True).accepted:
        return f"{year}: not published"
    return f"{year}: {total}"


if __name__ == "__main__":
    mcp.run()
