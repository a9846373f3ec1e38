"""Clients that call a fleet until they are told to stop, and what came of their calls."""

import collections
import itertools
import logging
import secrets
import threading
import time

import mcplite

LEGACY, MODERN = "2025-11-25", "2026-07-28"
#: The revisions of the clients, in turn.
REVISIONS = [LEGACY, MODERN]
#: Seconds for one call; a death is noticed within ten.
TIMEOUT = 60.0


def answer(request):
    """Answer the questions of ``book`` and ``survey``: with the words of the question in capitals."""
    return {"word": request.message.upper()}


def expected(key):
    """What ``book`` returns for a key."""
    return f"FIRST {key.upper()} SECOND {key.upper()}"


class Renewals(logging.Handler):
    """Counts the sessions that clients had to open again, which they say in the log."""

    _logger = logging.getLogger("mcplite.client.sessions.legacy")

    def __init__(self):
        super().__init__(logging.INFO)
        self.count = 0

    def emit(self, record):
        self.count += "a new one is opened" in record.getMessage()

    def __enter__(self):
        self._before = self._logger.level
        self._logger.setLevel(logging.INFO)
        self._logger.addHandler(self)
        return self

    def __exit__(self, *error):
        self._logger.removeHandler(self)
        self._logger.setLevel(self._before)


class Load:
    """Threads with a client each, in turn of each revision.

    :param url: of the endpoint.
    :param clients: how many.
    :param jobs: functions of a client and a new key, in turn; each returns what was wrong with the answer, or None.
    :param pause: seconds between the calls of one client.
    """

    def __init__(self, url, clients, jobs, pause=0.0):
        self._url, self._jobs, self._pause, self._name = url, jobs, pause, secrets.token_hex(4)
        #: Answers by job; wrong ones as texts; failures as (job, client, type, text); the keys of all calls.
        self.right, self.wrong, self.failed, self.keys = collections.Counter(), [], [], []
        #: Seconds of the longest call that was answered, and of the longest that failed.
        self.longest, self.slowest_failure = 0.0, 0.0
        #: Sessions that ended before their clients did.
        self.lost = 0
        self._renewals = Renewals()
        #: Guards all of these.
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self):
        self._renewals.__enter__()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._renewals.__exit__(*error)
        self.lost += self._renewals.count

    def answered(self):
        with self._lock:
            return sum(self.right.values())

    def goes_on(self, more, limit=TIMEOUT + 30):
        """Wait for so many more right answers; return whether they came."""
        wanted, end = self.answered() + more, time.monotonic() + limit
        while self.answered() < wanted and time.monotonic() < end:
            time.sleep(0.02)
        return self.answered() >= wanted

    def _connect(self, number):
        client = mcplite.connect(self._url, revision=REVISIONS[number % len(REVISIONS)], timeout=TIMEOUT, open_timeout=TIMEOUT,
                                 elicitation_handler=answer)
        return client.open()

    def _run(self, number):
        client = None
        for count in itertools.count():
            if self._stop.is_set():
                break
            job = self._jobs[(count + number) % len(self._jobs)]
            key, begun = f"{self._name}c{number}x{count}", time.monotonic()
            try:
                if client is None or client.state == "closed":
                    with self._lock:
                        self.lost += client is not None
                    client = self._connect(number)
                with self._lock:
                    self.keys.append(key)
                problem = job(client, key)
            except Exception as error:
                with self._lock:
                    self.failed.append((job.__name__, number, type(error).__name__, str(error)))
                    self.slowest_failure = max(self.slowest_failure, time.monotonic() - begun)
                self._stop.wait(0.05)
            else:
                with self._lock:
                    self.longest = max(self.longest, time.monotonic() - begun)
                    if problem is None:
                        self.right[job.__name__] += 1
                    else:
                        self.wrong.append(f"{job.__name__} of client {number}: {problem}")
                self._stop.wait(self._pause)
        if client is not None:
            client.close()


def reverse(client, key):
    said = client.call_tool("reverse", {"text": key}).text
    return None if said == key[::-1] else said


def read(client, key):
    said = client.read_resource("shop://stock").contents[0].text
    return None if said == "17" else said


def tools(client, key):
    names = {tool.name for tool in client.list_tools()}
    return None if {"reverse", "book"} <= names else str(names)


def act(client, key):
    said = client.call_tool("act", {"key": key}).text
    return None if said == key[::-1] else said


def linger(client, key):
    said = client.call_tool("linger", {"key": key}).text
    return None if said == key[::-1] else said


def book(client, key):
    result = client.call_tool("book", {"key": key})
    if result.is_error:
        raise mcplite.ToolError(result.text)
    return None if result.text == expected(key) else result.text
