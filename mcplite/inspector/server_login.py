"""The login of an inspected server, step by step: the walk of ``mcplite doctor``, and in it the user's login in another tab.

::

    running ── login: the user is asked ──> running, with the URL to open ──> done or failed

The login is stored where ``mcplite login`` stores it, so that all commands have it from then on.
"""

import argparse
import io
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..auth.login.user_agent import Browser, UserAgent, Visit
from ..cli.doctor import examine
from ..cli.doctor_rules import RULES, Finding
from ..cli.login import Stored
from ..errors import AuthError, MCPError
from ..protocol.error_text import printable
from ..rpc.threads import start_thread
from .page_questions import InspectorError

__all__ = ["NO_STEPS", "ServerWalk"]

#: Seconds that a person has for a login, and seconds that :meth:`ServerWalk.end` waits for the thread at most.
_LOGIN_SECONDS, _END_SECONDS = 300.0, 30.0
_STATES = {"ok": "good", "note": "note", "warning": "note", "error": "fault"}
#: The walk of a server that is started here.
NO_STEPS = {"login": False, "state": "done", "url": None, "error": None, "steps": [
    {"title": "connection", "state": "note", "advice": "",
     "text": "a server that is started here has no login, and no steps to walk"}]}


def _step(finding: Finding) -> Dict[str, Any]:
    rule = RULES.get(finding.code)
    advice = ""
    if rule is not None:
        clients = [("mcplite", rule.mcplite), ("Python SDK", rule.python), ("TypeScript SDK", rule.typescript)]
        if rule.mcplite == rule.python == rule.typescript:
            clients = [("All clients", rule.mcplite)]
        advice = "\n".join([rule.rule, *(f"{name}: {text}" for name, text in clients if text)])
    return {"title": finding.step, "state": _STATES.get(finding.severity, "note"), "text": finding.text, "advice": advice}


class ServerWalk:
    """One walk through a server behind a URL, on a thread of its own, which ends with the walk or with :meth:`end`.

    :param url: of the server.
    :param headers: sent with each request to the server.
    :param login: whether the user logs in on the way.
    :param told: called with the members of the event ``walk`` after each change: the first time by the caller's thread, then by
        the thread of the walk.
    :param logged_in: called by the thread of the walk when a login has ended well.
    :raises InspectorError: a header cannot be given to the doctor.
    """

    def __init__(self, url: str, headers: Mapping[str, str], login: bool, told: Callable[[Mapping[str, Any]], object],
                 logged_in: Callable[[], object]) -> None:
        for name, value in headers.items():
            if "${" in value:  # the doctor would fill in a variable of the environment there
                raise InspectorError(f"the header {name!r} has a value with '${{', with which the steps cannot be walked")
        self._options = argparse.Namespace(header=[f"{name}: {value}" for name, value in headers.items()], register=False,
                                           login=login, no_browser=True, timeout=_LOGIN_SECONDS)
        self._url, self._told, self._logged_in = url, told, logged_in
        self.login = login
        self._findings: List[Finding] = []
        #: Set by any thread. The thread of the walk looks at it after each finding, and while it waits for the user.
        self._stopping = threading.Event()
        self.over = False
        self._tell("running")
        self._thread = start_thread(self._run, "mcplite inspector walks")

    def _tell(self, state: str, url: Optional[str] = None, error: Optional[str] = None) -> None:
        self._told({"login": self.login, "state": state, "url": url, "error": error,
                    "steps": [_step(finding) for finding in self._findings]})

    def _run(self) -> None:
        try:
            agent = _PageAgent(lambda url: self._tell("running", url), self._check)
            examine(self._url, self._options, self._found, agent, Stored(self._url).store if self.login else None)
            error = self._problem() if self.login else None
        except (MCPError, ValueError) as failure:
            error = printable(str(failure))[:2000]
        self.over = True
        self._tell("done" if error is None else "failed", error=error)
        if self.login and error is None:
            self._logged_in()

    def _found(self, finding: Finding) -> None:
        self._check()
        self._findings.append(finding)
        self._tell("running")

    def _check(self) -> None:
        if self._stopping.is_set():
            raise AuthError("the walk was stopped")

    def _problem(self) -> Optional[str]:
        """Return why the login has failed; None if it has not, or if the server needs none."""
        failed = [finding.text for finding in self._findings if finding.code == "login-failed"]
        if any(finding.step == "login" for finding in self._findings):
            return failed[0] if failed else None
        errors = [finding.text for finding in self._findings if finding.severity == "error"]
        return errors[-1] if errors else None

    def end(self) -> None:
        """Stop the walk, and return when its thread has ended, or after ``_END_SECONDS``."""
        self._stopping.set()
        self._thread.join(_END_SECONDS)


class _PageAgent(UserAgent):
    """Uses the browser that shows the page: the page opens the URL, and the login redirects to a port of this machine.

    :param show: called with the URL that the page has to open.
    :param check: called again and again while the login waits; it ends the login by raising an error.
    """

    def __init__(self, show: Callable[[str], object], check: Callable[[], None]) -> None:
        self._browser, self._check = Browser(lambda url: show(url) is None, out=io.StringIO()), check

    def begin(self, preferred: Optional[str], server: str) -> Visit:
        return _PageVisit(self._browser.begin(preferred, server), self._check)


class _PageVisit(Visit):
    def __init__(self, visit: Visit, check: Callable[[], None]) -> None:
        super().__init__(visit.redirect_uri)
        self._visit, self._check = visit, check

    def ask(self, url: str, state: str, check: Callable[[], object]) -> str:
        def checked() -> None:
            self._check()
            check()

        return self._visit.ask(url, state, checked)

    def succeeded(self) -> None:
        self._visit.succeeded()

    def failed(self, text: str) -> None:
        self._visit.failed(text)

    def close(self) -> None:
        self._visit.close()
