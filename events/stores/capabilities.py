"""What a store can do beyond the least that every store does: one small protocol each, asked for by name.

`store.capability(Packs)` returns the object that packs the store's logs, or None if the store cannot. Each protocol
says what its absence means. A caller asks once, when it is made, and never inside an append. The class of a store is
not asked for anywhere: a store of a third party that declares a capability is used like ours.

    packs = store.capability(Packs)
    if packs is not None:
        await packs.pack(lease)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar, cast, runtime_checkable

from ..disk import Disk, FileStat
from ..errors import Where
from .base import Append, Lease, Outcome, Peek, Ref

T = TypeVar("T")


def offered(store: object, kind: Callable[..., T], declared: Collection[object]) -> T | None:
    """Return a store as one of the capabilities that it declares; for stores that implement all of theirs themselves.

    Args:
        store: The store.
        kind: The capability that is asked for.
        declared: The capabilities that the store implements.

    Returns:
        The store, or None if it does not declare the capability.
    """
    return cast("T", store) if kind in declared else None  # no type checker relates a set of protocols to a class


@runtime_checkable
class AppendsAtOnce(Protocol):
    """A store whose `try_append` appends without waiting, most of the time.

    Whether a store does may depend on its configuration. Without this capability every append is awaited, and awaits
    something, so that other tasks go on.
    """

    def try_append(self, append: Append) -> Outcome | None:
        """Append immediately, without waiting; return None if that is impossible and `append` has to be awaited."""
        ...


@runtime_checkable
class LooksAtOnce(Protocol):
    """A store that can be read without waiting.

    It serves synchronous reads of the index of a passivated session. Without it, such a read raises an error that says
    to activate the session first.
    """

    def peek(self, ref: Ref) -> Peek:
        """Open a log for a single read, without waiting.

        Raises:
            SessionNotFound: There is no such log.
        """
        ...


@runtime_checkable
class Packs(Protocol):
    """A store that can compress logs at rest.

    A packed log is listed, read and removed under the same name as before, and its lines are the same bytes. Appending
    to it requires unpacking it first: the lease says that the log is packed. Without this capability, archived sessions
    stay uncompressed.
    """

    async def pack(self, lease: Lease) -> None:
        """Pack a log, and end its lease. After a crash, the log is whole, and either packed or not.

        Raises:
            Conflict: The lease has ended, or another program changed the log meanwhile.
        """
        ...

    async def unpack(self, lease: Lease) -> Lease:
        """Unpack a packed log; return the lease that replaces `lease`. A log that is not packed is left unchanged.

        Raises:
            Conflict: The lease has ended.
            LogReplaced: Another program has put a log in its place; calling again returns the lease on that one.
        """
        ...


@runtime_checkable
class NamesPlaces(Protocol):
    """A store that can say where a line is. Without it, messages name the log and the seq alone."""

    def places(self, ref: Ref, seqs: Sequence[int]) -> dict[int, Where]:
        """Find the positions of lines, for messages to people. Lines that cannot be found are omitted. May be slow."""
        ...


@runtime_checkable
class Recovers(Protocol):
    """A store that may hold what owners left behind when they died. Without it, what it lists is all that there is."""

    async def recover(self) -> None:
        """Bring back what dead owners left, so that it can be found; called once, before a log is looked up to write.

        Raises:
            Conflict: Another host is still at it.
        """
        ...

    def may_be_restored(self, ref: Ref) -> bool:
        """Tell whether something was left behind that may hold what a log lacks. Blocks."""
        ...


@runtime_checkable
class Leases(Protocol):
    """A store that can say who holds a log. Without it, the answer is known only when a log is acquired."""

    def holder(self, ref: Ref) -> str | None:
        """Return who holds a log, in words for people; None if nobody does, or if it cannot be known. Blocks."""
        ...


@runtime_checkable
class ScansChanges(Protocol):
    """A store that can say of all logs, without opening them, whether they changed.

    Without it, a listing pages through the logs and a search reads those that it needs.
    """

    def scan(self) -> dict[Ref, FileStat]:
        """Return the stamps of all logs, unordered. Opens none of them, but may take a while. Blocks."""
        ...

    def look_at(self, ref: Ref) -> FileStat | None:
        """Return the stamp of one log; None if there is no such log."""
        ...

    def left(self, ref: Ref) -> tuple[int, int, int] | None:
        """Return an owned log's state after its last write: the seq of its last line, its size, its inode.

        None while the log is being written, if it does not exist, and if it is not owned.
        """
        ...

    def reads_all(self, ref: Ref) -> bool:
        """Tell whether a read of a log returns everything that its stamp covers: not while an append is in doubt."""
        ...


@runtime_checkable
class KeepsFiles(ScansChanges, Protocol):
    """A store whose logs are files in a folder, beside which a catalog and a search can keep theirs.

    Without it, rows and current sessions are kept in memory, sessions have no paths, and a search reads the logs.
    """

    @property
    def root(self) -> str:
        """The real path of the folder that holds the logs."""
        ...

    @property
    def disk(self) -> Disk:
        """The file system calls, for the files that are kept under the root."""
        ...

    def path_of(self, ref: Ref) -> str:
        """Return the path of a log's file.

        Raises:
            InvalidSessionId: The ref leads out of the root, or is not normalized.
        """
        ...

    def ref_of(self, path: str | os.PathLike[str]) -> Ref:
        """Return the canonical name of a file's log, with all links followed."""
        ...

    def inner_roots(self, ref: Ref) -> list[tuple[str, Ref]]:
        """Return the folders between a log and the root, without the root, and the log's name in each. Blocks.

        Such a folder may be the root of another host, whose files may hold a copy of what the session says.
        """
        ...

    def header_block(self, ref: Ref) -> bytes:
        """Return the header block of a log, byte for byte. Blocks.

        Raises:
            NotASession: The file does not begin with a header.
            OSError: It cannot be read.
        """
        ...

    def what_is_there(self, ref: Ref) -> str | None:
        """Return what has the path of a log that cannot be found: "directory", "empty file", or None. Blocks."""
        ...
