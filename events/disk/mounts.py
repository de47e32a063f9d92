"""The detection of file systems that may block a writer: network file systems and FUSE."""

from __future__ import annotations

import os

from .disk import Disk

_SLOW = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "smb3", "smbfs", "sshfs", "virtiofs"}
)
_known: dict[int, bool] = {}


def is_slow_device(device: int) -> bool:
    """Tell whether a device is a network or FUSE file system; False if the system does not say."""
    slow = _known.get(device)
    if slow is None:
        slow = _known[device] = _look_up(f"{os.major(device)}:{os.minor(device)}")
    return slow


def is_slow_folder(disk: Disk, folder: str) -> bool:
    """Tell the same of a folder, or of the folder in which it will be created."""
    while True:
        try:
            return is_slow_device(disk.stat(folder).device)
        except FileNotFoundError:
            folder = os.path.dirname(folder)


def _look_up(number: str) -> bool:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            for mount in mounts:
                before, _, after = mount.partition(" - ")
                if before.split(" ", 3)[2] == number:
                    kind = after.split(" ", 1)[0]
                    return kind in _SLOW or kind.startswith("fuse")
    except (OSError, IndexError):
        pass
    return False
