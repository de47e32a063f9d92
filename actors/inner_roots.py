"""Folders inside a root that were roots of other hosts: derived files there may hold a copy of what a session says."""

from __future__ import annotations

from ..events.stores.base import Ref
from ..events.stores.files import FileStore
from ..events.stores.files.names import folders_between


def inner_roots(store: FileStore, ref: Ref) -> list[tuple[str, Ref]]:
    """Return the folders between a session and the root, without the root, and the session's name in each."""
    path = store.disk.real_path(store.path_of(ref))
    if not path.startswith(store.root.rstrip("/") + "/"):
        return []
    return [(folder, path[len(folder) + 1 :]) for folder in folders_between(store.root, path)[:-1]]
