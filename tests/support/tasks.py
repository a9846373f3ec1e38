"""A server of plain messages whose tool calls become tasks, in either generation of the protocol."""

import threading

from tests.support.fakes import ALL, LIMIT, Fake, Refusal

LEGACY, MODERN = "2025-11-25", "2026-07-28"
ERAS = [LEGACY, MODERN]
PREFIX = "io.modelcontextprotocol/"
#: What a server with tasks declares, before and since July 2026.
REQUESTED = {**ALL, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
EXTENDED = {"tools": {}, "extensions": {PREFIX + "tasks": {}}}
RESULT = {"content": [{"type": "text", "text": "done"}]}
TOOLS = [{"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
         {"name": "either", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
         {"name": "plain", "inputSchema": {"type": "object"}}]
QUESTION = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {
    "type": "object", "properties": {"name": {"type": "string"}}}}}


class TaskServer(Fake):
    """Answers each call of a tool with the task "t1".

    :param revision: which it speaks.
    :param steps: the members of the task that change with each request for its status, one step a request; the last stays.
    :param interval: what it says of how often to ask, in milliseconds; None for nothing.
    """

    def __init__(self, revision, *steps, interval=5, result=RESULT, answers=None):
        self.modern = revision == MODERN
        self.revision, self.steps, self.result = revision, list(steps), result
        names = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"} if self.modern else {}
        self.task = {"taskId": "t1", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
                     "lastUpdatedAt": "2026-01-01T00:00:00Z", names.get("ttl", "ttl"): 60_000}
        if interval is not None:
            self.task[names.get("pollInterval", "pollInterval")] = interval
        #: Set when the task has ended.
        self.ended = threading.Event()
        #: Guards the task and the steps: answers are made on threads of their own, and the test changes the task meanwhile.
        self.changing = threading.RLock()
        discovered = {"resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "private",
                      "capabilities": EXTENDED}
        listed = {"tools": TOOLS, **({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if self.modern else {})}
        super().__init__({"server/discover": discovered, "tools/list": listed, "tools/call": self.call,
                          "tasks/get": self.get, "tasks/result": self.wait_for_result, "tasks/update": self.update,
                          "tasks/cancel": self.cancel, **(answers or {})}, capabilities=REQUESTED)

    def connect(self, **options):
        return super().connect(**{"revision": self.revision, **options})

    def complete(self, result):
        return {"resultType": "complete", **result} if self.modern else result

    def change(self, **members):
        """Change the task, as its work does."""
        with self.changing:
            task = {**self.task, **members}
            if self.modern and task["status"] == "completed":
                task.setdefault("result", self.result)
            self.task = task
        if task["status"] in ("completed", "failed", "cancelled"):
            self.ended.set()

    def call(self, params):
        if self.modern:
            return {"resultType": "task", **self.task}
        if "task" not in params:
            return self.result
        return {"task": self.task}

    def get(self, params):
        assert params["taskId"] == "t1"
        with self.changing:
            step = self.steps.pop(0) if self.steps else {}
        if callable(step):
            step = step()
        if step:
            self.change(**step)
        return self.complete(self.task)

    def wait_for_result(self, params):
        assert self.ended.wait(LIMIT)
        error = self.task.get("error")
        if error is not None:
            return Refusal(error["code"], error["message"], error.get("data"))
        return {**self.result, "_meta": {PREFIX + "related-task": {"taskId": "t1"}}}

    def update(self, params):
        self.change(status="working", inputRequests=None)
        return self.complete({})

    def cancel(self, params):
        self.change(status="cancelled", statusMessage="stopped")
        return self.complete({} if self.modern else self.task)
