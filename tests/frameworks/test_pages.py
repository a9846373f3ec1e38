"""The files on the pages about Django and about workers, each in the program that it is for."""

import concurrent.futures
import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from tests.support.forks import LIMIT, POSIX_ONLY
from tests.support.pages import files_of, write_files
from tests.support.processes import ROOT, free_port, running, serving

pytestmark = pytest.mark.one_python
#: Python 3.12 and newer warn of forks of a process with threads.
QUIET = ["-W", "ignore::DeprecationWarning"]


def run(words, folder, **variables):
    """Run a program to its end, and return its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), **variables}
    ran = subprocess.run([sys.executable, *words], cwd=str(folder), env=environment, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=3 * LIMIT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


# --- Django ----------------------------------------------------------------------------------------------------------

#: What a new project has, besides the files of the page.
PROJECT = {
    "shop/__init__.py": "", "shop/models.py": """
from django.db import models

class Order(models.Model):
    article = models.CharField(max_length=100)
""", "shop/settings.py": """
SECRET_KEY = "for a test"
ROOT_URLCONF = "shop.urls"
USE_TZ = True
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions", "shop"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware",
              "django.contrib.auth.middleware.AuthenticationMiddleware"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db", "OPTIONS": {"timeout": 30},
                         "TEST": {"NAME": "test.db"}}}
""", "manage.py": """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
execute_from_command_line(sys.argv)
"""}


@pytest.fixture
def project(tmp_path):
    write_files(PROJECT, tmp_path)
    files = files_of("django")
    assert set(files) == {"shop/mcp.py", "shop/urls.py", "shop/settings.py", "shop/staff.py", "shop/tests.py"}
    write_files(files, tmp_path)
    more = "\nfrom .staff import staff_view\nurlpatterns.append(path(\"staff\", staff_view))\n"
    write_files({"shop/urls.py": more}, tmp_path)
    return tmp_path


def test_the_project_of_the_page_about_django(project):
    assert "Ran 3 tests" in run(["manage.py", "test", "shop"], project)
    run(["manage.py", "migrate", "--run-syncdb", "--verbosity=0"], project)
    program = [sys.executable, str(project / "manage.py"), "mcp"]
    with mcplite.connect(program, env={"PYTHONPATH": str(ROOT)}, cwd=str(project), timeout=LIMIT) as client:
        assert client.call_tool("orders").data == []


# --- workers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop():
    """The URL of the server that the clients of the page use."""
    mcp = mcplite.Server("shop")

    @mcp.tool
    def price(article: str) -> int:
        return len(article)

    with mcplite.serve(mcp) as server:
        yield server.url


@pytest.fixture
def folder(tmp_path):
    files = files_of("workers")
    assert set(files) == {"calculator.py", "tasks.py", "jobs.py", "worker.py", "prices.py", "front.py"}
    write_files(files, tmp_path)
    return tmp_path


SEND = """
import json
import tasks
sent = [tasks.price.delay("x" * number) for number in range(12)] + [tasks.add.delay(number, 1) for number in range(12)]
print(json.dumps([result.get(timeout=60) for result in sent]))
tasks.shop.close()
"""


@POSIX_ONLY
def test_the_tasks_of_celery(folder, shop):
    pytest.importorskip("celery")
    for name in ("queue", "control", "results"):
        (folder / name).mkdir()
    write_files({"celeryconfig.py": f"""
broker_url, result_backend = "filesystem://", "file://{folder / 'results'}"
broker_transport_options = {{"data_folder_in": "{folder / 'queue'}", "data_folder_out": "{folder / 'queue'}",
                            "control_folder": "{folder / 'control'}"}}
broker_connection_retry_on_startup, worker_hijack_root_logger, task_ignore_result = False, False, False
"""}, folder)
    words = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tasks", "worker", "--pool=prefork", "--concurrency=2",
             "--without-mingle", "--without-gossip", "--without-heartbeat"]
    with running(words, folder, SHOP_URL=shop):
        said = run(["-W", "ignore", "-c", SEND], folder, SHOP_URL=shop)
    assert json.loads(said.splitlines()[0]) == [*range(12), *range(1, 13)]


@pytest.fixture
def redis(tmp_path):
    """The URL of a Redis of the test's own."""
    pytest.importorskip("redis", reason="redis-py is not installed")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    port = free_port()
    with running([program, "--port", str(port), "--save", "", "--dir", str(tmp_path)], tmp_path, port):
        yield f"redis://127.0.0.1:{port}/0"


ENQUEUE = """
import os
from redis import Redis
from rq import Queue
queue = Queue(connection=Redis.from_url(os.environ["QUEUE_URL"]))
for words in [("jobs.price", "tea"), ("jobs.add", 3, 4), ("jobs.price", "coffee")]:
    print(queue.enqueue(*words).id)
"""
COLLECT = """
import os, sys
from redis import Redis
from rq.job import Job
for id in sys.argv[1:]:
    print(Job.fetch(id, connection=Redis.from_url(os.environ["QUEUE_URL"])).return_value())
"""


@POSIX_ONLY
def test_the_jobs_of_rq(folder, shop, redis):
    pytest.importorskip("rq", reason="rq is in the extra stack")
    ids = run(["-c", ENQUEUE], folder, QUEUE_URL=redis).split()
    run(["-W", "ignore", "worker.py"], folder, QUEUE_URL=redis, SHOP_URL=shop, BURST="1")
    assert run(["-c", COLLECT, *ids], folder, QUEUE_URL=redis).split() == ["3", "7", "6"]


@POSIX_ONLY
def test_the_pool_of_multiprocessing(folder, shop):
    assert "[3, 6, 5]" in run([*QUIET, "prices.py"], folder, SHOP_URL=shop)


@POSIX_ONLY
def test_the_application_of_gunicorn_that_is_preloaded(folder, shop):
    command = [sys.executable, *QUIET, "-m", "gunicorn", "--preload", "--bind=127.0.0.1:PORT", "--worker-class=gthread",
               "--threads=8", "--workers=3", "--graceful-timeout=5", "front:application"]
    with serving(command, Path(folder), SHOP_URL=shop, STATE_KEY=secrets.token_hex(16)) as url:
        with mcplite.connect(url + "mcp", options=mcplite.ClientOptions(era="modern"), timeout=LIMIT,
                             elicitation_handler=lambda request: True) as client:
            with concurrent.futures.ThreadPoolExecutor(8) as threads:
                texts = list(threads.map(lambda _: client.call_tool("offer", {"article": "tea"}).text, range(16)))
    assert all(text.startswith("accept in process ") for text in texts)
