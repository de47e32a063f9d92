"""Folders in a root that were roots of other hosts: what these derived of a session lies there, and says what it said."""

from __future__ import annotations

from ..events.stores.base import Ref
from ..events.stores.files import FileStore
from ..events.stores.files.names import folders_between


def inner_roots(store: FileStore, ref: Ref) -> list[tuple[str, Ref]]:
    """Return the folders between a session and the root, without the root, and what the session is called in each."""
    path = store.disk.real_path(store.path_of(ref))
    if not path.startswith(store.root.rstrip("/") + "/"):
        return []
    return [(folder, path[len(folder) + 1 :]) for folder in folders_between(store.root, path)[:-1]]
