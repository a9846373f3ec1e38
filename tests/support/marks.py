"""What a server notes for tests, in one process or in all that share a folder: what has happened, and who has served."""

import collections
import os
import threading
import time


class Marks:
    """Counts by name, kept in this process."""

    def __init__(self):
        self._counts = collections.Counter()
        #: Guards ``_counts``, and tells of new ones.
        self._told = threading.Condition()

    def add(self, name):
        """Note that something has happened; return how often it has."""
        with self._told:
            self._counts[name] += 1
            self._told.notify_all()
            return self._counts[name]

    def count(self, name):
        return self._counts[name]

    def wait(self, name, seconds):
        """Wait until it has happened; return whether it has."""
        with self._told:
            return self._told.wait_for(lambda: self._counts[name] > 0, seconds)


class SharedMarks:
    """Counts by name, kept as the sizes of files: one byte is appended for each, which is atomic."""

    def __init__(self, folder):
        self._folder = folder

    def add(self, name):
        with open(os.path.join(self._folder, name), "ab", buffering=0) as file:
            file.write(b".")
            return file.tell()

    def count(self, name):
        try:
            return os.stat(os.path.join(self._folder, name)).st_size
        except FileNotFoundError:
            return 0

    def wait(self, name, seconds):
        end = time.monotonic() + seconds
        while self.count(name) == 0 and time.monotonic() < end:
            time.sleep(0.01)
        return self.count(name) > 0


def create_marks(variable):
    """Return marks in the folder that a variable of the environment names, or marks of this process without one."""
    return SharedMarks(os.environ[variable]) if os.environ.get(variable) else Marks()


def counted(application):
    """Wrap a WSGI application: each response names its worker in a header, and the worker notes that it has served."""
    def wrapped(environ, start_response):
        with open(os.path.join(os.environ["FLEET_FOLDER"], "served"), "ab", buffering=0) as file:
            file.write(b"%d\n" % os.getpid())
        return application(environ, lambda status, headers, *error: start_response(
            status, [*headers, ("X-Worker", str(os.getpid()))], *error))

    return wrapped
