"""A real Chromium, used as a person uses it: it is told by its debugging pipe where to go, what to click and to type.

The pipe needs no library: messages of the DevTools protocol, each of which ends with a null byte, on the descriptors 3 and 4.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LIMIT = 60
_OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--host-resolver-rules=MAP *.example 127.0.0.1", "--remote-debugging-pipe"]


class Chromium:
    """A browser with a profile of its own.

    :param folder: for the profile.
    :param options: of its command line, besides.
    """

    def __init__(self, folder, *options):
        import fcntl

        command_source, commands = os.pipe()
        events, event_sink = os.pipe()
        # Away from 3 and 4, onto which they are moved in the child.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (command_source, event_sink)]

        def wire():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [CHROMIUM, *_OPTIONS, *options, f"--user-data-dir={folder}", "about:blank"], preexec_fn=wire, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for end in (*ends, command_source, event_sink):
            os.close(end)
        #: Guards the two pipes: a thread sends a command, and reads until it has the answer.
        self._calling = threading.Lock()
        self._commands, self._events = commands, events
        self._buffer = b""
        self._number = 0
        #: What the browser has reported, by the session of its tab.
        self.reports = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(LIMIT)
        os.close(self._commands)
        os.close(self._events)

    def call(self, method, session=None, **params):
        """Send a command, and return its result."""
        with self._calling:
            return self._call(method, session, params)

    def _call(self, method, session, params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        number, until = self._number, time.monotonic() + LIMIT
        while True:
            found = self._read(until)
            if found.get("id") == number:
                if "error" in found:
                    raise AssertionError(f"{method}: {found['error']}")
                return found["result"]

    def _read(self, until):
        while b"\0" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._events], [], [], left)[0]:
                raise AssertionError("the browser did not answer")
            data = os.read(self._events, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        if "method" in message:
            self.reports.setdefault(message.get("sessionId"), []).append(message)
        return message

    def context(self):
        """Return a new context, which has cookies of its own."""
        return self.call("Target.createBrowserContext")["browserContextId"]

    def tab(self, **options):
        return Tab(self, **options)


class Tab:
    """A tab of the browser.

    :param width: of the window, in CSS pixels.
    :param scheme: what the user prefers, "light" or "dark".
    :param scripts: whether pages may run scripts.
    :param context: of :meth:`Chromium.context`, for cookies that tabs share; None for cookies of its own.
    """

    def __init__(self, browser, width=800, height=900, scheme="light", scripts=True, scale=1, context=None):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank",
                              browserContextId=context or browser.context())["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def call(self, method, **params):
        return self._browser.call(method, self._session, **params)

    @property
    def reports(self):
        """All events that the browser has told by now."""
        self.evaluate("0")
        return self._browser.reports.get(self._session, [])

    @property
    def complaints(self):
        """What the console shows: errors of the browser, refusals by a policy, exceptions."""
        return [report["params"] for report in self.reports
                if report["method"] == "Log.entryAdded" and report["params"]["entry"]["level"] != "verbose"
                or report["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")]

    @property
    def requests(self):
        """The URLs that were asked for."""
        return [report["params"]["request"]["url"] for report in self.reports
                if report["method"] == "Network.requestWillBeSent"]

    @property
    def refused(self):
        """The URLs that were answered with an error."""
        answers = [report["params"]["response"] for report in self.reports if report["method"] == "Network.responseReceived"]
        return [answer["url"] for answer in answers if answer["status"] >= 400]

    @property
    def cookies(self):
        """The cookies for the page of now."""
        return self.call("Network.getCookies")["cookies"]

    def evaluate(self, script):
        """Return the value of a script, also where pages may run none."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"]["exception"].get("description", script))
        return result["result"].get("value")

    def wait(self, condition, what):
        until = time.monotonic() + LIMIT
        while True:
            try:
                found = condition()
                if found:
                    return found
            except AssertionError:  # the page of a moment ago is gone
                if time.monotonic() > until:
                    raise
            if time.monotonic() > until:
                raise AssertionError(f"{what} did not come; the page is {self.url}: {self.text[:500]}")
            time.sleep(0.02)

    def visit(self, url):
        self.call("Page.navigate", url=url)
        self.wait(lambda: self.evaluate("document.readyState") == "complete", "the page")

    @property
    def url(self):
        return self.evaluate("location.href")

    @property
    def text(self):
        return " ".join((self.evaluate("document.body.innerText") or "").split())

    def expect(self, text):
        """Wait until the page shows a text."""
        self.wait(lambda: self.evaluate("document.readyState") == "complete" and text in self.text, repr(text))

    def expect_url(self, start):
        return self.wait(lambda: self.url if self.url.startswith(start) else None, start)

    def _node(self, selector):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        assert node, f"the page has no {selector}: {self.text[:500]}"
        return node

    def click(self, selector):
        node = self._node(selector)
        self.call("DOM.scrollIntoViewIfNeeded", nodeId=node)
        box = self.call("DOM.getContentQuads", nodeId=node)["quads"][0]
        x, y = sum(box[::2]) / 4, sum(box[1::2]) / 4
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def follow(self, selector):
        """Click what leads to another page, and wait for that page."""
        self.evaluate("document.documentElement.dataset.left = 1")
        self.click(selector)
        self.wait(lambda: self.evaluate("document.readyState === 'complete' && !document.documentElement.dataset.left"),
                  f"the page behind {selector}")

    def type(self, selector, text):
        self.call("DOM.focus", nodeId=self._node(selector))
        self.call("Input.insertText", text=text)

    def press(self, key):
        """Press a key: one with a name, such as Tab or ArrowDown, or a character."""
        codes = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " "), "Escape": (27, ""), "End": (35, ""), "Home": (36, ""),
                 "ArrowLeft": (37, ""), "ArrowUp": (38, ""), "ArrowRight": (39, ""), "ArrowDown": (40, "")}
        code, text = codes.get(key, (0, key))
        name = " " if key == "Space" else key
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=key, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, clip=None):
        """Return the page as a PNG file."""
        more = {} if clip is None else {"clip": {**clip, "scale": 1}}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])
