"""The configurations of docs/deploying.rst serve clients: gunicorn and uWSGI behind nginx, waitress behind Caddy, mod_wsgi."""

import contextlib
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
import requests

import mcplite
from tests.support.processes import LIMIT, ROOT, free_port, running

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


def gunicorn(folder, port):
    (folder / "gunicorn.conf.py").write_text(file_of_page("gunicorn.conf.py").replace("127.0.0.1:8001", f"127.0.0.1:{port}"))
    return [sys.executable, "-m", "gunicorn", "shop:application"]


def uwsgi(folder, port):
    program = shutil.which("uwsgi", path=PATH)
    if program is None or sys.version_info[:2] != (3, 11):
        pytest.skip("no uWSGI for this Python")
    (folder / "uwsgi.ini").write_text(file_of_page("uwsgi.ini").replace("127.0.0.1:8002", f"127.0.0.1:{port}"))
    return [program, "--plugins=python3", "--ini=uwsgi.ini"]


def silent_uwsgi(folder, port):
    """Start it so that it does not tell Python of its forks, as it does by default."""
    command = uwsgi(folder, port)
    page = (folder / "uwsgi.ini").read_text()
    assert "py-call-uwsgi-fork-hooks = true\n" in page
    (folder / "uwsgi.ini").write_text(page.replace("py-call-uwsgi-fork-hooks = true\n", ""))
    return command


def write_shop(folder, **options):
    """Write the page's application, which accepts this machine's name, and return the variables for its server.

    :param options: of the server.
    """
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    text = file_of_page("shop.py").replace("mcp.example.com", "127.0.0.1")  # the page's host has no address here
    assert '"shop")' in text
    (folder / "shop.py").write_text(text.replace('"shop")', f'"shop"{given})'))
    path = os.pathsep.join([str(ROOT), str(folder), *packages()])
    return {"MCPLITE_BACKEND": f"sqlite:///{folder}/shop.db", "MCPLITE_STATE_KEYS": secrets.token_hex(16), "PYTHONPATH": path}


def packages():
    return [sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith("site-packages"))]


def check(port):
    """Be asked by a tool, through each process that a balancer chooses."""
    assert requests.get(f"http://127.0.0.1:{port}/health", timeout=LIMIT).text == "ok\n"
    for revision in ("2025-11-25", "2026-07-28"):
        with mcplite.connect(f"http://127.0.0.1:{port}/mcp", timeout=LIMIT, revision=revision,
                             elicitation_handler=lambda request: {}) as client:
            for _ in range(5):
                assert client.call_tool("buy", {"article": "tea"}).text == "accept"


@pytest.fixture
def nginx():
    found = shutil.which("nginx", path=PATH)
    if found is None:
        pytest.skip("no nginx; tests/interop/install.sh installs it")
    return found


@pytest.mark.parametrize("server", [gunicorn, uwsgi, silent_uwsgi])
def test_a_client_is_asked_through_nginx(nginx, server, tmp_path):
    port, behind = free_port(), free_port()
    site = file_of_page("mcp.conf").replace("listen 80;", f"listen 127.0.0.1:{port};")
    assert f"127.0.0.1:{port};" in site and "server 127.0.0.1:8001;" in site
    site = site.replace("127.0.0.1:8001", f"127.0.0.1:{behind}")
    if server is not gunicorn:
        said = "``include uwsgi_params; uwsgi_pass 127.0.0.1:8002; uwsgi_read_timeout 60s;``"
        assert said in PAGE
        site = re.sub(r"proxy_pass .*?proxy_next_upstream [^;]*;", said.strip("`"), site, flags=re.DOTALL).replace(
            "uwsgi_params", "/etc/nginx/uwsgi_params").replace("127.0.0.1:8002", f"127.0.0.1:{behind}")
    (tmp_path / "nginx.conf").write_text(NGINX % site)
    variables = {name: value for name, _, value in (line.partition("=") for line in file_of_page("shop.env").split())}
    assert set(variables) == {"MCPLITE_BACKEND", "MCPLITE_STATE_KEYS"}
    with running(server(tmp_path, behind), tmp_path, behind, **write_shop(tmp_path)) as (_, said):
        with running([nginx, "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr"], tmp_path, port):
            check(port)
    assert b"Traceback" not in b"".join(said)


@pytest.mark.parametrize("server", ["our own", "gunicorn", "gunicorn, unix"])
def test_the_address_of_a_client_passes_nginx(nginx, server, tmp_path):
    port, behind = free_port(), free_port()
    site = file_of_page("mcp.conf").replace("listen 80;", f"listen 127.0.0.1:{port};").replace("127.0.0.1:8001", (
        f"unix:{tmp_path}/mcp.sock" if "unix" in server else f"127.0.0.1:{behind}"))
    (tmp_path / "nginx.conf").write_text(NGINX % site)
    (tmp_path / "where.py").write_text(
        "import mcplite\n\nmcp = mcplite.Server('where')\n\n\n@mcp.tool\ndef where(ctx: mcplite.Context) -> str:\n"
        "    return ctx.http.remote\n\n\n"
        "application = mcp.wsgi('/mcp', allowed_hosts=['127.0.0.1'], trusted_proxies=['127.0.0.1', 'unix'])\n")
    if server == "our own":
        command = [sys.executable, "-m", "mcplite.server", "where.py", "--http", str(behind), "--trust-proxy", "127.0.0.1"]
    else:
        places = [f"127.0.0.1:{behind}", *([f"unix:{tmp_path}/mcp.sock"] if "unix" in server else [])]
        command = [sys.executable, "-m", "gunicorn", "--worker-class=gthread", "--threads=4", "where:application",
                   *(f"--bind={place}" for place in places)]
    path = os.pathsep.join([str(ROOT), str(tmp_path), *packages()])
    with running(command, tmp_path, behind, PYTHONPATH=path):
        with running([nginx, "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr"], tmp_path, port):
            for revision in ("2025-11-25", "2026-07-28"):
                for address in ("127.0.0.2", "127.0.0.3"):
                    session = requests.Session()
                    session.mount("http://", _From(address))
                    with mcplite.connect(f"http://127.0.0.1:{port}/mcp", timeout=LIMIT, revision=revision, session=session,
                                         headers={"X-Forwarded-For": "198.51.100.9"}) as client:
                        assert client.call_tool("where").text == address


class _From(requests.adapters.HTTPAdapter):
    """Makes connections from an address of this machine."""

    def __init__(self, address):
        self._address = address
        super().__init__()

    def init_poolmanager(self, *args, **options):
        super().init_poolmanager(*args, source_address=(self._address, 0), **options)


def test_caddy_in_front_of_two_processes_of_waitress(tmp_path):
    pytest.importorskip("waitress")
    caddy = shutil.which("caddy", path=PATH)
    if caddy is None:
        pytest.skip("no Caddy; tests/interop/install.sh installs it")
    port, *behind = (free_port() for _ in range(3))
    said = "waitress-serve --threads 64 --channel-request-lookahead 1 --listen 127.0.0.1:8001 shop:application"
    assert f"$ {said}\n" in PAGE
    site = file_of_page("Caddyfile")
    assert "mcp.example.com {" in site and "reverse_proxy 127.0.0.1:8001 {" in site
    version = subprocess.run([caddy, "version"], stdout=subprocess.PIPE, timeout=LIMIT, check=True).stdout.decode()
    if [int(number) for number in re.findall(r"\d+", version)[:3]] < [2, 6, 3]:
        site = site.replace("request_buffers 4MiB", "buffer_requests")
    # A certificate would be asked for from the network.
    site = site.replace("mcp.example.com {", f"http://127.0.0.1:{port} {{").replace(
        "127.0.0.1:8001", " ".join(f"127.0.0.1:{number}" for number in behind))
    (tmp_path / "Caddyfile").write_text("{\n admin off\n auto_https off\n}\n" + site)
    variables = write_shop(tmp_path)
    with contextlib.ExitStack() as stack:
        for number in behind:
            words = said.replace("8001", str(number)).split()
            words[0] = "waitress"  # the module of the command
            stack.enter_context(running([sys.executable, "-m", *words], tmp_path, number, **variables))
        stack.enter_context(running([caddy, "run", "--config", "Caddyfile", "--adapter", "caddyfile"], tmp_path, port,
                                    HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path)))
        check(port)


#: What Apache needs around the page's configuration.
APACHE = """
ServerRoot %(folder)s
ServerName 127.0.0.1
Listen 127.0.0.1:%(port)s
PidFile %(folder)s/apache.pid
ErrorLog /dev/stderr
WSGISocketPrefix %(folder)s/wsgi
DefaultRuntimeDir %(folder)s
LoadModule mpm_event_module %(modules)s/mod_mpm_event.so
LoadModule authz_core_module %(modules)s/mod_authz_core.so
LoadModule wsgi_module %(modules)s/mod_wsgi.so
%(user)s
%(site)s
"""


def test_mod_wsgi():
    apache, modules = shutil.which("apache2", path=PATH), "/usr/lib/apache2/modules"
    if apache is None or not os.path.exists(f"{modules}/mod_wsgi.so-{sys.version_info[0]}.{sys.version_info[1]}"):
        pytest.skip("no Apache with mod_wsgi for this Python")
    if os.getuid() == 0 and not all(os.stat(folder).st_mode & stat.S_IXOTH for path in [ROOT, *map(Path, packages())]
                                    for folder in [path, *path.parents]):
        pytest.skip("the user of Apache cannot reach the files of this checkout")
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        site = file_of_page("shop.conf")
        assert "WSGIDaemonProcess shop " in site and "/srv/shop/shop.py" in site
        site = site.replace("/srv/shop", name).replace(
            "WSGIDaemonProcess shop ", f"WSGIDaemonProcess shop python-path={':'.join([str(ROOT), *packages()])} ")
        # Apache, started by root, runs the application as another user.
        user = "User www-data\nGroup www-data" if os.getuid() == 0 else ""
        if user:
            shutil.chown(name, "www-data")
        (folder / "apache.conf").write_text(
            APACHE % {"folder": name, "port": port, "modules": modules, "site": site, "user": user})
        write_shop(folder, backend=f"sqlite:///{name}/shop.db", state_keys=[secrets.token_hex(16)])
        with running([apache, "-D", "FOREGROUND", "-f", f"{name}/apache.conf"], folder, port):
            check(port)
