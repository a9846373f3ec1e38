"""nginx or haproxy in front of a server, as docs/deploying.rst has it: without and with a bound for each client.

``attacks.py`` starts one in front of each server that it attacks.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from typing import Iterator, Optional

__all__ = ["FRONTS", "is_installed", "running"]

#: Seconds for the start and for the end.
_PATIENCE = 30.0
_NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/front.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 100000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  {zone}
  upstream mcp {{ server 127.0.0.1:{behind}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      {bound}
      proxy_pass http://mcp; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_read_timeout 60s;
      proxy_next_upstream error timeout; client_max_body_size 16m;
    }}
  }}
}}
"""
_HAPROXY = """
global
    maxconn 4096
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout http-request 10s
    option forwardfor
frontend front
    bind 127.0.0.1:{port} backlog 4096
    {bound}
    default_backend mcp
backend mcp
    server one 127.0.0.1:{behind}
"""
#: Connections that one client may have at the same time, where they are bounded.
_MOST = 32
_NGINX_BOUND = {"zone": "limit_conn_zone $binary_remote_addr zone=clients:10m;", "bound": f"limit_conn clients {_MOST};"}
_HAPROXY_BOUND = """stick-table type ipv6 size 100k expire 1m store conn_cur
    tcp-request connection track-sc0 src
    tcp-request connection reject if { sc_conn_cur(0) gt %d }""" % _MOST
#: Each front: the program, its configuration, and what differs in it.
FRONTS = {
    "nginx": ("nginx", _NGINX, {"zone": "", "bound": ""}),
    "nginx-bounded": ("nginx", _NGINX, _NGINX_BOUND),
    "haproxy": ("haproxy", _HAPROXY, {"bound": ""}),
    "haproxy-bounded": ("haproxy", _HAPROXY, {"bound": _HAPROXY_BOUND}),
}
#: The arguments of each program before the name of its configuration.
_ARGUMENTS = {"nginx": ("-c",), "haproxy": ("-q", "-db", "-f")}


def _path(name: str) -> Optional[str]:
    return shutil.which(FRONTS[name][0], path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


def is_installed(name: str) -> bool:
    """Whether the program is there."""
    return _path(name) is not None


@contextlib.contextmanager
def running(name: str, behind: int, folder: str) -> Iterator[int]:
    """Run a proxy in front of a port until the end of the block; the value is its own port.

    :param name: of FRONTS.
    :param folder: an empty one, for its files.
    :raises RuntimeError: it is not installed, or has not started.
    """
    path, (program, text, variant) = _path(name), FRONTS[name]
    if path is None:
        raise RuntimeError(f"{program} is not there; tests/interop/install.sh installs it")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config, log = os.path.join(folder, "front.conf"), os.path.join(folder, "front.out")
    with open(config, "w", encoding="ascii") as file:
        file.write(text.format(folder=folder, port=port, behind=behind, **variant))
    with open(log, "wb") as output, subprocess.Popen([path, *_ARGUMENTS[program], config], stdin=subprocess.DEVNULL,
                                                     stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            _wait_for(process, port, log)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_for(process: "subprocess.Popen[bytes]", port: int, log: str) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                with open(log, encoding="utf-8", errors="replace") as file:
                    raise RuntimeError(f"the proxy has not started: {file.read()}") from None
            time.sleep(0.05)
