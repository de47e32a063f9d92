"""Move a session's leaf, after asking the policy whether to summarize the work that is left behind."""

from __future__ import annotations

from typing import Literal

from ...projections.building.summaries import DEFAULT_SUMMARIZER_OPTIONS, Summarizer, SummarizerOptions
from ...projections.tokens import Tokenizer
from ..session.branching import BranchReport, left_between, shown_between
from ..session.session import Session
from .hooks import LeavePolicy, LeftWork


async def leave(
    session: Session,
    entry_id: str,
    why: Literal["switch", "retry"],
    policy: LeavePolicy,
    summarizer: Summarizer,
    *,
    tokenizer: Tokenizer | None = None,
    options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
) -> BranchReport | None:
    """Make an entry the leaf, and summarize the branch that is left if the policy says so.

    Returns:
        The report of the summary; None if none was made.

    Raises:
        EntryNotFound: The session has no such entry.
    """
    left = await _left_work(session, entry_id, why)
    if left is None or not await policy(left):
        await session.branch(entry_id)
        return None
    return await session.summarize_branch(entry_id, summarizer, tokenizer=tokenizer, options=options)


async def _left_work(session: Session, entry_id: str, why: Literal["switch", "retry"]) -> LeftWork | None:
    log = await session.log()
    index = log.index
    target = index.seq_of(entry_id)
    _, seqs = left_between(index, index.leaf, target)
    messages = await shown_between(log, index.leaf, seqs)
    count = sum(each.role != "branchSummary" for each in messages)  # a branch summary describes work on another branch
    return LeftWork(session.id, why, index.leaf_id or "", entry_id, count) if count else None
