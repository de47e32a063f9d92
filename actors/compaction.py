"""Compaction: a summary takes the place of the older part of a path, as one appended entry; the originals stay.

A compaction finds a safe cut, asks the caller's summarizer, refuses what does not shrink, and appends the entry if the
leaf is still the one that it began with. Until that append nothing is written, so a summarizer that fails, or a caller
that is cancelled, leaves the session as it was.

When several in a row have not brought the context below its limit, and the next would not either, there is no next one
(`actors.compaction_guard`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..events.content import raw_json, text
from ..events.counts import check_count
from ..events.entries import Compaction, CompactionEntry, Entry, Message
from ..events.errors import CompactionLoop, ContextOverflow, SummaryRefused
from ..events.wording import counted
from ..projections.building.budget import ContextBudget, checked_budget
from ..projections.building.pairing import is_request, paired
from ..projections.building.recent_plus_summary import SUMMARY_TARGET_RATIO
from ..projections.building.summaries import (
    DEFAULT_SUMMARIZER_OPTIONS,
    GeneratedSummary,
    Summarizer,
    SummarizerOptions,
    generate_summary,
)
from ..projections.context import Context, ContextMessage, build
from ..projections.cuts import find_safe_cut, safe_cuts
from ..projections.tokens import Tokenizer, context_tokens, count_messages, entry_tokens, tokenizer_of
from .compaction_guard import LOOP_AFTER, NOTE, refuse_loop
from .files_touched import files_touched

if TYPE_CHECKING:
    from .fitting import Fitting
    from .open_log import OpenLog

KEEP_TOKENS = 20_000
"""How much of the path stays as it is, where no budget says otherwise."""

KEEP_SHARE = 0.4
"""The share of a budget that stays as it is."""

SUMMARY_TOKENS = 2_000
"""About how long a summary should be, where no budget says otherwise."""

TURN_SHARE = 0.5
"""The share of a budget that the last turn may take to stay whole."""

SUMMARY_SHARE = 0.5
"""The share of what it stands for that a summary is asked to take at most."""


class CompactionReport(Struct, frozen=True):
    """What a compaction did, or would do.

    Attributes:
        entry_id: The compaction's entry; None where nothing was written.
        first_kept_entry_id: The first entry that stays; None where there is nothing to compact.
        summarized_count: How many messages the summary stands for.
        kept_count: How many stay.
        tokens_before: The size of the context before.
        tokens_after: Its size after; with a summary as long as asked for, where none was made.
        summary_tokens: The size of the summary; what would be asked for, where none was made.
        summary: The summary; empty where none was made.
        reason: Why there is nothing to compact; empty where there is something.
    """

    entry_id: str | None
    first_kept_entry_id: str | None
    summarized_count: int
    kept_count: int
    tokens_before: int
    tokens_after: int
    summary_tokens: int = 0
    summary: str = ""
    reason: str = ""

    @property
    def applied(self) -> bool:
        """Whether the compaction was written."""
        return self.entry_id is not None


class _Path(Struct, frozen=True):
    """What is compacted: the context at a leaf, the entries that it shows, and the compaction that it begins with."""

    leaf: int
    leaf_id: str | None
    context: Context
    kept: tuple[Entry, ...]
    previous: CompactionEntry | None


class _Cut(Struct, frozen=True):
    """Where a path is cut: what is summarized, what is kept, and the entry that is kept first."""

    entry_id: str
    summarized: tuple[ContextMessage, ...]
    kept: tuple[ContextMessage, ...]
    system: tuple[ContextMessage, ...]


async def compact(
    session: Fitting,
    summarizer: Summarizer | None,
    *,
    budget: ContextBudget | None = None,
    keep_tokens: int | None = None,
    target_tokens: int | None = None,
    tokenizer: Tokenizer | None = None,
    options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    loop_after: int = LOOP_AFTER,
) -> CompactionReport:
    """Compact the path to the leaf, or say what would come of it where there is no summarizer; see `Session.compact`."""
    for name, asked in (("keep_tokens", keep_tokens), ("target_tokens", target_tokens)):
        if asked is not None:
            check_count(name, asked)
    tokenizer = tokenizer_of(tokenizer)
    log = await session.log()
    path = await _read(log)
    limit = checked_budget(budget).available_tokens if budget is not None else None
    if limit == 0:
        raise ContextOverflow("system prompt, tools and reserve fill the window: compacting cannot help", available=0)
    keep = keep_tokens if keep_tokens is not None else KEEP_TOKENS if limit is None else int(limit * KEEP_SHARE)
    tokens_before = context_tokens(paired(path.context.messages), tokenizer)
    over = limit is not None and tokens_before > limit
    cut = _cut(path, keep, keep if limit is None else int(limit * TURN_SHARE), over, tokenizer)
    if cut is None:
        reason = _reason(path)
        if over and summarizer is not None:
            raise CompactionLoop(
                f"the context takes {tokens_before} tokens of {limit} and cannot be compacted: {reason}"
            )
        count = len(path.context.messages)
        return CompactionReport(None, None, 0, count, tokens_before, tokens_before, reason=reason)
    summarized = context_tokens(cut.summarized, tokenizer)
    wanted = SUMMARY_TOKENS if limit is None else int(limit * SUMMARY_TARGET_RATIO)
    target = target_tokens if target_tokens is not None else max(1, min(wanted, int(summarized * SUMMARY_SHARE)))
    rest = context_tokens((*cut.system, *cut.kept), tokenizer)
    report = CompactionReport(
        None, cut.entry_id, len(cut.summarized), len(cut.kept), tokens_before, rest + target, summary_tokens=target
    )
    if summarizer is None:
        return report
    if path.previous is not None and limit is not None:
        await refuse_loop(log, path.leaf, path.previous, loop_after, fails=rest + target > limit)
    told = [each.message for each in cut.summarized]
    made = await generate_summary(told, target, summarizer, tokenizer=tokenizer, options=options)
    size = count_messages([Message("compactionSummary", (text(made.content),))], tokenizer)
    if size >= summarized:
        raise SummaryRefused(
            f"the summary takes {size} tokens and the {counted(len(cut.summarized), 'message')} that it stands for {summarized}: "
            "nothing was written"
        )
    payload = _payload(path, cut, made, tokens_before, rest + size, limit)
    entry_id = await session.append(payload, expected_leaf=path.leaf_id)
    return replace(
        report, entry_id=entry_id, tokens_after=rest + size, summary_tokens=made.tokens, summary=made.content
    )


async def _read(log: OpenLog) -> _Path:
    index, leaf = log.index, log.index.leaf
    leaf_id = index.leaf_id
    chosen = await log.plan(leaf)
    entries = await log.entries_at(chosen.needed)
    kept = tuple(entry for seq in chosen.kept if (entry := entries[seq]) is not None)
    previous = entries.get(chosen.compaction)
    return _Path(
        leaf,
        leaf_id,
        build(index, chosen, entries),
        kept,
        previous if isinstance(previous, CompactionEntry) else None,
    )


def _cut(path: _Path, keep_tokens: int, turn_max: int, over: bool, tokenizer: Tokenizer) -> _Cut | None:
    """Choose where to cut, or None where nothing can be cut off.

    The last user message stays, with the whole turn after it, where that takes no more than `turn_max`.
    """
    entries = path.kept

    def size(entry: Entry) -> int:
        return entry_tokens(entry, tokenizer)

    cuts = safe_cuts(entries)
    found = find_safe_cut(entries, keep_tokens, size)
    place = next((place for place in cuts if place > 0 and entries[place].id == found), 0)
    messages = path.context.messages
    requests = {each.entry_id for each in messages if is_request(each.message)}
    asked = next((each for each in range(len(entries) - 1, -1, -1) if entries[each].id in requests), 0)
    if 0 < asked < place and asked in cuts and sum(map(size, entries[asked:])) <= turn_max:
        place = asked
    if not place and not (over and path.previous is not None and path.previous.compaction.summary and 0 in cuts):
        return None
    kept_ids = {entry.id for entry in entries[place:]}
    system = tuple(each for each in messages if each.role == "system")
    others = [each for each in messages if each.role != "system"]
    summarized = paired([each for each in others if each.entry_id not in kept_ids])
    kept = paired([each for each in others if each.entry_id in kept_ids])
    return _Cut(entries[place].id or "", summarized, kept, system) if summarized else None


def _reason(path: _Path) -> str:
    if path.kept and not safe_cuts(path.kept):
        return "a tool call still waits for its result"
    return "all of it is to be kept, or cannot be parted"


def _payload(
    path: _Path, cut: _Cut, made: GeneratedSummary, tokens_before: int, tokens_after: int, limit: int | None
) -> Compaction:
    summarized = {each.entry_id for each in cut.summarized}
    cut_off = [entry for entry in path.kept if entry.id in summarized]
    details = files_touched([path.previous, *cut_off] if path.previous is not None else cut_off)
    details[NOTE] = {"tokens_after": tokens_after, "limit": limit}
    return Compaction(made.content, cut.entry_id, tokens_before, raw_details=raw_json(details), usage=made.usage)
