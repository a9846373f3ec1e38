"""Tells whether a path is on a network file system, where SQLite's locks and shared memory do not work."""

import os
import sys
from typing import Optional

__all__ = ["network_file_system"]

_KINDS = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.blobfuse2", "fuse.cephfs", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "smb2", "smb3", "smbfs", "vboxsf",
})
_MOUNTS = "/proc/self/mounts"


def network_file_system(path: str, mounts: str = _MOUNTS) -> Optional[str]:
    """Return the kind of the network file system that a path is on; None on a local one, or where this cannot be told.

    :param path: absolute; the file need not exist.
    :param mounts: the list of mounted file systems, as Linux has it.
    """
    if sys.platform == "win32":
        return "a share" if path.startswith("\\\\") else None
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return None  # not on Linux
    folder = os.path.realpath(os.path.dirname(path)).rstrip("/") + "/"
    longest, kind = "", ""
    for line in lines:
        fields = line.split(" ")
        # Spaces and the like are written as octal numbers.
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\").rstrip("/") + "/"
        if folder.startswith(point) and len(point) >= len(longest):  # a later mount covers an earlier one
            longest, kind = point, fields[2]
    return kind if kind in _KINDS else None
