"""Group: several servers as one client; names get the server as a prefix, and each server fails on its own.

It uses the public methods of :class:`~.client.Client` alone.
"""

import copy
import functools
import os
import threading
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from ..errors import Cancelled, MCPError, MethodNotFound, NotSupported, ResourceNotFound, TransportError
from ..protocol.uris import normal_uri
from ..protocol.uritemplate import Template
from ..revisions import Revision
from ..rpc.cancel import CancelToken
from ..rpc.deadline import undo, wait_interruptibly
from ..rpc.tracing import get_logger
from ..types import CallToolResult, GetPromptResult, LogMessage, Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool
from ..types.wrong_keywords import explains_keywords
from .call import DEFAULT, Middleware, OnProgress
from .client import Client
from .client_options import ClientOptions
from .config import Config, ServerConfig, load_config
from .connect import applicable, connect
from .handler_types import Elicitation, Roots, Sampling
from .sessions.base import ClientObserver

if TYPE_CHECKING:
    from ..rooms import Task
    from ..rpc.extension import Extension
    from .stdio.stderr import StderrTarget

__all__ = ["Group", "connect_all"]

_log = get_logger(__name__)
T = TypeVar("T")
Named = TypeVar("Named", Tool, Resource, ResourceTemplate, Prompt)


@explains_keywords("connect_all", options=ClientOptions)
def connect_all(
    config: "Union[str, os.PathLike[str], Mapping[str, Any], Config]", *,
    separator: str = "__",
    timeout: Optional[float] = 60.0,
    open_timeout: float = 60.0,
    headers: Optional[Mapping[str, str]] = None,
    auth: Any = None,
    session: Any = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: "Union[None, str, os.PathLike[str]]" = None,
    stderr: "StderrTarget" = None,
    revision: Union[None, str, Revision] = None,
    roots: Optional[Roots] = None,
    elicitation_handler: Optional[Elicitation] = None,
    url_elicitation_handler: Optional[Elicitation] = None,
    sampling_handler: Optional[Sampling] = None,
    log_handler: Optional[Callable[[LogMessage], object]] = None,
    middleware: Sequence[Middleware] = (),
    extensions: "Union[None, Mapping[str, Dict[str, Any]], Sequence[Extension]]" = None,
    options: Optional[ClientOptions] = None,
    debug: Union[None, bool, str] = None,
) -> "Group":
    """Return a group of the servers in a host's configuration; no server starts before the group is opened.

    Look at ``group.servers`` first: it has the exact commands (SAFE-07).

    The other parameters are those of :func:`~.connect.connect`, for each of the servers; *auth*, *headers* and *session* are
    only for servers with a URL, and *env*, *cwd* and *stderr* only for the others. In *stderr* each line begins with the name
    of its server; if it is a path with ``{name}`` in it, each server has a file of its own. Of *options*, those for URLs apply
    to servers with a URL, and those for processes to the others.

    :param config: a path, a dict of the same shape, or the result of ``load_config``.
    :param separator: between the server's name and the name of its tool or prompt. Default ``__``, which APIs of models accept
        in names of tools. They refuse a dot, but calls of the group accept a dot as well.
    :raises TransportError: the configuration as a whole cannot be used.
    :raises TypeError, ValueError: as for :func:`~.connect.connect`.
    """
    loaded = load_config(config)
    # An option that suits none of the servers is a mistake, which connect() names.
    urls = any(server.url for server in loaded.servers.values())
    commands = any(not server.url for server in loaded.servers.values())

    def connected(server: ServerConfig) -> Client:
        lines = None
        reached, started = bool(server.url) or not urls, not server.url or not commands
        if not server.url:
            from .stdio.stderr import stderr_of  # for groups with processes

            lines = stderr_of(server.name, stderr)
        # A local process needs no login (STD-23), but servers with a URL in the same configuration may; and only a process
        # has a stderr.
        return connect(
            server, timeout=timeout, open_timeout=open_timeout, headers=headers if reached else None,
            auth=auth if server.url else None, session=session if reached else None, env=env if started else None,
            cwd=cwd if started else None, stderr=lines, revision=revision, roots=roots,
            elicitation_handler=elicitation_handler, url_elicitation_handler=url_elicitation_handler,
            sampling_handler=sampling_handler, log_handler=log_handler, middleware=middleware, extensions=extensions,
            options=options and applicable(options, server.url), debug=debug)

    return Group(loaded, connected, separator=separator)


class Group:
    """Several clients, each under the name that the configuration gives it; usable from any thread.

    A failing server does not stop the others: ``errors`` has the reasons, ``status`` the state of each.

    :param config: the servers.
    :param connect: makes the client of one of them.
    :param separator: as for :func:`connect_all`.
    :raises ValueError: *separator* is empty.
    """

    def __init__(self, config: Config, connect: Callable[[ServerConfig], Client], *, separator: str = "__") -> None:
        if not separator:
            raise ValueError("separator must not be empty, or names of servers and tools would run together")
        self._config = config
        self._separator = separator
        self._clients: Dict[str, Client] = {}
        #: Guards ``_errors``, ``_owners`` and ``_closed``; held for dictionary work only.
        self._lock = threading.Lock()
        self._closed = False
        self._errors: Dict[str, Exception] = dict(config.errors)
        #: The servers that list each URI, from the latest listing.
        self._owners: Dict[str, List[str]] = {}
        for name, server in config.servers.items():
            if server.disabled:
                continue
            for warning in server.warnings:
                _log.warning("server %r: %s", name, warning)
            try:
                self._clients[name] = connect(server)
            except TransportError as error:
                self._errors[name] = error

    @property
    def servers(self) -> Dict[str, ServerConfig]:
        """The configuration of each server, with the exact command that opening starts."""
        return dict(self._config.servers)

    @property
    def errors(self) -> Dict[str, Exception]:
        """Why servers cannot be used: the entry is wrong, opening failed, or the connection was lost."""
        with self._lock:
            found, closed = dict(self._errors), self._closed
        lost = {} if closed else {name: client.last_error for name, client in self._clients.items()}
        return {**{name: error for name, error in lost.items() if error is not None}, **found}

    @property
    def status(self) -> Dict[str, str]:
        """The state of each server: "new", "connecting", "open", "closed", "failed" or "disabled"."""
        errors, clients = self.errors, self._clients
        return {name: "failed" if name in errors else clients[name].state if name in clients else "disabled"
                for name in [*self._config.servers, *self._config.errors]}

    def open(self) -> "Group":
        """Open all servers at the same time; return when each is open or has failed. On an open group it does nothing.

        :raises RuntimeError: the group is closed.
        """
        if self._closed:
            raise RuntimeError("this group is closed; a group is opened once, so make a new one")
        unopened = {name: client for name, client in self._clients.items() if client.state == "new"}
        with undo(self.close):
            _, failures = self._each(lambda client: client.open(), unopened)
        for name, error in failures.items():
            _log.warning("server %r could not be opened: %.200r", name, str(error))
        with self._lock:
            self._errors.update(failures)
        return self

    def observe(self, observer: ClientObserver) -> None:
        """Have *observer* see the calls of all clients; see :meth:`Client.observe`."""
        for client in self._clients.values():
            client.observe(observer)

    def close(self) -> None:
        """Close all servers at the same time; idempotent."""
        errors = self.errors  # before closing, which would look like a lost connection
        with self._lock:
            self._errors, self._closed = errors, True
        _, failures = self._each(lambda client: client.close(), self._clients)
        for name, error in failures.items():
            _log.warning("server %r could not be closed: %.200r", name, str(error))

    def __enter__(self) -> "Group":
        return self.open()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def __getitem__(self, name: str) -> Client:
        """Return the client of one server.

        :raises MCPError: there is no such server, it is disabled, or it has failed; then this is the reason.
        """
        with self._lock:
            failure = self._errors.get(name)
        if failure is not None:
            raise copy.copy(failure)
        if name not in self._clients:
            why = "is disabled in the configuration" if name in self._config.servers else "is not in this group"
            raise MCPError(f"server {name!r} {why}; there is: {_listed(self._clients)}")
        return self._clients[name]

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._clients))

    def __len__(self) -> int:
        return len(self._clients)

    # --- the lists of all servers ------------------------------------------------------------------

    def list_tools(self) -> List[Tool]:
        """Return the tools of all open servers, named ``server__tool`` (TOOL-15)."""
        return self._merged(lambda client: client.list_tools())

    def list_prompts(self) -> List[Prompt]:
        """Return the prompts of all open servers, named ``server__prompt``."""
        return self._merged(lambda client: client.list_prompts())

    def list_resources(self) -> List[Resource]:
        """Return the resources of all open servers; their names get the prefix, their URIs do not."""
        return [_renamed(resource, self._joined(server, resource.name))
                for server, resource in self._resources()]

    def list_resource_templates(self) -> List[ResourceTemplate]:
        """Return the resource templates of all open servers, with prefixed names."""
        return self._merged(lambda client: client.list_resource_templates())

    # --- calls of one server -----------------------------------------------------------------------

    def call_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                  timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                  cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                  meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                  input_responses: Optional[Mapping[str, Any]] = None, request_state: Optional[str] = None) -> CallToolResult:
        """Call a tool by ``server__tool``, as it is listed, or by ``server.tool``.

        A name can be read in two ways if names of servers or tools have the separator in them. Then the tool that a server
        lists is called. The other parameters are those of ``Client.call_tool``.

        :raises MCPError: no server fits, or more than one does; and as for ``Client.call_tool``.
        """
        client, own_name = self._find(name, "tool", timeout=timeout, max_timeout=max_timeout, cancel=cancel)
        return client.call_tool(own_name, arguments, timeout=timeout, max_timeout=max_timeout, cancel=cancel,
                                on_progress=on_progress, meta=meta, fresh=fresh, rounds=rounds,
                                input_responses=input_responses, request_state=request_state)

    def start_tool(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *, ttl: Optional[float] = None,
                   timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None,
                   on_progress: Optional[OnProgress] = None, meta: Optional[Dict[str, Any]] = None) -> "Task":
        """Start a tool as a task, by its name as for :meth:`call_tool`; the parameters are those of ``Client.start_tool``.

        :raises MCPError: no server fits, or more than one does; and as for ``Client.start_tool``.
        """
        client, own_name = self._find(name, "tool", timeout=timeout, cancel=cancel)
        return client.start_tool(own_name, arguments, ttl=ttl, timeout=timeout, cancel=cancel, on_progress=on_progress,
                                 meta=meta)

    def task(self, id: str, *, server: str, timeout: Optional[float] = DEFAULT,
             on_progress: Optional[OnProgress] = None) -> "Task":
        """Return the handle of a task by its id, as ``Client.task``.

        :param server: the server that has the task. The id is not sent to the other servers: without authentication, whichever
            client has the id can use the task.
        """
        return self[server].task(id, timeout=timeout, on_progress=on_progress)

    def list_tasks(self) -> Dict[str, List["Task"]]:
        """Return the tasks that this user has, by server; servers that offer no list are left out."""
        return {server: list(tasks) for server, tasks in self._all(lambda client: client.list_tasks()).items()}

    def get_prompt(self, name: str, arguments: Optional[Mapping[str, Any]] = None, *,
                   timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                   cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                   meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                   input_responses: Optional[Mapping[str, Any]] = None, request_state: Optional[str] = None) -> GetPromptResult:
        """Get a prompt by ``server__prompt``, as it is listed, or by ``server.prompt``.

        The other parameters are those of ``Client.get_prompt``.

        :raises MCPError: no server fits, or more than one does; and as for ``Client.get_prompt``.
        """
        client, own_name = self._find(name, "prompt", timeout=timeout, max_timeout=max_timeout, cancel=cancel)
        return client.get_prompt(own_name, arguments, timeout=timeout, max_timeout=max_timeout, cancel=cancel,
                                 on_progress=on_progress, meta=meta, fresh=fresh, rounds=rounds,
                                 input_responses=input_responses, request_state=request_state)

    def read_resource(self, uri: str, arguments: Optional[Mapping[str, Any]] = None, *, server: Optional[str] = None,
                      timeout: Optional[float] = DEFAULT, max_timeout: Optional[float] = DEFAULT,
                      cancel: Optional[CancelToken] = None, on_progress: Optional[OnProgress] = None,
                      meta: Optional[Dict[str, Any]] = None, fresh: bool = False, rounds: bool = True,
                      input_responses: Optional[Mapping[str, Any]] = None,
                      request_state: Optional[str] = None) -> ReadResourceResult:
        """Read a resource from the server that lists it, or that has a template for it.

        :param uri: the resource's URI, or a template if there are *arguments*.
        :param arguments: values by the names of the template's variables.
        :param server: its name; needed if several servers list the same URI. The other parameters are those of
            ``Client.read_resource``.
        :raises ValueError: the template does not fit the arguments; nothing was sent.
        :raises MCPError: no server fits, or more than one does; and as for ``Client.read_resource``.
        """
        if arguments is not None:
            uri = Template(uri).fill(arguments)
        name = server or self._owner(uri, timeout=timeout, max_timeout=max_timeout, cancel=cancel)
        try:
            return self[name].read_resource(uri, timeout=timeout, max_timeout=max_timeout, cancel=cancel,
                                            on_progress=on_progress, meta=meta, fresh=fresh, rounds=rounds,
                                            input_responses=input_responses, request_state=request_state)
        except ResourceNotFound:
            with self._lock:
                self._owners.pop(normal_uri(uri), None)  # the resource may have moved, so the next call lists again
            raise

    # --- inside --------------------------------------------------------------------------------------

    def _joined(self, server: str, name: str) -> str:
        return f"{server}{self._separator}{name}"

    def _find(self, name: str, what: str, **limits: Any) -> Tuple[Client, str]:
        """Return the client and the server's own name for ``server__name`` or ``server.name``.

        :param limits: of the lists that are read if the name fits several servers.
        """
        known = [*self._config.servers, *self._config.errors]
        meant: List[Tuple[str, str]] = []
        for separator in (self._separator, "."):
            meant = meant or [(server, name[len(server + separator):]) for server in known
                              if name.startswith(server + separator)]
        if not meant:
            raise MCPError(f"no server of this group has a {what} {name!r}; names begin with one of:"
                           f" {_listed(server + self._separator for server in known)}")
        if len(meant) > 1:
            names = self._all(lambda client: [item.name for item in (
                client.list_tools(**limits) if what == "tool" else client.list_prompts(**limits))], [name for name, _ in meant])
            meant = [(server, own) for server, own in meant if own in names.get(server, ())] or meant
        if len(meant) > 1:
            raise MCPError(f"{what} {name!r} can be one of several servers: {_listed(server for server, _ in meant)}; ask"
                           f" group[server], or choose another separator")
        return self[meant[0][0]], meant[0][1]

    def _owner(self, uri: str, **limits: Any) -> str:
        """Return the one server that lists *uri* or has a template for it."""
        if len(self._clients) == 1:
            return next(iter(self._clients))
        with self._lock:
            owners = list(self._owners.get(normal_uri(uri), ()))
        if not owners:
            owners = [server for server, resource in self._resources(**limits) if normal_uri(resource.uri) == normal_uri(uri)]
        if not owners:
            templates = self._all(lambda client: client.list_resource_templates(**limits))
            owners = [server for server, found in templates.items()
                      if any(_matches(template, uri) for template in found)]
        owners = list(dict.fromkeys(owners))
        if not owners:
            raise MCPError(f"no server of this group lists the resource {uri!r} or has a template for it; name"
                           f" the server with server=, one of: {_listed(self._clients)}")
        if len(owners) > 1:
            raise MCPError(f"several servers list the resource {uri!r}; choose one with server=:"
                           f" {_listed(owners)}")
        return owners[0]

    def _resources(self, **limits: Any) -> List[Tuple[str, Resource]]:
        """Return the resources of all servers, and remember which server lists which."""
        found = [(server, resource)
                 for server, resources in self._all(lambda client: client.list_resources(**limits)).items()
                 for resource in resources]
        owners: Dict[str, List[str]] = {}
        for server, resource in found:
            owners.setdefault(normal_uri(resource.uri), []).append(server)
        with self._lock:
            self._owners = owners
        return found

    def _merged(self, list_all: Callable[[Client], Sequence[Named]]) -> List[Named]:
        return [_renamed(item, self._joined(server, item.name))
                for server, items in self._all(list_all).items() for item in items]

    def _all(self, list_all: Callable[[Client], Sequence[T]], servers: Optional[Sequence[str]] = None
             ) -> Dict[str, Sequence[T]]:
        """Return the lists of all open servers that have one; if *servers* are given, of these alone."""
        results, failures = self._each(list_all, {name: client for name, client in self._clients.items()
                                                  if client.state == "open" and (servers is None or name in servers)})
        for name, error in failures.items():
            if isinstance(error, Cancelled):
                raise error
            if not isinstance(error, (MethodNotFound, NotSupported)):
                _log.warning("server %r is left out of the list: %.200r", name, str(error))
        return results

    def _each(self, step: Callable[[Client], T], clients: Mapping[str, Client]
              ) -> Tuple[Dict[str, T], Dict[str, Exception]]:
        """Run *step* for all clients at the same time; return results and failures by name, in order."""
        outcomes: Dict[str, T] = {}
        failures: Dict[str, Exception] = {}

        def run(name: str) -> None:
            try:
                outcomes[name] = step(clients[name])
            except Exception as error:
                failures[name] = error

        # The threads start here and end with their step, which has the client's timeouts; all are joined. The step of the last
        # client runs on this thread, so that a group of one client needs no other thread.
        *others, last = clients or [None]
        threads = [threading.Thread(target=run, args=[name], name=f"mcplite group {name}", daemon=True) for name in others]
        for thread in threads:
            thread.start()
        if last is not None:
            run(last)
        for thread in threads:
            wait_interruptibly(functools.partial(_join, thread), None)
        return ({name: outcomes[name] for name in clients if name in outcomes},
                {name: failures[name] for name in clients if name in failures})


def _join(thread: threading.Thread, seconds: float) -> bool:
    thread.join(seconds)
    return not thread.is_alive()


def _renamed(item: Named, name: str) -> Named:
    renamed = copy.copy(item)
    renamed.name = name
    return renamed


def _matches(template: ResourceTemplate, uri: str) -> bool:
    try:
        return Template(template.uri_template).match(uri) is not None
    except ValueError:
        return False  # a template that this package cannot match: the caller has to name the server


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
