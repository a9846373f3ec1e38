"""Users who log in: browsers that redirect at once, and waits for them."""

import threading
import time
from urllib.parse import parse_qs, quote, urlsplit

from mcplite.errors import Cancelled

from . import rawhttp

STATE = "St4te-of_this~login"
LIMIT = 30


def patience():
    """Return a ``wait`` that gives up when the test has failed anyway."""
    until = time.monotonic() + LIMIT

    def wait():
        assert time.monotonic() < until, "no redirect came"

    return wait


def gives_up_after(times):
    """Return a ``wait`` that gives up when it is called for the given time, counted from 0."""
    left = iter(range(times))

    def wait():
        if next(left, None) is None:
            raise Cancelled("given up")

    return wait


def login_url(visit):
    return f"https://login.example/authorize?state={STATE}&redirect_uri=" + quote(visit.redirect_uri, safe="")


def answer(visit, state=STATE):
    return f"{visit.redirect_uri}?code=c0de&state={state}"


class Surfer:
    """A browser that logs in at once and records its last page; called with the URL, like an opener.

    :param background: whether opening it returns before it has come back.
    """

    def __init__(self, state=STATE, background=True):
        self._state, self._background = state, background
        self.visited, self.reply, self._threads = [], None, []

    def __call__(self, url):
        self.visited.append(url)
        thread = threading.Thread(target=self._log_in, args=(url,))
        self._threads.append(thread)
        thread.start()
        if not self._background:
            thread.join()

    def _log_in(self, url):
        back = urlsplit(parse_qs(urlsplit(url).query)["redirect_uri"][0])
        with rawhttp.Wire(back.port) as wire:
            target = f"{back.path}?code=c0de&state={self._state}"
            self.reply = wire.send(rawhttp.request("GET", target, headers={"Host": back.netloc})).reply("GET")

    def page(self):
        """Wait until a page is shown and return it."""
        for thread in self._threads:
            thread.join(LIMIT)
        return self.reply.body.decode("utf-8")
