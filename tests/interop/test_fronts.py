"""Ambiguous requests through real proxies: none makes a server see a request that its proxy has not sent.

Each proxy gives every request a mark of its own. A request that arrives without a mark, or with another one's, was
smuggled. After each message an ordinary caller asks through the same connections, and must get the answer to its own
request.

In a run of all tests each pair of proxy and server gets its share of the messages; with MCPLITE_CHAOS=whole, as
``make chaos`` sets it, all of them.
"""

import contextlib
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from tests.support.ambiguous import MESSAGES, plain
from tests.support.processes import LIMIT, free_port, running

pytestmark = [pytest.mark.interop, pytest.mark.skipif(os.name != "posix", reason="POSIX only")]
HERE = Path(__file__).resolve().parent
WHOLE = os.environ.get("MCPLITE_CHAOS") == "whole"
#: Seconds for the first byte of an answer to a message, and for another answer behind it. Many get none.
FIRST, NEXT = 0.3, 0.05

NGINX = """
daemon off; master_process off; pid %(folder)s/nginx.pid; error_log %(folder)s/front.log; events {}
http {
  access_log off; keepalive_requests 100000;
  client_body_temp_path %(folder)s/t1; proxy_temp_path %(folder)s/t2; fastcgi_temp_path %(folder)s/t3;
  uwsgi_temp_path %(folder)s/t4; scgi_temp_path %(folder)s/t5;
  upstream behind { server 127.0.0.1:%(behind)d; keepalive 1; }
  server {
    listen 127.0.0.1:%(port)d; %(options)s
    location / {
      proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host localhost;
      proxy_set_header X-Front $request_id; %(proxying)s
    }
  }
}
"""
HAPROXY = """
defaults
    mode http
    timeout connect 10s
    timeout client 10s
    timeout server 10s
    http-reuse always
    %(options)s
frontend front
    bind 127.0.0.1:%(port)d
    http-request set-header X-Front %%[uuid()]
    default_backend behind
backend behind
    server behind 127.0.0.1:%(behind)d
"""
LENIENT = "ignore_invalid_headers off; underscores_in_headers on; merge_slashes off;"
#: The program, its configuration, and what a variant has in it.
FRONTS = {
    "nginx": ("nginx", NGINX, {"options": "", "proxying": ""}),
    "nginx, lenient": ("nginx", NGINX, {"options": LENIENT, "proxying": "proxy_request_buffering off;"}),
    "haproxy": ("haproxy", HAPROXY, {"options": ""}),
    "haproxy, lenient": ("haproxy", HAPROXY, {"options": "option accept-invalid-http-request"}),
}
SERVERS = {
    "our server": [sys.executable, str(HERE / "behind_front.py"), "PORT"],
    "gunicorn": [sys.executable, "-m", "gunicorn", "--worker-class", "gthread", "--threads", "8", "--keep-alive", "60",
                 "--bind", "127.0.0.1:PORT", "behind_front:application"],
    "waitress": [sys.executable, "-m", "waitress", "--threads", "8", "--listen", "127.0.0.1:PORT", "behind_front:application"],
}
PAIRS = [(front, server) for front in FRONTS for server in SERVERS]


@pytest.fixture
def front(request, tmp_path):
    """The port of a proxy in front of a server, and the folder for what the server sees."""
    name, server = request.param
    program, text, variant = FRONTS[name]
    if shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin") is None:
        pytest.skip(f"{program} is not there; tests/interop/install.sh installs it")
    port, behind = free_port(), free_port()
    config = tmp_path / "front.conf"
    config.write_text(text % {"folder": tmp_path, "port": port, "behind": behind, **variant})
    command = [word.replace("PORT", str(behind)) for word in SERVERS[server]]
    options = ["-c", str(config)] if program == "nginx" else ["-q", "-db", "-f", str(config)]
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    with running(command, HERE, behind, BEHIND_FRONT=str(tmp_path)) as (_, said):
        with running([path, *options], tmp_path, port):
            yield port, tmp_path
    assert b"mcplite/" not in b"".join(said), "a request has filled the log with a traceback"


def exchange(port, data, first, then):
    """Send bytes, and return what came back before the connection was quiet."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
        sock.sendall(data)
        sock.settimeout(first)
        while True:
            piece = sock.recv(65_536)
            if not piece:
                break
            answer += piece
            sock.settimeout(then)
    return answer


@pytest.mark.timeout(900)
@pytest.mark.parametrize("front", PAIRS, indirect=True, ids=[" and ".join(pair) for pair in PAIRS])
def test_no_request_is_smuggled_past_a_proxy(front, request):
    port, folder = front
    number = PAIRS.index(request.node.callspec.params["front"])
    names = list(MESSAGES)[slice(None) if WHOLE else slice(number, None, len(PAIRS))]
    wrong, answers = [], {}
    for index, name in enumerate(["nothing", *names]):
        if name in MESSAGES:
            answers[name] = exchange(port, MESSAGES[name], FIRST, NEXT)[9:12].decode("latin-1") or "none"
        key = f"caller-{index}"
        answer = exchange(port, plain(key), LIMIT, LIMIT)
        if answer.startswith(b"HTTP/1.1 502 "):
            # The server has closed the connection that the proxy was about to use again.
            print(f"502 after {name}")
            answer = exchange(port, plain(key), LIMIT, LIMIT)
        if key[::-1].encode() not in answer or answer.count(b"HTTP/1.1 ") != 1:
            wrong.append((name, answer[-300:]))
    marks = (folder / "seen").read_text("utf-8").split()
    print({status: sum(found == status for found in answers.values()) for status in sorted(set(answers.values()))})
    assert "-" not in marks and len(marks) == len(set(marks)), "a request arrived that the proxy has not sent"
    assert wrong == [], "a caller got no answer, or that of another request"
    # The messages do reach the server: not all of them are refused by the proxy.
    assert len(marks) > len(names) + 1
