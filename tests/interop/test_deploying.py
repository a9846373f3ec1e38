"""The configurations of docs/deploying.rst serve clients: gunicorn and uWSGI, each alone and behind nginx."""

import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import sysconfig
import time

import pytest
import requests

import mcplite
from tests.support.callers import LIMIT, free_port
from tests.support.processes import ROOT

pytestmark = [pytest.mark.interop, pytest.mark.skipif(os.name != "posix", reason="POSIX only")]
PAGE = (ROOT / "docs" / "deploying.rst").read_text("utf-8")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
#: What nginx needs around the page's configuration to run for a user who is not root.
NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr; events {}
http {
  access_log off;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  %s
}
"""


def file_of_page(name):
    """Return the file that the page shows under a caption."""
    found = re.search(rf"^\.\. code-block:: \w+\n   :caption: {re.escape(name)}\n\n((?:   .*\n|\n)+)", PAGE, re.MULTILINE)
    return re.sub("^   ", "", found.group(1), flags=re.MULTILINE)


@contextlib.contextmanager
def running(command, port, folder, **variables):
    """Run a program that listens at a port, until the end of the block."""
    log = folder / f"{port}.log"
    with open(log, "wb") as output:
        process = subprocess.Popen(command, cwd=str(folder), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env={**os.environ, **variables})
    try:
        until = time.monotonic() + LIMIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, log.read_text("utf-8", "replace")
                time.sleep(0.05)
        yield
        assert process.poll() is None, log.read_text("utf-8", "replace")
    finally:
        process.terminate()
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(LIMIT)


def gunicorn(folder, port):
    (folder / "gunicorn.conf.py").write_text(file_of_page("gunicorn.conf.py").replace("127.0.0.1:8001", f"127.0.0.1:{port}"))
    return [sys.executable, "-m", "gunicorn", "shop:application"]


def uwsgi(folder, port):
    program = shutil.which("uwsgi", path=PATH)
    if program is None or sys.version_info[:2] != (3, 11):
        pytest.skip("no uWSGI for this Python")
    (folder / "uwsgi.ini").write_text(file_of_page("uwsgi.ini").replace("127.0.0.1:8002", f"127.0.0.1:{port}"))
    return [program, "--plugins=python3", "--ini=uwsgi.ini"]


@pytest.mark.parametrize("server", [gunicorn, uwsgi])
def test_a_client_is_asked_through_nginx(server, tmp_path):
    nginx = shutil.which("nginx", path=PATH)
    if nginx is None:
        pytest.skip("no nginx; tests/interop/install.sh installs it")
    port, behind = free_port(), free_port()
    site = file_of_page("mcp.conf").replace("listen 80;", f"listen 127.0.0.1:{port};")
    assert f"127.0.0.1:{port};" in site and "server 127.0.0.1:8001;" in site
    site = site.replace("127.0.0.1:8001", f"127.0.0.1:{behind}")
    if server is uwsgi:
        said = "``include uwsgi_params; uwsgi_pass 127.0.0.1:8002; uwsgi_read_timeout 60s;``"
        assert said in PAGE
        site = re.sub(r"proxy_pass .*?proxy_next_upstream [^;]*;", said.strip("`"), site, flags=re.DOTALL).replace(
            "uwsgi_params", "/etc/nginx/uwsgi_params").replace("127.0.0.1:8002", f"127.0.0.1:{behind}")
    (tmp_path / "nginx.conf").write_text(NGINX % site)
    # The page's host has no address here.
    (tmp_path / "shop.py").write_text(file_of_page("shop.py").replace("mcp.example.com", "127.0.0.1"))
    variables = {name: value for name, _, value in (line.partition("=") for line in file_of_page("shop.env").split())}
    assert set(variables) == {"MCPLITE_BACKEND", "MCPLITE_STATE_KEYS"}
    variables = {"MCPLITE_BACKEND": f"sqlite:///{tmp_path}/shop.db", "MCPLITE_STATE_KEYS": secrets.token_hex(16)}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(tmp_path), sysconfig.get_path("purelib"),
                                               *(path for path in sys.path if path.endswith("site-packages"))])
    with running(server(tmp_path, behind), behind, tmp_path, **variables):
        with running([nginx, "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr"], port, tmp_path):
            assert requests.get(f"http://127.0.0.1:{port}/health", timeout=LIMIT).text == "ok\n"
            url = f"http://127.0.0.1:{port}/mcp"
            with mcplite.connect(url, timeout=LIMIT, elicitation_handler=lambda request: {}) as client:
                for _ in range(5):
                    assert client.call_tool("buy", {"article": "tea"}).text == "accept"
