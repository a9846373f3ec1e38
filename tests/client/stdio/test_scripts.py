import gc
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mcplite
from mcplite.client.stdio.scripts import interpreter, starts_server

GUARD = "if __name__ == '__main__':\n    "


@pytest.mark.parametrize("text", [
    "mcp.run()\n",
    GUARD + "mcp.run()\n",
    GUARD + "mcp.run('stdio')\n",
    "def main():\n    mcp.run(transport='stdio')\n\n" + GUARD + "main()\n",
    "import sys\ndef main():\n    return app.run()\n" + GUARD + "sys.exit(main())\n",
    """
    async def main():
        async with stdio_server() as streams:
            await server.run(*streams)
    asyncio.run(main())
    """,
    "async def main():\n    await mcp.run_stdio_async()\n" + GUARD + "anyio.run(main)\n",
    "from mcp_server_git import main\n" + GUARD + "main()\n",
    "from zeromcp import run_stdio\nrun_stdio(server)\n",
    "import sys\nfor line in sys.stdin:\n    print(line)\n",
    "try:\n    with lock:\n        mcp.serve()\nfinally:\n    lock.close()\n",
    "def first():\n    second()\ndef second():\n    mcp.run()\nfirst()\n",
    "this is no Python\n",
    "\0",
    "(" * 1000,
])
def test_a_file_that_starts_a_server(text):
    for source in read_alike(textwrap.dedent(text)):
        assert starts_server(source)


def test_files_are_read_on_many_threads_at_once():
    # The garbage collector may run in the middle of the parser, and what it runs may let another thread go on.
    source = ("x = [1, 2, 3]\n" * 300 + "mcp.run()\n").encode()

    def pause(phase, info):
        time.sleep(0.0001)

    before = gc.get_threshold()
    gc.callbacks.append(pause)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(starts_server, [source] * 16))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(pause)


def read_alike(text):
    """The same file as different editors write it."""
    yield text.encode()
    yield b"\xef\xbb\xbf" + text.encode()
    yield b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    yield b"# -*- coding: latin-1 -*- \xe9\n" + text.encode()


@pytest.mark.parametrize("text", [
    "",
    "import mcplite\nmcp = mcplite.Server('x')\n",
    "def double(n: int) -> int:\n    return 2 * n\n\n" + GUARD + "print(double(21))\n",
    GUARD + "pass\n",
    GUARD + "unittest.main()\n",
    "import subprocess\nVERSION = subprocess.run(['git', 'describe'])\n",
    "def build(name: str) -> str:\n    return subprocess.run([name])\n",
    "def query(sql: str) -> list:\n    return db.run(sql)\n",
    "def start():\n    mcp.run()\n",
    "class Tool:\n    def go(self):\n        self.run()\n",
    "# if __name__ == '__main__': mcp.run()\n'mcp.run()'\n",
    "def loop():\n    loop()\nloop()\n",
    "async def main():\n    print('hi')\n" + GUARD + "asyncio.run(main())\n",
])
def test_a_file_that_starts_none(text):
    for source in read_alike(textwrap.dedent(text)):
        assert not starts_server(source)


#: Where an installation has its interpreter.
PLACE = "python.exe" if os.name == "nt" else "bin/python{}.{}".format(*sys.version_info)


@pytest.fixture
def brought(tmp_path, monkeypatch):
    """An interpreter that an application has brought with it."""
    path = tmp_path / "app" / PLACE
    path.parent.mkdir(parents=True)
    path.write_text("")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "app"))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "app"))
    return path


def test_it_is_the_python_of_this_program():
    assert interpreter() == sys.executable
    ran = subprocess.run([interpreter(), "-c", "import sys; print(sys.prefix)"], stdout=subprocess.PIPE, timeout=60)
    assert ran.stdout.decode().strip() == sys.prefix


@pytest.mark.parametrize("name", ["python", "python3.12", "Python.exe", "pypy3", "mayapy", "hython", "pythonw.exe"])
def test_interpreters_are_known_by_their_names(name, monkeypatch):
    monkeypatch.setattr(sys, "executable", f"/opt/{name}")
    assert interpreter() == f"/opt/{name}"


@pytest.mark.parametrize("executable", ["/opt/hfs/bin/houdini-bin", "/usr/bin/qgis", "/Applications/Blender", "", None])
def test_an_application_has_brought_one(executable, brought, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable)
    assert Path(interpreter()) == brought


def test_without_one_the_error_says_what_to_give(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/usr/bin/qgis")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    server = tmp_path / "server.py"
    server.write_text("import mcplite\n\nmcplite.Server('x').run()\n")
    with pytest.raises(mcplite.TransportError, match=r"this program is /usr/bin/qgis.*connect\(\['/path/to/python'"):
        mcplite.connect(str(server))
    monkeypatch.setattr(sys, "executable", None)
    with pytest.raises(mcplite.TransportError, match="does not know which program it runs in"):
        mcplite.connect("module:mcp")


def test_a_frozen_program_is_no_interpreter(brought, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/opt/pyapp")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(mcplite.TransportError, match="no Python interpreter"):
        interpreter()
