"""Makes redis-py's client for the URL of a backend, at its first use: of one Redis, or of a cluster."""

from typing import Any, Dict, List, Optional, Tuple, Type
from urllib.parse import urlsplit, urlunsplit

from ..errors import RegistrationError
from ..rpc.forks import new_lock, on_fork
from .addresses import take_option, without_password

__all__ = ["RedisClient"]

_CLUSTER = "+cluster"
#: The first redis-py whose client of a cluster repeats an operation only if it is told to.
_CLUSTER_VERSION = 6


class RedisClient:
    """The client of redis-py that a backend uses, and the errors that it raises.

    The client of a cluster connects when it is created. So it is created at the first operation, again in a forked process,
    and again from the URL after none of the nodes that it knew could be reached.

    :param url: as redis-py reads it, or with ``+cluster`` behind the scheme and commas between several hosts.
    :param timeout: seconds for which an operation waits for a server.
    :raises RegistrationError: redis-py is not installed or too old, or the URL cannot be read.
    """

    def __init__(self, url: str, timeout: float) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.exceptions import MovedError, RedisClusterException
            from redis.retry import Retry
        except ImportError as error:
            raise RegistrationError("a backend in Redis needs redis-py: pip install 'mcplite[redis]'") from error
        self.name = without_password(url)
        self.errors: Tuple[Type[Exception], ...] = (redis.RedisError, RedisClusterException, OSError)
        self._moved, self._unreachable = MovedError, RedisClusterException
        # A repeated operation might take place twice; redis-py looks at a connection before it uses it again.
        self._options: Dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout,
                                         "retry": Retry(NoBackoff(), 0)}
        scheme = urlsplit(url).scheme
        self.cluster = scheme.endswith(_CLUSTER)
        if self.cluster and int(redis.VERSION[0]) < _CLUSTER_VERSION:
            raise RegistrationError(f"the backend {self.name} is a cluster, which needs redis-py {_CLUSTER_VERSION} or newer;"
                                    f" {redis.__version__} is installed")
        plain, self.prefix = take_option(url, "prefix", "mcplite")
        self._url, self._others = self._one_host(plain) if self.cluster else (plain, [])
        #: Guards the creation of the client. A cluster is connected to meanwhile, so that all its users wait for one attempt.
        self._lock = new_lock()
        self._client: Optional[Any] = None
        on_fork(self, RedisClient._forked)
        try:
            redis.ConnectionPool.from_url(self._url)
        except ValueError as error:
            raise RegistrationError(f"the backend {self.name}: {error}") from error
        if not self.cluster:
            self._client = redis.Redis.from_url(self._url, **self._options)

    def _one_host(self, url: str) -> Tuple[str, List[Tuple[str, int]]]:
        """Return the URL of a cluster with its first host, as redis-py reads it, and the other hosts."""
        parts = urlsplit(url)
        user, at, hosts = parts.netloc.rpartition("@")
        if parts.path.strip("/") not in ("", "0"):
            raise RegistrationError(f"the backend {self.name}: a cluster has the database 0 alone")
        urls = [urlsplit(f"//{host}") for host in hosts.split(",")]
        try:
            found = [(one.hostname or "localhost", one.port or 6379) for one in urls]
        except ValueError as error:
            raise RegistrationError(f"the backend {self.name}: {error}") from error
        plain = parts._replace(scheme=parts.scheme[:-len(_CLUSTER)], netloc=user + at + urls[0].netloc, path="/0")
        return urlunsplit(plain), found[1:]

    def _forked(self, owner: int) -> None:
        if self.cluster:
            self._client = None  # its locks may be held

    def get(self) -> Any:
        """Return the client, at first connected to a cluster.

        :raises Exception: one of :attr:`errors`: no node of the cluster can be reached, or the server is no cluster.
        """
        client = self._client
        if client is None:
            with self._lock:
                client = self._client = self._client or self._connect()
        return client

    def _connect(self) -> Any:
        from redis import cluster

        node: Any = cluster.ClusterNode
        # Without the full coverage, the slots that are served are used while others are not.
        return cluster.RedisCluster.from_url(self._url, startup_nodes=[node(*address) for address in self._others],
                                     require_full_coverage=False, **self._options)

    def explain(self, error: Exception) -> str:
        """Return the text of one of the errors; after one that says that no known node was there, ask those of the URL."""
        if self.cluster and isinstance(error, self._unreachable):
            self._client = None
        if not self.cluster and isinstance(error, self._moved):
            return f"it is a node of a cluster, whose URL begins with redis{_CLUSTER}:// ({error})"
        return str(error)

    def close(self) -> None:
        """Let go of the connections. Idempotent."""
        client = self._client
        if client is not None:
            if self.cluster:
                client.disconnect_connection_pools()  # its close leaves them to the garbage collection
            client.close()
