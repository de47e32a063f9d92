"""Leaving a branch with a summary of the work on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ...events.entries import BranchSummary
from ...events.json_values import JSON, raw_json
from ...projections.building.pairing import paired
from ...projections.building.summaries import (
    DEFAULT_SUMMARIZER_OPTIONS,
    Summarizer,
    SummarizerOptions,
    generate_summary,
)
from ...projections.context import ContextMessage, messages_of
from ...projections.tokens import Tokenizer
from ..session.compaction import files_touched
from ..session.fitting import ShownPath

if TYPE_CHECKING:
    from ...events.index import LogIndex
    from ..log.open_log import OpenLog
    from ..session.session import Session

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


async def summarize_branch(
    session: Session,
    entry_id: str,
    summarizer: Summarizer,
    *,
    target_tokens: int = BRANCH_SUMMARY_TOKENS,
    tokenizer: Tokenizer | None = None,
    options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
) -> BranchReport:
    """Leave a branch with a summary; see `Session.summarize_branch`."""
    log = await session.log()
    index = log.index
    target = index.seq_of(entry_id)
    leaf, leaf_id = index.leaf, index.leaf_id
    ancestor, seqs = left_between(index, leaf, target)
    messages = [each.message for each in await shown_between(log, leaf, seqs)]
    ancestor_id = index.ids[ancestor] if ancestor else None
    details = files_touched(await log.entries_in(seqs))
    if not messages:
        await session.branch(entry_id)
        return BranchReport(None, leaf_id, ancestor_id, 0, "", details)
    generated = await generate_summary(messages, target_tokens, summarizer, tokenizer=tokenizer, options=options)
    payload = BranchSummary(generated.content, "", raw_json(details), generated.usage)
    summary_id = await session.append(payload, below=entry_id, expected_leaf=leaf_id)
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
