import os
import subprocess
import sys
from pathlib import Path

import pytest

import mcplite
from mcplite.client.stdio.interpreter import interpreter

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
