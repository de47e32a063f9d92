"""Where a host gets its store: from a path or a URL.

This is the one place outside the file store that makes one; callers use it as a `Store` with capabilities. Packages
offer stores of other kinds under the entry point group `treering.stores`: the name is the scheme of their URLs, and the
object is called with the URL and the keyword arguments `durability`, `offload` and `new_id`, and returns a `Store`. It
should accept keyword arguments that it does not know.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..arguments import scheme_of, without_file_scheme
from ..disk import Disk
from ..errors import InvalidInput
from ..offload import Offload, ThreadOffload
from .base import Store
from .files import Durability, FileStore, Writes
from .memory import MemoryStore

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = ["Durability", "Writes", "check_scheme", "file_store", "store_at", "store_of_scheme"]

GROUP = "treering.stores"
"""The entry point group of stores of other kinds."""

_OURS = ("file", "memory")


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


def check_scheme(root: str | os.PathLike[str], what: str = "the root") -> None:
    """Refuse a URL of which no store is known, without loading one.

    Args:
        root: A path, or a URL: `file:/path`, `memory:`, or one of an installed store.
        what: The caller's name for it.

    Raises:
        InvalidInput: No installed store has this scheme, or it names something that its store cannot.
    """
    scheme = scheme_of(root)
    if scheme is None:
        return
    assert isinstance(root, str)
    if scheme == "file":
        without_file_scheme(root)
    elif scheme == "memory":
        if root.partition(":")[2]:
            raise InvalidInput("a store in memory has no name: give 'memory:' alone")
    elif scheme not in (names := _installed().names):
        raise InvalidInput(  # the rest is not repeated, since it may hold a password
            f"{what} begins with '{root.partition(':')[0]}:', like an address, but there is no store of this kind; "
            f"there are {', '.join(f'{each}:' for each in sorted({*_OURS, *names}))}; install the package that has it, "
            "give the address of a server to `RemoteHost` or --server, "
            f"or give the path of a directory, './{root.partition(':')[0]}:…' if its name really begins so"
        )


def store_at(root: str, *, new_id: Callable[[], str]) -> Store:
    """Return the store of a path or a URL, of which an acknowledged append survives a power cut where it can.

    Args:
        root: A path, or a URL that `check_scheme` accepted.
        new_id: Returns a new unique id.
    """
    offload = ThreadOffload()
    if scheme_of(root) in (None, "file"):
        return file_store(without_file_scheme(root), durability="file", offload=offload, new_id=new_id)
    return store_of_scheme(root, durability="file", offload=offload, new_id=new_id)


def store_of_scheme(url: str, *, durability: Durability, offload: Offload, new_id: Callable[[], str]) -> Store:
    """Return the store of a URL that `check_scheme` accepted and that is no `file:` URL.

    Args:
        url: The URL.
        durability: What an acknowledged append survives.
        offload: Runs blocking work.
        new_id: Returns a new unique id.

    Raises:
        InvalidInput: What the entry point returned is not a store.
    """
    scheme = scheme_of(url)
    if scheme == "memory":
        return MemoryStore(offload=offload)
    (found, *_) = _installed().select(name=scheme or "")
    store: Store = found.load()(url, durability=durability, offload=offload, new_id=new_id)
    if not callable(getattr(store, "capability", None)):
        raise InvalidInput(f"{found.value!r}, which serves '{scheme}:', returned `{type(store).__name__}`, no store")
    return store


def _installed() -> EntryPoints:
    """Return the installed stores of other kinds."""
    from importlib.metadata import entry_points  # as slow to load as a whole short command, and seldom needed

    return entry_points(group=GROUP)
