"""A Redis cluster: slots that move, nodes that join, are killed and frozen, and what is refused."""

import contextlib
import threading
import time

import pytest

from mcplite.backend.from_url import open_backend
from mcplite.backend.redis import RedisBackend
from mcplite.errors import BackendError, RegistrationError

from .conftest import PATIENCE, eventually

pytestmark = pytest.mark.alone  # its servers measure time: who has frozen, and whose replica takes over

pytest.importorskip("redis")
stores = pytest.importorskip("tests.support.stores", reason="POSIX only")
@pytest.fixture(scope="module")
def servers():
    servers = stores.RedisClusterServers().start()
    yield servers
    servers.close()


@pytest.fixture
def doubled():
    """A cluster whose nodes are killed: each has a replica."""
    servers = stores.RedisClusterServers(replicas=1).start()
    yield servers
    servers.close()


@pytest.fixture
def backend(servers):
    with contextlib.closing(open_backend(servers.url)) as backend:
        yield backend


class Writer:
    """Appends to a log again and again, each entry once, until the end of the block.

    :param backend: that it writes through; what fails is not repeated.
    """

    def __init__(self, backend, log):
        self._backend, self._log, self._stopped = backend, log, False
        self.sure, self.failed = [], []
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        count = 0
        while not self._stopped:
            count += 1
            try:
                self.sure.append((self._backend.append(self._log, b"%d" % count, 600, 100_000), b"%d" % count))
            except BackendError as error:
                self.failed.append(str(error))

    def __enter__(self):
        self._thread.start()
        return self

    def reach(self, more):
        """Wait until so many more entries are written."""
        wanted, until = len(self.sure) + more, time.monotonic() + PATIENCE
        while len(self.sure) < wanted:
            assert time.monotonic() < until, self.failed[-3:]
            time.sleep(0.01)

    def __exit__(self, *error):
        self._stopped = True
        self._thread.join(PATIENCE)


@pytest.mark.slow
def test_a_group_is_in_one_slot_and_groups_are_on_all_nodes(servers, backend, group):
    backend.put(f"{group}/a", b"1", 60)
    backend.append(f"{group}/log", b"1", 60, 5)
    slots = {servers.ask(servers.nodes[0], "cluster", "keyslot", f"mcplite:{kind}:{{{group}}}/{name}")
             for kind, name in [("value", "a"), ("number", "log"), ("log", "log")]}
    assert len(slots) == 1
    for number in range(60):
        backend.put(f"{group}-{number}/a", b"1", 60)
    held = [int(servers.ask(node, "dbsize")) for node in servers.primaries()]
    assert all(held), held


@pytest.mark.slow
def test_a_wait_names_logs_of_several_nodes(servers, backend, group):
    logs = [f"{group}-{number}/log" for number in range(40)]
    assert len({servers.owner(f"{{{group}-{number}}}")[0].port for number in range(8)}) > 1
    with contextlib.closing(open_backend(servers.url)) as other:
        for log in logs:
            found = []
            waiting = threading.Thread(target=lambda: found.append(backend.wait(dict.fromkeys(logs, 0), PATIENCE)))
            waiting.start()
            assert other.append(log, b"1", 60, 5) == 1
            waiting.join(PATIENCE)
            assert found == [{log}]
            logs = logs[1:]


def test_a_slot_moves_while_a_log_in_it_is_written_and_awaited(servers, backend, group):
    log = f"{group}/log"
    source, slot = servers.owner(f"{{{group}}}")
    target = next(node for node in servers.primaries() if node is not source)
    with contextlib.closing(open_backend(servers.url)) as other, Writer(other, log) as writer:
        writer.reach(20)
        servers.ask(target, "cluster", "setslot", str(slot), "importing", servers.id(source))
        servers.ask(source, "cluster", "setslot", str(slot), "migrating", servers.id(target))
        writer.reach(20)  # some keys here, some there
        while True:
            keys = servers.ask(source, "cluster", "getkeysinslot", str(slot), "100").split()
            if not keys:
                break
            servers.ask(source, "migrate", "127.0.0.1", str(target.port), "", "0", "5000", "keys", *keys)
        writer.reach(20)
        for node in (target, source):
            servers.ask(node, "cluster", "setslot", str(slot), "node", servers.id(target))
        writer.reach(20)
        last = backend.last(log)
        assert backend.wait({log: last}, PATIENCE) == {log}
    assert servers.owner(f"{{{group}}}")[0] is target
    assert not writer.failed
    assert backend.since(log, 0) == writer.sure


@pytest.mark.one_python
@pytest.mark.slow
def test_a_node_is_killed_and_its_replica_takes_over(doubled, group):
    log, other = f"{group}/log", f"{group}/other"
    node, _ = doubled.owner(f"{{{group}}}")
    with contextlib.closing(RedisBackend(doubled.url, timeout=2.0)) as backend, Writer(backend, log) as writer:
        writer.reach(20)
        found = []
        waiting = threading.Thread(target=lambda: found.append(backend.wait({other: 0}, PATIENCE)))
        waiting.start()
        while other not in backend._watch._watched or backend._watch._watched[other].number is None:
            waiting.join(0.01)
        node.kill()
        writer.reach(20)
        # Found although the node that told of changes may be the one that was killed.
        assert eventually(lambda: backend.append(other, b"1", 600, 5)) == 1
        waiting.join(PATIENCE)
        assert found == [{other}]
    assert writer.failed and all("cannot be" in text for text in writer.failed)


@pytest.mark.one_python
@pytest.mark.slow
def test_a_frozen_node_stops_only_its_groups_until_its_replica_takes_over(doubled, group):
    with contextlib.closing(RedisBackend(doubled.url, timeout=2.0)) as backend:
        node, _ = doubled.owner(f"{{{group}}}")
        other = next(name for name in map(str, range(100)) if doubled.owner(f"{{{name}}}")[0] is not node)
        backend.put(f"{other}/a", b"1", 600)
        backend.put(f"{group}/a", b"1", 600)
        doubled.replicate(node)
        node.freeze()
        try:
            assert backend.get(f"{other}/a") == b"1"
            assert eventually(lambda: backend.get(f"{group}/a")) == b"1"
            assert backend.get(f"{other}/a") == b"1"
        finally:
            node.resume()


@pytest.mark.one_python
@pytest.mark.slow
def test_all_nodes_are_killed_and_started_again(doubled, group):
    with contextlib.closing(open_backend(doubled.url)) as backend:
        backend.put(f"{group}/a", b"1", 600)
        for node in doubled.nodes:
            node.kill()
        with pytest.raises(BackendError, match=f"redis.cluster://127.0.0.1:{doubled.nodes[0].port}.* cannot be read"):
            backend.get(f"{group}/a")
        with contextlib.closing(open_backend(doubled.url)) as late, pytest.raises(BackendError, match="cannot be read"):
            late.get(f"{group}/a")
        for node in doubled.nodes:
            node.start()
        assert eventually(lambda: backend.get(f"{group}/a")) == b"1"


def test_one_node_without_the_option_names_the_url_of_a_cluster(servers, group):
    with contextlib.closing(open_backend(f"redis://127.0.0.1:{servers.nodes[0].port}")) as backend:
        with pytest.raises(BackendError, match=r"node of a cluster, whose URL begins with redis\+cluster://"):
            for number in range(40):
                backend.put(f"{group}-{number}/a", b"1", 60)


def test_what_is_no_cluster_says_so():
    server = stores.RedisServer().start()
    try:
        with contextlib.closing(open_backend(server.url.replace("redis:", "redis+cluster:"))) as backend:
            with pytest.raises(BackendError, match="[Cc]luster mode is not enabled"):
                backend.get("group/a")
    finally:
        server.close()


@pytest.mark.parametrize("url, text", [("redis+cluster://127.0.0.1:7000/1", "has the database 0 alone"),
                                       ("redis+cluster://127.0.0.1:7000,127.0.0.1:seven", "cluster://127.0.0.1:7000,.*seven")])
def test_what_a_cluster_cannot_do_is_refused(url, text):
    with pytest.raises(RegistrationError, match=text):
        open_backend(url)


def test_an_old_redis_py_is_refused(monkeypatch):
    monkeypatch.setattr("redis.VERSION", (5, 3, 1))
    with pytest.raises(RegistrationError, match="needs redis-py 6 or newer"):
        open_backend("redis+cluster://127.0.0.1:7000")
