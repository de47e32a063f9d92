"""New sessions made from existing ones: whole copies, single paths, and the same session in another store.

Lines are copied as they are, byte for byte. This includes those of a batch that was never completed, although nobody is
shown their content: entries may stand below them (pi appends below the last line of a file, whatever it is), a
compaction may keep from them on, and the leaf may be one of them. Leaving them out would cut what counts off from what
came before. So that they stay opaque under another session's id, the marks of their batches are rewritten, and nothing
else. Nor does a mark stay that would mean something under that id again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from ...events.dialects.base import Dialect, still_torn, without_marks_of
from ...events.entries import BranchSummary, Header, LabelEntry
from ...events.errors import SessionExists
from ...events.index import LogIndex
from ...events.json_values import JSON, raw_json
from ...events.kinds import Kind
from ...events.stores.base import Ref
from ...projections.building.pairing import paired
from ...projections.building.summaries import (
    DEFAULT_SUMMARIZER_OPTIONS,
    Summarizer,
    SummarizerOptions,
    generate_summary,
)
from ...projections.context import ContextMessage, messages_of
from ...projections.tokens import Tokenizer
from ..host.core import HostCore
from ..host.names import current, new_ref
from ..host.tasks import on_own_task
from ..log.open_log import OpenLog, encode_leaf
from ..log.source import Source
from .appending import Appending
from .compaction import files_touched
from .reading import Reading, read_log
from .shown_path import ShownPath

_LINES_AT_ONCE = 256


class SessionCopy(Struct, frozen=True):
    """All of a session, or a path of it, on its way into a store; it can be passed between event loops.

    Attributes:
        source_log: The open log that it was read from, which may belong to another loop; used only to recognize it.
        path: The path of its file; None if it has none.
        header: Its header.
        dialect: The dialect of its lines.
        lines: The lines after the header, each with its newline.
        torn: The positions of the lines that belong to batches that were never completed.
        leaf: Where the leaf was moved to; None if it was cleared, unset if it is the last entry.
    """

    source_log: object
    path: str | None
    header: Header
    dialect: Dialect
    lines: tuple[bytes, ...]
    torn: tuple[int, ...] = ()
    leaf: str | UnsetType | None = UNSET


async def write_fork(core: HostCore, copy: SessionCopy, session_id: str | None = None) -> tuple[Source, str]:
    """Write a copied session into a new one that names it as its parent; return its source and its id.

    Raises:
        SessionExists: There is a session with this id.
    """
    core.check()
    ref, child = child_of(core, copy, session_id)
    return await _write(core, ref, child), child.header.id


async def path_of(source: Reading, leaf_id: str) -> SessionCopy:
    """Read the path from the root to an entry, with its labels.

    Raises:
        EntryNotFound: The session has no such entry.
    """
    return await read_log(source, lambda log: _path_of(source, log, leaf_id))


async def _path_of(source: Reading, log: OpenLog, leaf_id: str) -> SessionCopy:
    """Read the path from the root to an entry, with its labels."""
    leaf = log.index.seq_of(leaf_id)
    last = (await log.entries_at([leaf]))[leaf]
    moved = UNSET if last is not None and log.index.becomes_leaf(last) else leaf_id  # such as an entry aside
    path = log.index.path(leaf)
    copy = await _read(source, log, path, moved)
    labels = await labels_for(log, path, log.index.head, copy.dialect)
    return replace(copy, lines=(*copy.lines, *map(copy.dialect.encode, labels)))


async def copy_of(source: Reading) -> SessionCopy:
    """Read everything visible of a session, with the leaf where it was moved to."""

    async def read(log: OpenLog) -> SessionCopy:
        index = log.index
        leaf = UNSET if index.leaf == index.tip else index.leaf_id
        return await _read(source, log, range(1, index.head + 1), leaf)

    return await read_log(source, read)


async def write_copy(core: HostCore, copy: SessionCopy, *, replacing: bool = False) -> tuple[Source, str]:
    """Write a copied session into the store of a host, under its own id; return its source and its id.

    Raises:
        SessionExists: There is a session with this id, and it may not be replaced.
    """
    core.check()
    ref = new_ref(copy.dialect, copy.header)
    source = core.registry.source(ref)
    if not source.holds(copy.source_log):  # otherwise it is the very same, which may have no file yet
        source = await _write(core, ref, copy, replacing=replacing)
    return source, copy.header.id


async def _write(core: HostCore, ref: Ref, copy: SessionCopy, *, replacing: bool = False) -> Source:
    """Write a log in one step, out of reach of whoever cancels the caller."""
    source = core.registry.source(ref)
    await on_own_task(core.runtime, partial(_write_whole, core, source, copy, replacing=replacing))
    if core.runtime.looks is None:  # the handle answers without waiting, as that of a loaded session does
        await source.ready()
    return source


async def _write_whole(core: HostCore, source: Source, copy: SessionCopy, *, replacing: bool) -> None:
    """Write a log in one step.

    Complete batches keep their marks; in another session those mean nothing. A copy whose writing failed halfway, or is
    in doubt, is replaced when the call is repeated, unless the copy was continued meanwhile.
    """
    runtime, ref = core.runtime, source.ref
    dialect, unfinished = copy.dialect, core.unfinished_copies
    if not replacing and source.actor is not None:
        raise _exists_error(ref)
    async with source.leased() as lease:
        if lease.header is not None and not replacing and lease.head != unfinished.get(ref):
            raise _exists_error(ref)
        with anyio.CancelScope(shield=True):  # a session is written whole, with its leaf, or not at all
            if lease.packed and runtime.packs is not None:
                lease = await runtime.packs.unpack(lease)
            async with runtime.whole_logs.put(lease, dialect, dialect.encode_header(copy.header), copy.lines) as head:
                unfinished[ref] = head
                if not isinstance(copy.leaf, UnsetType):
                    await runtime.store.save(lease, "leaf", head, encode_leaf(copy.leaf))
                runtime.touched.add(ref)
            del unfinished[ref]
            source.exists()


def _exists_error(ref: Ref) -> SessionExists:
    return SessionExists(f"session {ref!r} already exists: give the copy another id")


async def _read(source: Reading, log: OpenLog, seqs: Sequence[int], leaf: str | UnsetType | None) -> SessionCopy:
    """Read lines of a session, migrated to the current version of their dialect."""
    dialect, kinds = log.dialect, log.index.kinds
    lines: list[bytes] = []
    for start in range(0, len(seqs), _LINES_AT_ONCE):
        batch = seqs[start : start + _LINES_AT_ONCE]
        for seq, line in zip(batch, await log.lines_at(batch), strict=True):
            lines.append(dialect.migrated(line, seq))
    torn = tuple(position for position, seq in enumerate(seqs) if kinds[seq] == Kind.ABORTED)
    current_dialect = current(dialect)
    header = replace(log.index.header, version=current_dialect.version)
    return SessionCopy(log, source.file_path, header, current_dialect, tuple(lines), torn, leaf)


def child_of(core: HostCore, copy: SessionCopy, session_id: str | None = None) -> tuple[Ref, SessionCopy]:
    """Turn a copied session into a new one that names it as its parent.

    The dialect tells whether a session names its parent by the path of its file or by its id.
    """
    source, dialect = copy.header, copy.dialect
    parent = (copy.path if dialect.parent_by_path else None) or source.id
    header, ref = core.new_header(session_id, dialect=dialect, cwd=source.cwd, parent_session=parent)
    lines = list(copy.lines)
    if session_id is not None and session_id != source.id:  # an id may be that of a session that wrote some lines
        for position, line in enumerate(lines):
            if b'"batch"' in line:
                lines[position] = without_marks_of(dialect, line[:-1], session_id) + b"\n"
    for position in copy.torn:
        lines[position] = still_torn(dialect, copy.lines[position][:-1], header.id) + b"\n"
    return ref, replace(copy, header=header, lines=tuple(lines))


async def labels_for(log: OpenLog, path: Sequence[int], through: int, dialect: Dialect) -> list[LabelEntry]:
    """Return the label entries to append to a copy of a path, so that it shows the labels that its log shows.

    They do not become the leaf if the dialect can express that; otherwise each goes below the one before it.

    Args:
        log: The log.
        path: The seqs of the path; its last line is an entry.
        through: The seq of the last line of the log that counts.
        dialect: The dialect of the copy.
    """
    kinds, on_path = log.index.kinds, set(path)
    own: dict[str, str | None] = {}
    last: dict[str, LabelEntry] = {}
    for entry in await log.entries_in([seq for seq in range(1, through + 1) if kinds[seq] == Kind.LABEL]):
        if isinstance(entry, LabelEntry) and log.index.find(entry.label.target_id) in on_path:
            target, label = entry.label.target_id, entry.label.label or None
            last[target] = entry
            if entry.seq in on_path:
                own[target] = label
    missing = [entry for target, entry in last.items() if (entry.label.label or None) != own.get(target)]
    return _below(missing, log.index.ids[path[-1]] if path else None, len(path), dialect)


def _below(labels: Sequence[LabelEntry], parent_id: str | None, head: int, dialect: Dialect) -> list[LabelEntry]:
    aside = dialect.can_append_aside
    entries: list[LabelEntry] = []
    for seq, entry in enumerate(sorted(labels, key=lambda each: each.seq), head + 1):
        entries.append(replace(entry, parent_id=parent_id, seq=seq, aside=aside, command_id=None, batch=None))
        if not aside:
            parent_id = entry.id
    return entries


BRANCH_SUMMARY_TOKENS = 2_000
"""About how long the summary of a branch should be."""


class BranchReport(Struct, frozen=True):
    """The result of leaving a branch.

    Attributes:
        entry_id: The entry of the summary, which is now the leaf; None if there was nothing to summarize.
        from_id: The leaf that was left.
        ancestor_id: The last entry that both branches share.
        message_count: How many messages the summary stands for.
        summary: The summary.
        details: The files that were read and modified on the branch.
    """

    entry_id: str | None
    from_id: str | None
    ancestor_id: str | None
    message_count: int
    summary: str
    details: dict[str, JSON]


class Branching(Appending):
    """The calls that leave a branch."""

    __slots__ = ()

    async def summarize_branch(
        self,
        entry_id: str,
        summarizer: Summarizer,
        *,
        target_tokens: int = BRANCH_SUMMARY_TOKENS,
        tokenizer: Tokenizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> BranchReport:
        """Continue from another entry, with a summary of what follows the last entry that both branches share.

        If nothing that a model would see follows it, the leaf moves and no summary is made.

        Args:
            entry_id: The entry to continue from.
            summarizer: Makes the summary.
            target_tokens: About how long the summary should be, in tokens.
            tokenizer: Counts tokens; by default they are estimated from the bytes.
            options: How the summarizer is called.

        Raises:
            EntryNotFound: The session has no such entry.
            SummaryRefused: The summarizer returned nothing; the leaf did not move.
            LeafMoved: Something was appended in the meantime, or the leaf was moved.
        """
        log = await self.log()
        index = log.index
        target = index.seq_of(entry_id)
        leaf, leaf_id = index.leaf, index.leaf_id
        ancestor, seqs = left_between(index, leaf, target)
        messages = [each.message for each in await shown_between(log, leaf, seqs)]
        ancestor_id = index.ids[ancestor] if ancestor else None
        details = files_touched(await log.entries_in(seqs))
        if not messages:
            await self.branch(entry_id)
            return BranchReport(None, leaf_id, ancestor_id, 0, "", details)
        generated = await generate_summary(messages, target_tokens, summarizer, tokenizer=tokenizer, options=options)
        payload = BranchSummary(generated.content, "", raw_json(details), generated.usage)
        summary_id = await self.append(payload, below=entry_id, expected_leaf=leaf_id)
        return BranchReport(summary_id, leaf_id, ancestor_id, len(messages), generated.content, details)


def left_between(index: LogIndex, leaf: int, target: int) -> tuple[int, list[int]]:
    """Return the last entry that two paths share, and the entries of the first path after it."""
    shared = set(index.path(target))
    left: list[int] = []
    for seq in index.upward(leaf):
        if seq in shared:
            return seq, left[::-1]
        left.append(seq)
    return 0, left[::-1]


async def shown_between(log: OpenLog, leaf: int, seqs: Sequence[int]) -> tuple[ContextMessage, ...]:
    """Return the messages of some entries of the path to a leaf, as contexts at that leaf show them."""
    return paired(messages_of(await (await ShownPath.to(log, leaf)).entries(seqs)))
