"""What a store can do beyond the least that every store does: one small protocol each, asked for by name.

`store.capability(Packs)` returns the object that packs the store's logs, or None if the store cannot. Each protocol
says what its absence means. A caller asks once, when it is made, and never inside an append. The class of a store is
not asked for anywhere: a store of a third party that declares a capability is used like ours. It may have the protocols
among its base classes, for the methods that have a default.

    packs = store.capability(Packs)
    if packs is not None:
        await packs.pack(lease)
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from msgspec import Struct

from ..dialects.base import Dialect
from ..entries import Header
from ..errors import Where
from ..findings import Finding, Repair
from .base import Append, Lease, Outcome, Peek, Ref, Stamp

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
class TriesWriting(Protocol):
    """A store that can tell whether its place takes writes at present.

    Without it, a place that fails shows at the next append.
    """

    def try_writing(self) -> None:
        """Write a little beside the logs, flush it and remove it again. Blocks.

        Raises:
            OSError: The place takes no writes.
        """
        ...


class NeverBlocks(Protocol):
    """A store that waits for nothing, such as one in memory: what is said to block does not, and needs no thread.

    It has no methods; to declare it is all.
    """


@runtime_checkable
class LooksAtOnce(Protocol):
    """A store that can be read without waiting, from any thread.

    It serves synchronous reads of the index of a passivated session, and the rows of a listing. Without it, such a read
    raises an error that says to activate the session first, and rows are made one after the other on the event loop.
    """

    def peek(self, ref: Ref) -> Peek:
        """Open a log for a single read, without waiting.

        Raises:
            SessionNotFound: There is no such log.
        """
        ...

    def whole(self, ref: Ref) -> Whole | None:
        """Return all of a small log at once; None, as here, if reading it page by page through `peek` is as quick.

        Blocks.

        Raises:
            SessionNotFound: There is no such log, or only the beginning of its header was written.
            NotASession: It does not begin with a header.
        """
        return None


class Whole(Struct, frozen=True):
    """A whole log: its header, its dialect, and the bytes of all its lines; the last may lack its newline."""

    header: Header
    dialect: Dialect
    lines: bytes


@runtime_checkable
class Watches(Protocol):
    """A store that tells of changes. Without it, whoever follows a log looks every now and then."""

    def watch(self, refs: Sequence[Ref]) -> AsyncIterator[set[Ref]]:
        """Yield sets of logs that may have changed since the call, by whomever.

        Wake-ups may be merged; the last one is never lost.
        """
        ...


@runtime_checkable
class Packs(Protocol):
    """A store that can compress logs at rest.

    A packed log is listed, read and removed under the same name as before. Its lines are the same bytes, so packing and
    unpacking leave it its generation. Appending to it requires unpacking it first: the lease says that the log is
    packed. Without this capability, archived sessions stay uncompressed.
    """

    @property
    def can_pack(self) -> bool:
        """Whether there is a place for packed logs, as here; otherwise logs are only read and unpacked."""
        return True

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
class NamesFiles(Protocol):
    """A store whose logs are files, which people and other programs name by their paths.

    Without it, sessions have no paths, and a text that looks like one is an id or a name.
    """

    @property
    def root(self) -> str:
        """The real path of the folder that holds the logs."""
        ...

    def check_root(self) -> None:
        """Refuse a root that cannot hold logs; one that does not exist yet is created by the first write. Blocks.

        Raises:
            InvalidInput: Something other than a directory has its name, or that of a directory above it.
        """
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

    def is_outside(self, ref: Ref) -> bool:
        """Tell whether a log lies outside the root, where nothing lists it."""
        ...

    def what_is_there(self, ref: Ref) -> str | None:
        """Return what has the path of a log that cannot be found: "directory", "empty file", or None. Blocks."""
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
class RemovesDamaged(Protocol):
    """A store in which something else may have the place of a log. Without it, whatever is listed can be acquired."""

    async def remove_damaged(self, ref: Ref) -> None:
        """Delete what is listed as a log but cannot be acquired, since it does not begin with a header or is damaged.

        What belongs to it is deleted, too. Nothing happens if there is nothing.

        Raises:
            NotASession: It is none, and has no place of one: it has another name, or lies elsewhere.
            SessionLocked: Somebody owns it.
            Conflict: It is a log that can be acquired.
            UnsupportedVersion: A newer program wrote it.
        """
        ...


@runtime_checkable
class Leases(Protocol):
    """A store that can say who holds a log. Without it, the answer is known only when a log is acquired."""

    def holder(self, ref: Ref) -> str | None:
        """Return who holds a log, in words for people; None if nobody does, or if it cannot be known. Blocks."""
        ...

    @property
    def lease_s(self) -> float:
        """The seconds after which a lease ends that is not renewed; 0, as here, if leases do not end by themselves."""
        return 0

    @property
    def wait_s(self) -> float:
        """The seconds for which a log is waited for whose owner does not answer; 0, as here, for not at all."""
        return 0

    async def confirm(self, lease: Lease) -> bool:
        """Return whether a lease holds for sure at this moment; it does, as here, if leases do not end by themselves.

        What an owner has in memory is the present state of the log only as long as no other host can have taken it.

        Raises:
            StoreUnavailable: That cannot be found out.
        """
        return True


@runtime_checkable
class ScansChanges(Protocol):
    """A store that can say of all logs, without opening them, whether they changed.

    Without it, a listing pages through the logs and a search reads those that it needs.
    """

    def scan(self) -> dict[Ref, Stamp]:
        """Return the stamps of all logs, unordered. Opens none of them, but may take a while. Blocks."""
        ...

    def look_at(self, ref: Ref) -> Stamp | None:
        """Return the stamp of one log; None if there is no such log. Blocks."""
        ...

    def left(self, ref: Ref) -> Left | None:
        """Return how its owner left a log that this store owns; None, as here, if that is not known, or not final.

        A listing then makes the row of a live session from its log, and not from memory.
        """
        return None

    def reads_all(self, ref: Ref) -> bool:
        """Tell whether a read of a log returns everything that its stamp covers: not while an append is in doubt.

        Here it always does.
        """
        return True


class Left(NamedTuple):
    """An owned log after its owner's last write: the seq of its last line, and the size and identity of its stamp."""

    seq: int
    size: int
    identity: int


@runtime_checkable
class Health(Protocol):
    """A store that can examine and repair what it holds. Without it, damage is reported by whoever reads it."""

    def examine(self) -> list[Finding]:
        """Return what is wrong in the store, and what is odd; nothing is changed. Blocks."""
        ...

    def repair(self) -> list[Repair]:
        """Repair what can be repaired; nothing is deleted. Blocks.

        Returns:
            What was done, and what could not be.
        """
        ...


@runtime_checkable
class KeepsRows(Protocol):
    """A store that keeps what a listing says of its logs, and which log is the current one of a project.

    All of it is derived, but for the current logs, which are pointers that may be lost without losing a log. Several
    hosts may keep rows at the same time: at worst a row is lost, and made again. Every call blocks. Without this
    capability, a host makes all rows when it first lists them, and remembers current logs by itself.
    """

    def rows(self) -> KeptRows | None:
        """Return all rows; None if none were ever kept. What cannot be read is as good as missing, never an error."""
        ...

    def keep(self, rows: Sequence[KeptRow], gone: Collection[Ref]) -> bool:
        """Keep rows in the place of earlier ones, and drop those of logs that are gone.

        Returns:
            Whether it was done; False if all rows have to be written anew, by `rewrite`.

        Raises:
            OSError: They cannot be written.
        """
        ...

    def rewrite(self, rows: Mapping[Ref, KeptRow], *, may_create: bool) -> None:
        """Keep these rows and no others.

        Args:
            rows: The rows.
            may_create: Make a place for rows if there is none; otherwise nothing needs to be kept then.

        Raises:
            OSError: They cannot be written; the rows are as before.
        """
        before = self.rows()
        self.keep([*rows.values()], () if before is None else before.rows.keys() - rows.keys())

    def currents(self) -> Mapping[str, Ref]:
        """Return the current logs of all projects, which are given by their hashes.

        Raises:
            OSError: They cannot be listed.
        """
        ...

    def set_current(self, project_hash: str, ref: Ref | None) -> None:
        """Set the current log of a project, or clear it.

        Raises:
            ReadOnly: This process may not write there; the pointer is unchanged.
            InvalidInput: There is no place for a pointer; it is unchanged.
            OSError: A write failed for another reason; the pointer is unchanged.
        """
        ...

    def current(self, project_hash: str) -> Ref | None:
        """Return the current log of a project; None if it has none."""
        return self.currents().get(project_hash)

    def current_among(self, refs: Collection[Ref]) -> frozenset[Ref]:
        """Return those of the logs that are the current one of some project.

        Raises:
            OSError: They cannot be listed.
        """
        return frozenset(refs).intersection(self.currents().values())

    def forget(self, ref: Ref) -> None:
        """Drop what is kept of a log that was removed: the projects' pointers to it, and copies of its row elsewhere.

        Raises:
            OSError: A pointer cannot be removed.
        """
        for project, current in self.currents().items():
            if current == ref:
                self.set_current(project, None)


class KeptRow(Struct, frozen=True, gc=False):
    """A row of a listing, as a store keeps it.

    Attributes:
        ref: The log.
        stamp: The stamp of the log when the row was made.
        data: What the row says: a JSON object, which only the listing understands.
    """

    ref: Ref
    stamp: Stamp
    data: bytes


class KeptRows(Struct, frozen=True):
    """All rows that a store keeps.

    Attributes:
        rows: The rows, by log.
        place: Where they are kept, for messages to people.
        damaged: The numbers of rows that cannot be read, counted from 1 in the place where they are kept.
        usable: Whether this version understands what is kept; otherwise all of it has to be written anew.
    """

    rows: dict[Ref, KeptRow]
    place: str
    damaged: tuple[int, ...] = ()
    usable: bool = True
