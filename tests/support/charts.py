"""A toy extension that uses each part of the seam, on both sides; as a program, a server with it on stdio."""

import queue

import mcplite
from mcplite.extend import Extension, ListenKind

NAME = "com.example/charts"
CHANGED = "notifications/charts/changed"


class Charts(Extension):
    """The server's side."""

    identifier = NAME
    settings = {"formats": ["svg"]}
    names = {"charts/render": "chart"}

    def __init__(self):
        self.events, self.seen, self.side = [], [], None
        self.changed = ListenKind("charts", CHANGED, self.honour, self.describe)

    def capabilities(self, revision, identified):
        return {"charts": {"identified": identified}}

    def methods(self):
        return {"charts/render": self.render, "charts/old": lambda params, ctx: {}, "charts/ask": self.ask,
                "charts/redraw": self.redraw, "charts/seen": lambda params, ctx: {"seen": self.seen, "events": self.events}}

    def has_method(self, method, revision, identified):
        return method != "charts/old" or not revision.modern

    def notifications(self):
        return {"notifications/charts/shown": lambda params, session: self.seen.append([params, session is not None])}

    def render(self, params, ctx):
        if "chart" not in params:
            raise mcplite.errors.InvalidParams("params.chart must be the name of a chart")
        ctx.notify("notifications/charts/progress", {"done": 1})
        return {"svg": f"<svg>{params['chart']}</svg>", "client": ctx.extensions.get(NAME)}

    def ask(self, params, ctx):
        return ctx.session.request("charts/confirm", {"chart": params["chart"]})

    def redraw(self, params, ctx):
        key = f"charts/{params['chart']}"
        drawn = int(self.side.backend.get(key) or b"0") + 1
        self.side.backend.put(key, str(drawn).encode(), 60)
        self.side.publish(self.changed, params["chart"])

    def attach(self, side):
        self.side = side
        self.events.append("attach")

    def start(self, side):
        self.events.append("start")

    def stop(self, side):
        self.events.append("stop")

    def close(self, side):
        self.events.append("close")

    def handle_tool(self, context, entry, proceed):
        if "com.example/chart" in context.params:
            return {"resultType": "chart", "svg": f"<svg>{entry.name}</svg>"}
        result = proceed()
        return {**result, "_meta": {**result.get("_meta", {}), "com.example/tool": entry.name}}

    def lists(self, kind, entry, revision, declared):
        if kind == "tools" and entry.name == "for_charts":
            return {"_meta": {"com.example/chart": True}} if declared else None
        return {}

    def listens(self):
        return [self.changed]

    def honour(self, wanted, extensions, owner):
        if not isinstance(wanted, list):
            raise mcplite.errors.InvalidParams("params.notifications.charts must be a list of charts")
        return [chart for chart in wanted if chart != "secret"] if NAME in extensions else None

    def describe(self, chart, revision):
        return {"chart": chart, "drawn": int(self.side.backend.get(f"charts/{chart}") or b"0")}


class ChartsClient(Extension):
    """The client's side."""

    identifier = NAME
    settings = {"size": 3}
    names = {"charts/render": "chart"}
    result_types = {"chart": ["tools/call"]}

    def __init__(self, chart=False):
        self.chart, self.events, self.got = chart, [], queue.Queue()

    def methods(self):
        return {"charts/confirm": lambda params, client: {"confirmed": params["chart"], "era": client.era}}

    def notifications(self):
        return {"notifications/charts/progress": lambda params, client: self.got.put(params)}

    def params(self, method, revision):
        return {"com.example/chart": True} if self.chart and method == "tools/call" else {}

    def send_tool(self, call, proceed):
        result = proceed()
        if "svg" in result:
            return {"content": [{"type": "text", "text": result["svg"]}]}
        return {**result, "_meta": {**result.get("_meta", {}), "com.example/revision": call.revision.name}}

    def attach(self, side):
        self.events.append("attach")

    def start(self, side):
        self.events.append("start")

    def stop(self, side):
        self.events.append("stop")


def make():
    """Return a server with the extension, and that."""
    charts = Charts()
    mcp = mcplite.Server("charts", extensions=[charts])

    @mcp.tool(structured_output=False)
    def add(a: int, b: int) -> int:
        return a + b

    @mcp.tool
    def for_charts() -> str:
        return "for charts"

    return mcp, charts


if __name__ == "__main__":
    make()[0].run()
