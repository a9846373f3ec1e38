"""File systems on which SQLite cannot be shared."""

import os
import shutil
import subprocess
import time

import pytest

from mcplite.backend import sqlite
from mcplite.backend.sqlite import network_file_system
from mcplite.errors import BackendError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX only: mounts")

MOUNTS = """\
/dev/root / ext4 rw 0 0
files:/export /mnt/shared nfs4 rw 0 0
tmpfs /mnt/shared/local tmpfs rw 0 0
//host/share /mnt/with\\040space cifs rw 0 0
/dev/sdb /mnt/covered ext4 rw 0 0
files:/more /mnt/covered nfs rw 0 0
"""


@pytest.mark.parametrize("path, kind", [
    ("/srv/store.db", None), ("/mnt/shared/store.db", "nfs4"), ("/mnt/shared/deep/er/store.db", "nfs4"),
    ("/mnt/shared2/store.db", None), ("/mnt/shared/local/store.db", None), ("/mnt/with space/store.db", "cifs"),
    ("/mnt/covered/store.db", "nfs"),
])
def test_the_mount_that_holds_the_path_decides(tmp_path, path, kind):
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS, "utf-8")
    assert network_file_system(path, str(mounts)) == kind


def test_a_system_without_the_list_is_not_judged(tmp_path):
    assert network_file_system("/mnt/shared/store.db", str(tmp_path / "missing")) is None


def test_sqlite_refuses_one_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "network_file_system", lambda path: "nfs4")
    with pytest.raises(BackendError, match=r"network file system \(nfs4\).*redis://"):
        sqlite.SQLiteBackend(str(tmp_path / "store.db"))


SFTP_SERVER = "/usr/lib/openssh/sftp-server"


@pytest.fixture
def remote_folder(tmp_path):
    """A folder that sshfs mounts, over pipes to a server of SFTP in the place of ssh."""
    if shutil.which("sshfs") is None or not os.path.exists(SFTP_SERVER) or os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("no sshfs, no server of SFTP, or not root")
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    down, up = os.pipe(), os.pipe()
    server = subprocess.Popen([SFTP_SERVER], stdin=up[0], stdout=down[1])
    mount = subprocess.Popen(["sshfs", "-f", "-o", "passive", f":{tmp_path / 'there'}", str(tmp_path / "here")], stdin=down[0],
                             stdout=up[1])
    for descriptor in (*down, *up):
        os.close(descriptor)
    try:
        until = time.monotonic() + 60
        while not os.path.ismount(tmp_path / "here"):
            assert mount.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        yield tmp_path / "here"
    finally:
        subprocess.run(["umount", "-l", str(tmp_path / "here")], check=True)
        for process in (mount, server):
            process.wait(60)


def test_sqlite_refuses_a_real_one(remote_folder):
    with pytest.raises(BackendError, match=r"here/store.db is on a network file system \(fuse.sshfs\)"):
        sqlite.SQLiteBackend(str(remote_folder / "store.db"))
    assert not os.listdir(remote_folder)
