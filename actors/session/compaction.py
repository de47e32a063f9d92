"""Compaction: a summary replaces the older part of a path, as one appended entry; the originals stay.

A compaction finds a safe cut, calls the caller's summarizer, refuses a summary that is not shorter, and appends the
entry if the leaf is still the one that it started from. Nothing is written before that append, so a summarizer that
fails, or a caller that is cancelled, leaves the session as it was.

When several compactions in a row have not brought the context below its limit, and the next would not either, another
one is refused (`check_for_loop`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from ...events.arguments import check_count
from ...events.content import text
from ...events.entries import BranchSummaryEntry, Compaction, CompactionEntry, Entry, Message
from ...events.errors import CompactionLoop, ContextOverflow, SummaryRefused
from ...events.json_values import JSON, raw_json
from ...events.kinds import Kind
from ...events.texts import counted
from ...projections.building.budget import ContextBudget, checked_budget
from ...projections.building.pairing import paired, request_at
from ...projections.building.strategies import SUMMARY_TARGET_RATIO
from ...projections.building.summaries import (
    DEFAULT_SUMMARIZER_OPTIONS,
    GeneratedSummary,
    Summarizer,
    SummarizerOptions,
    checked_summarizer,
    generate_summary,
)
from ...projections.context import Context, ContextMessage, boundary, build
from ...projections.cuts import find_safe_cut, safe_cuts
from ...projections.state import work_of
from ...projections.tokens import Tokenizer, context_tokens, count_messages, entry_tokens, tokenizer_of
from ..log.open_log import OpenLog
from .appending import Appending
from .reading import read_log

KEEP_TOKENS = 20_000
"""How much of the path stays as it is, unless a budget determines that."""

KEEP_SHARE = 0.4
"""The share of a budget for what stays as it is."""

SUMMARY_TOKENS = 2_000
"""About how long a summary should be, unless a budget determines that."""

TURN_SHARE = 0.5
"""The largest share of a budget that the last turn may take to be kept whole."""

SUMMARY_SHARE = 0.5
"""The largest target for a summary, as a share of the size of what it stands for."""


class CompactionReport(Struct, frozen=True):
    """What a compaction did, or would do.

    Attributes:
        entry_id: The compaction's entry; None if nothing was written.
        first_kept_entry_id: The first entry that stays; None if there is nothing to compact.
        summarized_count: How many messages the summary stands for.
        kept_count: How many messages stay.
        tokens_before: The size of the context before.
        tokens_after: Its size after; for a dry run, with a summary of the target length.
        summary_tokens: The size of the summary; for a dry run, the target length.
        summary: The summary; empty if none was made.
        reason: Why there is nothing to compact; empty if there is something.
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
    """The path to compact: the context at a leaf, the entries that it shows, and the compaction that it begins with."""

    log: OpenLog
    leaf: int
    leaf_id: str | None
    context: Context
    kept: tuple[Entry, ...]
    previous: CompactionEntry | None


class _Cut(Struct, frozen=True):
    """The place of a cut: what is summarized, what is kept, and the first kept entry."""

    entry_id: str
    summarized: tuple[ContextMessage, ...]
    kept: tuple[ContextMessage, ...]
    system: tuple[ContextMessage, ...]


class Compacting(Appending):
    """The calls that compact a session."""

    __slots__ = ()

    async def compact(
        self,
        summarizer: Summarizer,
        *,
        budget: ContextBudget | None = None,
        keep_tokens: int | None = None,
        target_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
        options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
    ) -> CompactionReport:
        """Append a summary that stands for the older part of the path to the leaf; the originals stay readable.

        Nothing is written if the summarizer fails or the caller is cancelled.

        Args:
            summarizer: Makes the summary: an async callable that takes a `SummaryRequest` and returns text or messages.
            budget: What the context must fit; it also determines how much is kept, unless `keep_tokens` does.
            keep_tokens: About how much of the path stays as it is.
            target_tokens: About how long the summary should be.
            tokenizer: Counts tokens; by default they are estimated from the bytes.
            options: How the summarizer is called.

        Returns:
            What was done; with a `reason` if there is nothing to compact.

        Raises:
            SummaryRefused: The summary is empty or not shorter than what it stands for.
            CompactionLoop: The context exceeds the budget, and compacting (again) does not help.
            ContextOverflow: The budget leaves nothing for the conversation, or even the smallest input is too large for
                the summarizer.
            LeafMoved: Something was appended in the meantime, or the leaf was moved: compact again.
        """
        return await self._compact(
            checked_summarizer(summarizer), budget, keep_tokens, target_tokens, tokenizer, options
        )

    async def dry_compact(
        self,
        *,
        budget: ContextBudget | None = None,
        keep_tokens: int | None = None,
        target_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> CompactionReport:
        """Report what `compact` would do: where it would cut, and the tokens before and after. No model is called.

        The arguments and errors are those of `compact`.
        """
        return await self._compact(None, budget, keep_tokens, target_tokens, tokenizer, DEFAULT_SUMMARIZER_OPTIONS)

    async def _compact(
        self,
        summarizer: Summarizer | None,
        budget: ContextBudget | None,
        keep_tokens: int | None,
        target_tokens: int | None,
        tokenizer: Tokenizer | None,
        options: SummarizerOptions,
    ) -> CompactionReport:
        """Compact the path to the leaf, or only report what that would do if `summarizer` is None."""
        for name, count in (("keep_tokens", keep_tokens), ("target_tokens", target_tokens)):
            if count is not None:
                check_count(name, count)
        tokenizer = tokenizer_of(tokenizer)
        path = await read_log(self, _read)
        limit = _limit(budget)
        usual_keep = KEEP_TOKENS if limit is None else int(limit * KEEP_SHARE)
        keep = usual_keep if keep_tokens is None else keep_tokens
        tokens_before = context_tokens(paired(path.context.messages), tokenizer)
        is_over = limit is not None and tokens_before > limit
        cut = _cut(path, keep, keep if limit is None else int(limit * TURN_SHARE), is_over, tokenizer)
        if cut is None:
            return _nothing_to_compact(path, tokens_before, limit, must_shrink=is_over and summarizer is not None)
        summarized = context_tokens(cut.summarized, tokenizer)
        rest = context_tokens((*cut.system, *cut.kept), tokenizer)
        usual_target = SUMMARY_TOKENS if limit is None else int(limit * SUMMARY_TARGET_RATIO)
        target = target_tokens
        if target is None:
            target = max(1, min(usual_target, int(summarized * SUMMARY_SHARE)))
        report = CompactionReport(
            None, cut.entry_id, len(cut.summarized), len(cut.kept), tokens_before, rest + target, summary_tokens=target
        )
        if summarizer is None:
            return report
        if path.previous is not None and limit is not None:
            await check_for_loop(path.log, path.leaf, path.previous, fails=rest + target > limit)
        messages = [each.message for each in cut.summarized]
        generated = await generate_summary(messages, target, summarizer, tokenizer=tokenizer, options=options)
        tokens_after = rest + _checked_size(generated, cut, summarized, tokenizer)
        payload = _payload(path, cut, generated, tokens_before, tokens_after, limit)
        entry_id = await self.append(payload, expected_leaf=path.leaf_id)
        return replace(
            report,
            entry_id=entry_id,
            tokens_after=tokens_after,
            summary_tokens=generated.tokens,
            summary=generated.content,
        )


def _limit(budget: ContextBudget | None) -> int | None:
    """Return the tokens that the context may take, or None without a budget.

    Raises:
        ContextOverflow: The budget leaves nothing for the conversation.
    """
    limit = None if budget is None else checked_budget(budget).available_tokens
    if limit == 0:
        raise ContextOverflow("system prompt, tools and reserve fill the window: compacting cannot help", available=0)
    return limit


def _nothing_to_compact(path: _Path, tokens: int, limit: int | None, *, must_shrink: bool) -> CompactionReport:
    """Report why nothing can be cut off.

    Args:
        path: The path.
        tokens: The size of its context.
        limit: The tokens that the context may take.
        must_shrink: Whether the caller needs a smaller context.

    Raises:
        CompactionLoop: The caller needs a smaller context.
    """
    reason = _reason(path)
    if must_shrink:
        raise CompactionLoop(f"the context takes {tokens} tokens of {limit} and cannot be compacted: {reason}")
    return CompactionReport(None, None, 0, len(path.context.messages), tokens, tokens, reason=reason)


def _checked_size(generated: GeneratedSummary, cut: _Cut, summarized: int, tokenizer: Tokenizer) -> int:
    """Return the tokens that a summary takes in a context.

    Raises:
        SummaryRefused: It takes at least as many as the messages that it stands for, which take `summarized`.
    """
    size = count_messages([Message("compactionSummary", (text(generated.content),))], tokenizer)
    if size >= summarized:
        raise SummaryRefused(
            f"the summary takes {size} tokens and the {counted(len(cut.summarized), 'message')} that it stands for "
            f"{summarized}: nothing was written"
        )
    return size


async def _read(log: OpenLog) -> _Path:
    index, leaf = log.index, log.index.leaf
    leaf_id = index.leaf_id  # of now: the leaf may move while entries are read
    context_plan = await log.plan(leaf)
    entries = await log.entries_at(context_plan.needed)
    kept = tuple(entry for seq in context_plan.kept if (entry := entries[seq]) is not None)
    previous = entries.get(context_plan.compaction)
    return _Path(
        log,
        leaf,
        leaf_id,
        build(index, context_plan, entries),
        kept,
        previous if isinstance(previous, CompactionEntry) else None,
    )


def _cut(path: _Path, keep_tokens: int, turn_max: int, is_over: bool, tokenizer: Tokenizer) -> _Cut | None:
    """Choose where to cut, or return None if nothing can be cut off.

    The last user message stays, with the whole turn after it, if that takes at most `turn_max` tokens.
    """
    entries = path.kept

    def size(entry: Entry) -> int:
        return entry_tokens(entry, tokenizer)

    cuts = safe_cuts(entries)
    cut_id = find_safe_cut(entries, keep_tokens, size)
    place = next((place for place in cuts if place > 0 and entries[place].id == cut_id), 0)
    messages = path.context.messages
    request = request_at(messages)
    request_id = messages[request].entry_id if request >= 0 else None
    last_request = next((each for each in range(len(entries) - 1, -1, -1) if entries[each].id == request_id), 0)
    if 0 < last_request < place and last_request in cuts and sum(map(size, entries[last_request:])) <= turn_max:
        place = last_request
    if not place and not (is_over and path.previous is not None and path.previous.compaction.summary and 0 in cuts):
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
    return "all of it has to be kept, or there is no safe place to cut"


def _payload(
    path: _Path, cut: _Cut, generated: GeneratedSummary, tokens_before: int, tokens_after: int, limit: int | None
) -> Compaction:
    summarized = {each.entry_id for each in cut.summarized}
    cut_off = [entry for entry in path.kept if entry.id in summarized]
    details = files_touched([path.previous, *cut_off] if path.previous is not None else cut_off)
    details[NOTE] = {"tokens_after": tokens_after, "limit": limit}
    return Compaction(
        generated.content, cut.entry_id, tokens_before, raw_details=raw_json(details), usage=generated.usage
    )


NOTE = "treering"
"""The key in a compaction's details that holds the sizes."""

LOOP_AFTER = 3
"""How many failed compactions in a row stop further ones."""


async def check_for_loop(log: OpenLog, leaf: int, last: CompactionEntry, *, fails: bool) -> None:
    """Refuse another compaction after several that failed to reach the limit.

    It is refused if it would fail as well, or if no user message followed the last one.

    Args:
        log: The session's log.
        leaf: The leaf that would be compacted.
        last: The latest compaction on its path.
        fails: Whether the next one would not bring the context below its limit either.

    Raises:
        CompactionLoop: It is refused.
    """
    failed_count = 0
    async with aclosing(_compactions(log, last)) as compactions:
        async for entry in compactions:
            if failed_count == LOOP_AFTER or not _has_failed(entry.compaction.details):
                break
            failed_count += 1
    if failed_count < LOOP_AFTER:
        return
    index = log.index
    newer_seqs = takewhile(lambda seq: seq != last.seq, index.upward(leaf))
    if fails or not any(index.kinds[seq] == Kind.USER for seq in newer_seqs):
        raise CompactionLoop(
            f"{failed_count} compactions in a row did not bring the context below its limit: "
            "shorten the system prompt or the last messages, or use a model with a larger window"
        )


async def _compactions(log: OpenLog, last: CompactionEntry) -> AsyncGenerator[CompactionEntry]:
    """Yield the compactions of a path, the latest first."""
    entry: object = last
    while isinstance(entry, CompactionEntry):
        yield entry
        parent = log.index.parents[entry.seq]
        seq = boundary(log.index, parent) if parent > 0 else 0
        entry = (await log.entries_at([seq]))[seq] if seq else None


def _has_failed(details: JSON) -> bool:
    note = details.get(NOTE) if isinstance(details, dict) else None
    if not isinstance(note, dict):
        return False
    tokens_after, limit = note.get("tokens_after"), note.get("limit")
    return isinstance(tokens_after, int) and isinstance(limit, int) and tokens_after > limit


def files_touched(entries: Iterable[Entry]) -> dict[str, JSON]:
    """Return `{"readFiles": [...], "modifiedFiles": [...]}`: the work of tools, and what earlier summaries recorded.

    A file that was modified is not listed as read. Created and deleted files count as modified.
    """
    entries = list(entries)
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    for entry in entries:
        recorded = _details(entry)
        read.update(dict.fromkeys(_paths(recorded.get("readFiles"))))
        modified.update(dict.fromkeys(_paths(recorded.get("modifiedFiles"))))
    for touch in work_of(entries).files:
        (read if touch.action == "read" else modified)[touch.path] = None
    return {"readFiles": [path for path in read if path not in modified], "modifiedFiles": list(modified)}


def _details(entry: Entry) -> dict[str, JSON]:
    if isinstance(entry, CompactionEntry):
        details = entry.compaction.details
    elif isinstance(entry, BranchSummaryEntry):
        details = entry.branch_summary.details
    else:
        return {}
    return details if isinstance(details, dict) else {}


def _paths(value: JSON) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
