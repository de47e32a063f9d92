"""The one place outside the file store that makes one; callers use it as a `Store` with capabilities."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..disk import Disk
from ..offload import Offload
from .base import Store
from .files import Durability, FileStore, Writes

__all__ = ["Durability", "Writes", "file_store"]


def file_store(
    root: str | os.PathLike[str],
    *,
    durability: Durability = "os",
    writes: Writes = "auto",
    disk: Disk | None = None,
    offload: Offload | None = None,
    new_id: Callable[[], str] | None = None,
) -> Store:
    """Return the store of the logs in a folder.

    Args:
        root: The folder; it need not exist yet.
        durability: What an acknowledged append survives.
        writes: Where appends are written.
        disk: The file system calls; by default those of the system.
        offload: Runs blocking work; by default in threads.
        new_id: Returns a new unique id for a journal; by default a random one.

    Raises:
        InvalidInput: The root cannot be used, or an argument is not one of its words.
    """
    if new_id is None:
        return FileStore(root, durability=durability, writes=writes, disk=disk, offload=offload)
    return FileStore(root, durability=durability, writes=writes, disk=disk, offload=offload, new_id=new_id)
