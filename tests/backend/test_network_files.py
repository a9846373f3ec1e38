"""File systems on which SQLite cannot be shared."""

import os

import pytest

from mcplite.backend import sqlite
from mcplite.backend.network_files import network_file_system
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
