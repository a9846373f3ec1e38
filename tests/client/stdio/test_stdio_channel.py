import gc
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading

import psutil
import pytest

import mcplite
from mcplite.client.stdio import stdio_channel as channel_module
from mcplite.client.stdio.stdio_channel import ChildChannel
from mcplite.errors import ConnectionClosed, InternalError, ProtocolError, RequestTimeout
from mcplite.protocol.framing import CutLine
from tests.support import children
from tests.support.systems import posix_only, wine_fault

LIMIT, alive, receive, script, send, wait_until = (
    children.LIMIT, children.alive, children.receive, children.script, children.send, children.wait_until)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(mcplite.__file__)))


@pytest.fixture
def start():
    channels = []

    def start(body, *arguments, **options):
        options.setdefault("grace", LIMIT)
        channel = ChildChannel(script(body, *arguments), **options)
        channels.append(channel)
        return channel

    yield start
    for channel in channels:
        channel._grace = 0.1
        channel.close()


@pytest.fixture
def impatient(monkeypatch):
    """Shorten the waits after the signals, so that a stubborn child does not hold up the tests."""
    monkeypatch.setattr(channel_module, "_SIGNAL_SECONDS", 0.3)


@pytest.fixture(params=["pidfd", "polling"])
def notice(request, monkeypatch):
    """Both ways of noticing that a process ended."""
    if request.param == "polling":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    return request.param


def closed(channel):
    """Read until the connection is over, and return why."""
    with pytest.raises(ConnectionClosed) as caught:
        while channel.read(LIMIT) is not None:
            channel.consume()
        pytest.fail("nothing came")
    return caught.value


# --- talking ---------------------------------------------------------------------------------------


def test_it_is_named_after_its_command_and_pid(start, tmp_path):
    (tmp_path / "weather.py").write_text("import sys\nsys.stdin.read()\n")
    # Not by its whole path, which may be too long to be shown.
    channel = ChildChannel([sys.executable, "weather.py", "--key", "s3cret"], cwd=tmp_path)
    try:
        assert channel.name == f"{os.path.basename(sys.executable)} weather.py (pid {channel.pid})"
    finally:
        channel.close()


def test_arguments_arrive_as_they_are_and_no_shell_is_used(start, tmp_path):
    arguments = ["; touch x", "$(touch x)", "a b", "*", "%PATH%", "'\"", ""]
    channel = start("say([sys.argv[1:], os.getcwd()]); sys.stdin.read()", *arguments, cwd=tmp_path)
    assert receive(channel) == [arguments, os.path.realpath(tmp_path)]
    assert os.listdir(tmp_path) == []


def test_encoding_is_utf8_whatever_the_locale(start):
    channel = start("for line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()",
                    env={"LC_ALL": "C", "LANG": "C"})
    channel.write('{"é": "漢"}'.encode(), LIMIT)
    assert receive(channel) == {"é": "漢"}


@posix_only
def test_the_child_leads_a_group_of_its_own(start):
    channel = start("say([os.getpid(), os.getpgrp(), os.getsid(0)]); sys.stdin.read()")
    assert receive(channel) == [channel.pid] * 3


@posix_only
def test_the_child_has_no_descriptors_but_its_three(start):
    mine = os.open(os.devnull, os.O_RDONLY)
    try:
        channel = start("say(sorted(os.listdir('/proc/self/fd'))); sys.stdin.read()")
        # The fourth is the one that lists the directory.
        assert receive(channel) == ["0", "1", "2", "3"]
    finally:
        os.close(mine)


def test_large_messages_up_to_the_limit_and_beyond(start):
    channel = start("""
while True:
    size = read()
    if size is None: break
    say("x" * size)
""", line_limit=3 << 20)
    send(channel, 2 << 20)
    assert len(receive(channel)) == 2 << 20
    send(channel, 4 << 20)
    line = channel.read(LIMIT)
    channel.consume()
    assert type(line) is CutLine and line.size == (4 << 20) + 2
    send(channel, 10)
    assert receive(channel) == "x" * 10


def test_a_long_line_does_not_fill_the_memory(start):
    channel = start("""
for n in range(1024):
    os.write(1, b"x" * 65536)
say("")
say(read())
sys.stdin.read()
""", line_limit=1 << 20)
    before = psutil.Process().memory_info().rss
    assert channel.read(LIMIT).size == (64 << 20) + 2
    channel.consume()
    assert psutil.Process().memory_info().rss - before < 32 << 20
    send(channel, "after")
    assert receive(channel) == "after"


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.slow
def test_a_message_over_the_limit_fails_its_call_alone(tmp_path, era):
    (tmp_path / "server.py").write_text(textwrap.dedent("""
        import mcplite
        mcp = mcplite.Server("x", limits=mcplite.Limits(message_bytes=1 << 20))
        kept = []

        @mcp.tool()
        def make(size: int) -> str:
            kept.append(size)
            return "x" * size

        @mcp.tool()
        def take(text: str) -> int:
            return len(text)

        @mcp.tool()
        def count() -> int:
            return len(kept)
    """))
    with mcplite.connect(str(tmp_path / "server.py"), options=mcplite.ClientOptions(era=era, line_limit=2 << 20),
                         timeout=LIMIT) as client:
        assert len(client.call_tool("make", {"size": 2_000_000}).text) == 2_000_000
        limit = r"'tools/call' .*line_limit= of ClientOptions: it has 3000\d\d\d bytes, .* 2097152$"
        with pytest.raises(ProtocolError, match=limit):
            client.call_tool("make", {"size": 3_000_000})
        with pytest.raises(InternalError, match=r"the answer to 'tools/call' has 17000\d\d\d bytes, .* 16777216"):
            client.call_tool("make", {"size": 17_000_000})
        assert client.call_tool("take", {"text": "x" * 1_000_000}).data == 1_000_000
        with pytest.raises(mcplite.RemoteError, match=r"Limits.message_bytes of the server: it has 1100\d\d\d .* 1048576"):
            client.call_tool("take", {"text": "x" * 1_100_000})
        with pytest.raises(mcplite.TransportError, match=r"has 3000\d\d\d bytes, and the limit is 2097152; it was not sent"):
            client.call_tool("take", {"text": "x" * 3_000_000})
        assert client.call_tool("count").data == 3, "it is still the first process"


@posix_only
def test_a_child_that_never_stops_printing_can_be_closed(start, impatient):
    channel = start("while True: os.write(1, b'x' * 65536)", grace=0.1)
    channel.close()
    assert channel.returncode == -signal.SIGTERM


# --- the end of the child --------------------------------------------------------------------------


@posix_only
def test_a_child_that_is_killed_while_it_works(start, notice):
    channel = start("""
read()
complain("about to die\\n")
os.kill(os.getpid(), signal.SIGKILL)
""")
    send(channel, {"call": 1})
    error = closed(channel)
    assert f"(pid {channel.pid}) was killed by SIGKILL" in str(error)
    assert error.returncode == channel.returncode == -signal.SIGKILL
    assert error.stderr_tail == "about to die\n"
    assert closed(channel) is error
    with pytest.raises(ConnectionClosed, match="was killed by SIGKILL"):
        send(channel, {"call": 2})


def test_a_child_that_exits_before_it_answers_shows_its_traceback(start, notice):
    channel = start("import no_such_module")
    error = closed(channel)
    assert "exited with status 1" in str(error)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in str(error)
    assert error.returncode == 1


def test_messages_from_before_its_exit_are_still_read(start, notice):
    channel = start("for n in range(1000): say(n)\nsys.exit(3)")
    assert wait_until(lambda: channel.returncode is not None)
    assert [receive(channel) for _ in range(1000)] == list(range(1000))
    assert closed(channel).returncode == 3


@wine_fault("console_keeps_streams")
def test_stdout_closed_by_a_living_child(start, impatient):
    channel = start("os.close(1); sleep()", grace=0.1)
    error = closed(channel)
    assert "closed its stdout" in str(error) and "still runs" in str(error)
    assert error.returncode is None
    assert alive(channel.pid)
    channel.close()
    assert not alive(channel.pid)


@wine_fault("console_keeps_streams")
def test_stdin_closed_by_a_living_child(start, impatient):
    channel = start("os.close(0); complain('deaf'); say('ready'); sleep()", grace=0.1)
    assert receive(channel) == "ready"
    with pytest.raises(ConnectionClosed, match="closed its stdin.*still runs") as caught:
        send(channel, 1)
    assert caught.value.stderr_tail == "deaf"


@posix_only
@pytest.mark.slow
def test_a_dead_child_whose_grandchild_holds_the_pipes(start, notice):
    channel = start("""
other = spawn("time.sleep(600)", start_new_session=True)
say(other.pid)
os._exit(3)
""")
    orphan = receive(channel)
    assert closed(channel).returncode == 3
    channel.close()
    assert alive(orphan)  # it went to another session on purpose; it cannot hold up anything
    os.kill(orphan, signal.SIGKILL)
    assert wait_until(lambda: not alive(orphan))


# --- full pipes ------------------------------------------------------------------------------------


def test_a_child_that_never_reads(start, impatient):
    channel = start("sleep()", grace=0.1)
    outcomes = []

    def write():
        try:
            channel.write(b"x" * (1 << 20), 0.3)
        except RequestTimeout as error:
            outcomes.append(error)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(LIMIT)
    assert len(outcomes) == 3


def test_a_flood_on_stderr_before_each_answer(start):
    channel = start("""
for n in range(5):
    read()
    complain("noise %d " % n * 120000)
    say(n)
sys.stdin.read()
""")
    for n in range(5):
        send(channel, n)
        assert receive(channel) == n
    assert wait_until(lambda: channel.stderr_tail.endswith("noise 4 "))
    assert len(channel.stderr_tail) == 65536


def test_both_pipes_full_at_once(start):
    channel = start("""
for n in range(20):
    say("y" * 100000)
total = 0
for n in range(20):
    total += len(read())
say(total)
sys.stdin.read()
""")
    def write():
        for _ in range(20):
            send(channel, "x" * 100_000)

    writer = threading.Thread(target=write)
    writer.start()
    answers = [receive(channel) for _ in range(21)]
    writer.join(LIMIT)
    assert answers[-1] == 2_000_000


# --- close -----------------------------------------------------------------------------------------


def test_a_child_that_exits_when_its_stdin_closes_gets_no_signal(start, notice):
    channel = start("echo()")
    channel.close()
    assert channel.returncode == 0
    with pytest.raises(ConnectionClosed, match="closed on this side"):
        channel.read(0)
    with pytest.raises(ConnectionClosed):
        channel.write(b"x")


STUBBORN = """
def note(text):
    with open(sys.argv[1], "a") as file:
        file.write(text + "\\n")

def terminated(number, frame):
    note("SIGTERM")
    if sys.argv[2] == "obey":
        sys.exit(5)

signal.signal(signal.SIGTERM, terminated)
say("ready")
sys.stdin.read()
note("end of input")
while True:
    time.sleep(0.05)
"""


@posix_only
@pytest.mark.parametrize("what, status", [("obey", 5), ("ignore", -signal.SIGKILL)])
@pytest.mark.slow
def test_a_child_that_stays_gets_sigterm_and_is_killed_if_it_ignores_that(start, tmp_path, notice, impatient, what, status):
    log = tmp_path / "log"
    channel = start(STUBBORN, str(log), what, grace=0.5)
    assert receive(channel) == "ready"
    channel.close()
    assert channel.returncode == status
    assert log.read_text().split("\n")[:2] == ["end of input", "SIGTERM"]


@pytest.mark.parametrize("grandchild", [
    "time.sleep(600)",
    "signal.signal(15, signal.SIG_IGN); os.write(1, b'1\\n'); time.sleep(600)",
])
@pytest.mark.parametrize("parent", ["sys.stdin.read()", "sleep()"])
@pytest.mark.slow
def test_the_whole_group_ends(start, grandchild, parent, impatient):
    channel = start(f"""
other = spawn({grandchild + "; 0"!r}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
if "SIG_IGN" in {grandchild!r}:
    other.stdout.readline()
say(other.pid)
{parent}
""", grace=LIMIT if "stdin" in parent else 0.2)
    other = receive(channel)
    assert alive(other)
    channel.close()
    assert wait_until(lambda: not alive(other))
    assert not alive(channel.pid)


def test_output_after_close_is_read_so_that_the_child_can_exit(start, notice):
    channel = start("""
sys.stdin.read()
for n in range(16):
    say("x" * 65536)
    complain("y" * 65536)
sys.exit(7)
""")
    channel.close()
    assert channel.returncode == 7


def test_close_twice_and_from_many_threads(start):
    channel = start("sys.stdin.read(); time.sleep(0.2)")
    codes = []

    def close():
        channel.close()
        codes.append(channel.returncode)

    closers = [threading.Thread(target=close) for _ in range(5)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(LIMIT)
    assert codes == [0] * 5, "each has waited for the end of the process"
    channel.close()


def test_close_from_the_stderr_callback(start):
    done = threading.Event()

    def take(line):
        channel.close()
        done.set()

    channel = ChildChannel(script("read(); complain('now\\n'); sys.stdin.read()"), stderr=take, grace=LIMIT)
    send(channel, 1)
    assert done.wait(LIMIT)
    assert channel.returncode == 0


@posix_only
def test_an_interrupted_close_kills(start, monkeypatch):
    channel = start("signal.signal(15, signal.SIG_IGN); sleep()")
    end = channel._child.end

    def interrupted(*args):
        monkeypatch.setattr(channel._child, "end", end)
        raise KeyboardInterrupt

    monkeypatch.setattr(channel._child, "end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        channel.close()
    assert channel.returncode == -signal.SIGKILL


@posix_only
def test_a_child_that_does_not_end_is_reported(start, monkeypatch, caplog, impatient):
    channel = start("sleep()", grace=0.1)
    signals = []
    monkeypatch.setattr(channel._child, "_signal", signals.append)
    channel._child.end(0.1, 0.1)
    assert signals == [signal.SIGTERM, signal.SIGKILL]
    assert "does not end" in caplog.text
    monkeypatch.undo()
    os.killpg(channel.pid, signal.SIGKILL)


@posix_only
def test_a_child_that_the_host_reaped(start):
    channel = start("sys.exit(4)")
    os.waitpid(channel.pid, 0)
    error = closed(channel)
    assert "its exit status is not known" in str(error) and "status 0" not in str(error)
    assert error.returncode is channel.returncode is None
    channel.close()
    assert channel.returncode is None


def test_writing_while_it_is_being_closed(start):
    channel = start("sys.stdin.read()")
    channel.close_input(LIMIT)
    with pytest.raises(ConnectionClosed, match="was closed on this side"):
        send(channel, 1)


def test_a_system_whose_pipes_cannot_be_polled(start, monkeypatch):
    # As on Windows: a thread reads, exits are found by looking, and stderr is read to its end.
    monkeypatch.delattr(select, "poll", raising=False)
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    lines = []
    channel = start("complain('hello\\n'); echo()", stderr=lines.append)
    assert channel.read(0.01) is None
    channel.wake()
    assert channel.read(LIMIT) is None
    send(channel, 1)
    assert receive(channel) == 1
    channel.close()
    assert channel.returncode == 0
    assert lines == ["hello"]


# --- stderr ----------------------------------------------------------------------------------------


def test_stderr_inherited(tmp_path):
    program = """
import sys
from mcplite.client.stdio.stdio_channel import ChildChannel
channel = ChildChannel([sys.executable, "-c", "import sys; sys.stderr.write('through'); sys.stdin.read()"],
                       stderr="inherit")
channel.close()
assert channel.stderr_tail == ""
"""
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "through")


# --- forgotten, collected, forked ------------------------------------------------------------------


def run(program, *arguments):
    return subprocess.run([sys.executable, "-W", "error", "-c", program, *arguments], cwd=ROOT, timeout=LIMIT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


@pytest.mark.parametrize("behaviour", ["sys.stdin.read()", "signal.signal(15, signal.SIG_IGN); say(1); sleep()"])
@pytest.mark.parametrize("reader", ["none", "daemon"])
@pytest.mark.slow
def test_a_program_that_forgets_to_close(behaviour, reader):
    program = """
import json, sys, threading
from mcplite.client.stdio.stdio_channel import ChildChannel
from mcplite.errors import ConnectionClosed
channel = ChildChannel(json.loads(sys.argv[1]))
def read():
    try:
        while True:
            if channel.read(None):
                channel.consume()
    except ConnectionClosed:
        return
if sys.argv[2] == "daemon":
    threading.Thread(target=read, daemon=True).start()
print(channel.pid)
"""
    done = run(program, json.dumps(script(behaviour)), reader)
    assert (done.returncode, done.stderr) == (0, "")
    assert not alive(int(done.stdout))


def test_a_channel_that_is_dropped_is_cleaned_up():
    channel = ChildChannel(script("echo()"))
    pid = channel.pid
    with pytest.warns(ResourceWarning, match="dropped without close"):
        del channel
        gc.collect()
    assert wait_until(lambda: not psutil.pid_exists(pid))


@posix_only
def test_the_child_of_a_killed_client_sees_the_end_of_its_input(tmp_path):
    marker = tmp_path / "ended"
    program = """
import json, sys, time
from mcplite.client.stdio.stdio_channel import ChildChannel
channel = ChildChannel(json.loads(sys.argv[1]))
print(channel.pid, flush=True)
time.sleep(600)
"""
    command = script("sys.stdin.read(); open(sys.argv[1], 'w').close()", str(marker))
    host = subprocess.Popen([sys.executable, "-c", program, json.dumps(command)], cwd=ROOT, stdout=subprocess.PIPE)
    try:
        pid = int(host.stdout.readline())
    finally:
        host.kill()
        host.wait(LIMIT)
        host.stdout.close()
    assert wait_until(marker.exists)
    assert wait_until(lambda: not alive(pid))


# --- failures while starting -----------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="POSIX only")
@pytest.mark.parametrize("name, use, expected", [
    ("write", lambda channel: channel.write(b"{}"), "writing to python.* failed: Input/output error"),
    ("read", lambda channel: channel.read(LIMIT), "reading from python.* failed: Input/output error"),
])
def test_a_fault_of_the_system_is_not_taken_for_a_closed_pipe(monkeypatch, name, use, expected):
    real, failing = getattr(os, name), []

    def fail(number, *arguments):
        if number in failing:
            raise OSError(5, "Input/output error")
        return real(number, *arguments)

    monkeypatch.setattr(os, name, fail)
    channel = ChildChannel(script("import sys\nprint(1, flush=True)\nsys.stdin.read()"))
    try:
        failing.append(channel._write_fd if name == "write" else channel._source.fd)
        with pytest.raises(ConnectionClosed, match=expected):
            use(channel)
    finally:
        failing.clear()
        channel.close()
