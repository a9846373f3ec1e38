import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import mcplite
from mcplite.rpc import tracing
from mcplite.rpc.tracing import RateFilter, Trace, bounded, get_logger, trace_for
from tests.support.systems import posix_only

ROOT = Path(mcplite.__file__).resolve().parent.parent

LOGGER = "mcplite.wire"
SECRET = "s3cr3t-value"


@pytest.fixture
def logger():
    """The logger of messages as in a fresh process; its state is restored afterwards."""
    logger = logging.getLogger(LOGGER)
    before = list(logger.handlers), logger.propagate, logger.level
    logger.handlers, logger.propagate = [], True
    logger.setLevel(logging.NOTSET)
    yield logger
    logger.handlers, logger.propagate = before[:2]
    logger.setLevel(before[2])


def test_a_line_has_time_name_direction_size_and_message():
    lines = []
    trace = Trace("the server", lines.append)
    trace("->", b'{"id":1}')
    trace("<-", b'{"token":"x"}')
    assert re.fullmatch(r'\d\d:\d\d:\d\d\.\d{3} the server -> 8 bytes \{"id":1\}', lines[0])
    assert lines[1].endswith(' the server <- 13 bytes {"token": "***"}')


def test_long_messages_are_cut():
    lines = []
    Trace("it", lines.append)("<-", json.dumps({"text": "x" * 5000}).encode())
    assert " 5012 bytes " in lines[0] and lines[0].endswith("x ...") and len(lines[0]) < 2100


def test_a_huge_message_is_masked_without_being_parsed(monkeypatch):
    monkeypatch.setattr(tracing.json, "loads", lambda data: pytest.fail("must not be parsed"))
    lines = []
    Trace("it", lines.append)("<-", b'{"token": "' + SECRET.encode() + b'", "text": "' + b"x" * 400_000 + b'"}')
    assert SECRET not in lines[0] and '"***"' in lines[0]


def test_bytes_that_are_not_text_are_escaped():
    lines = []
    Trace("it", lines.append)("<-", b"\xff\xfe{")
    assert "\\xff\\xfe{" in lines[0]


def test_a_line_that_cannot_be_written_does_not_keep_the_message(caplog):
    def fail(line):
        raise MemoryError

    trace = Trace("it", fail)
    trace("->", b"{}")
    trace("<-", b"{}")
    assert caplog.text.count("a message of it could not be traced") == 2


def test_a_path_names_a_file_that_is_appended_to(tmp_path):
    path = tmp_path / "wire.log"
    path.write_text("before\n")
    trace_for(str(path), "one")("->", b"{}")
    trace_for(str(path), "two")("<-", "{\"a\":\"\u00e9\"}".encode())
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 3 and lines[0] == "before" and "one ->" in lines[1] and lines[2].endswith('{"a":"\u00e9"}')


@posix_only
def test_a_trace_can_be_read_by_its_owner_only(tmp_path):
    path = tmp_path / "wire.log"
    trace_for(str(path), "it")("->", b"{}")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)
    trace_for(str(path), "it")("->", b"{}")
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_text().count("it ->") == 2


@posix_only
@pytest.mark.parametrize("kind", ["link", "pipe", "device", "folder"])
def test_a_trace_goes_into_a_regular_file(tmp_path, caplog, kind):
    path = tmp_path / "wire.log"
    (tmp_path / "other").write_text("")
    if kind == "link":
        path.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path = "/dev/null"
    trace_for(str(path), "it")("->", b"{}")
    assert "messages cannot be written to" in caplog.text and (tmp_path / "other").read_text() == ""


@posix_only
@pytest.mark.parametrize("name", ["/dev/stderr", "/dev/stdout", "/dev/fd/2", "/proc/self/fd/1"])
@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_a_trace_goes_to_a_standard_stream_by_its_name(tmp_path, name, kind):
    code = f"from mcplite.rpc.tracing import trace_for; trace_for({name!r}, 'it')('->', b'{{}}')"
    with open(tmp_path / "out", "wb+") as out:
        kept = subprocess.PIPE if kind == "pipe" else out
        ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=kept, stderr=kept, timeout=60, check=True)
        out.seek(0)
        shown = out.read() if kind == "file" else ran.stdout + ran.stderr
    assert shown.count(b"it -> 2 bytes {}") == 1 and shown.count(b"\n") == 1


def test_lines_of_many_threads_stay_whole(tmp_path):
    path = tmp_path / "wire.log"
    trace = trace_for(str(path), "it")
    threads = [threading.Thread(target=lambda: [trace("->", b'{"n":1}') for _ in range(20)]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == 100 and all(line.endswith('it -> 7 bytes {"n":1}') for line in lines)


def test_a_file_that_cannot_be_written_is_reported_once(tmp_path, caplog):
    trace = trace_for(str(tmp_path / "missing" / "wire.log"), "it")
    trace("->", b"{}")
    trace("->", b"{}")
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1 and "missing" in warnings[0].getMessage()


def test_true_writes_to_the_logger(logger, caplog):
    trace = trace_for(True, "it")
    with caplog.at_level(logging.INFO, LOGGER):
        trace("->", b'{"a":1}')
    assert [record.name for record in caplog.records] == [LOGGER]
    assert caplog.messages[0].endswith('it -> 7 bytes {"a":1}')


def test_without_a_log_handler_the_trace_goes_to_stderr(logger, monkeypatch, capsys):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(logging.getLogger("mcplite"), "handlers", [])
    trace_for(True, "it")("->", b'{"a":1}')
    trace_for(True, "it")("->", b'{"a":2}')
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert len(logger.handlers) == 1


@pytest.mark.parametrize("variable, debug, on", [
    (None, None, False), ("", None, False), ("0", None, False), ("false", None, False), ("No", None, False), ("1", None, True),
    ("true", None, True), ("YES", None, True), ("1", False, False), (None, True, True), ("0", True, True), (None, "", False),
])
def test_the_environment_variable_decides_if_debug_is_none(variable, debug, on, monkeypatch, logger):
    monkeypatch.delenv("MCPLITE_DEBUG", raising=False)
    if variable is not None:
        monkeypatch.setenv("MCPLITE_DEBUG", variable)
    logger.addHandler(logging.NullHandler())
    assert (trace_for(debug, "it") is not None) is on


def test_the_environment_variable_may_name_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MCPLITE_DEBUG", str(tmp_path / "wire.log"))
    trace_for(None, "it")("->", b"{}")
    assert (tmp_path / "wire.log").exists()


def in_a_new_process(code):
    return subprocess.run([sys.executable, "-c", f"import sys\nfrom mcplite.rpc.tracing import *\n{code}"], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=True, encoding="utf-8")


def test_a_logger_loads_the_library_with_its_first_line():
    ran = in_a_new_process("""
log = get_logger("mcplite.here")
log.debug("dropped")
log.info("dropped")
assert not log.isEnabledFor(INFO) and log.isEnabledFor(WARNING)
assert "logging" not in sys.modules
log.warning("written %d", 1)
assert "logging" in sys.modules
""")
    assert ran.stderr == "written 1\n"


def test_a_logger_follows_the_levels_of_a_program_that_uses_the_library():
    ran = in_a_new_process("""
log = get_logger("mcplite.here")
import logging
logging.basicConfig(level=logging.INFO, format="%(name)s %(funcName)s %(message)s")
def function():
    log.debug("dropped")
    log.info("written")
function()
assert log.isEnabledFor(INFO) and not log.isEnabledFor(10)
""")
    assert ran.stderr == "mcplite.here function written\n"


# --- lines of the log at a bounded rate, and a count of those held back ---------------------------


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1200.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


RATED = get_logger("test.peers")


def said(caplog):
    return [record.getMessage() for record in caplog.records]


def fail(name, error=ValueError):
    try:
        raise error(name)
    except error:
        RATED.exception("tool %r failed", name)


def test_each_cause_has_a_rate_of_its_own(caplog, clock):
    for number in range(1000):
        RATED.warning("flood %d", number)
    RATED.error("another cause")
    get_logger("test.others").warning("flood %d", 7)
    assert said(caplog) == [f"flood {number}" for number in range(10)] + ["another cause", "flood 7"]
    clock.now += 10
    RATED.warning("flood %d", 1000)
    RATED.warning("flood %d", 1001)
    assert said(caplog)[12:] == ["flood 1000 (990 more lines like this one were held back)", "flood 1001"]


@pytest.mark.parametrize(("level", "passed"), [(logging.DEBUG, 100), (logging.INFO, 10), (logging.WARNING, 10),
                                               (logging.ERROR, 10), (logging.CRITICAL, 10)])
def test_lines_for_debugging_are_not_bounded(level, passed, caplog, clock):
    caplog.set_level(logging.DEBUG, "test.peers")
    for number in range(100):
        RATED.log(level, "line %d", number)
    assert len(caplog.records) == passed


def test_few_tracebacks_of_one_place_are_written_and_then_single_lines(caplog, clock):
    for number in range(1000):
        fail(f"t{number}")
    fail("other", KeyError)
    traced = [record.getMessage() for record in caplog.records if record.exc_info]
    assert traced == [f"tool 't{number}' failed" for number in range(5)] + ["tool 'other' failed"]
    lines = [record.getMessage() for record in caplog.records if not record.exc_info]
    assert lines == [f"tool 't{number}' failed: ValueError: t{number}" for number in range(5, 15)]
    assert len(caplog.text) < 10_000
    clock.now += 60
    fail("later")
    assert caplog.records[-1].exc_info and caplog.records[-1].getMessage() == "tool 'later' failed"


def test_an_exception_without_a_text_is_logged(caplog, clock):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    for _ in range(6):
        try:
            raise Odd
        except Odd:
            RATED.exception("it failed")
    assert caplog.records[-1].getMessage() == "it failed: Odd"


@pytest.mark.parametrize("text", ["100 % sure", "%s", "%(name)s", ""])
def test_a_text_without_arguments_is_not_filled_in(text, caplog, clock):
    for _ in range(11):
        RATED.warning(text)
    clock.now += 10
    RATED.warning(text)
    assert said(caplog) == [text] * 10 + [f"{text} (1 more lines like this one were held back)"]


def test_a_line_without_an_exception_that_asks_for_a_traceback_is_a_line(caplog, clock):
    for _ in range(20):
        RATED.error("it failed", exc_info=True)
    assert len(caplog.records) == 10


def test_the_number_of_causes_is_bounded(clock):
    rates = RateFilter()
    for number in range(3000):
        rates.filter(logging.makeLogRecord({"msg": f"text {number}", "levelno": logging.WARNING}))
    assert 0 < len(rates._causes) <= 1000
    rates.clear()
    assert not rates._causes


def test_all_loggers_of_the_package_share_one_filter():
    logger = get_logger("test.shared")
    logger.warning("loaded now")
    assert logging.getLogger("test.shared").filters == [bounded]
