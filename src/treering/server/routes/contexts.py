"""Routes of contexts: what a model is shown of a path, plain or built for a budget; compaction; views."""

from __future__ import annotations

from collections import Counter
from typing import get_args
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from ...actors.session.session import Session
from ...events.entries import Compaction
from ...projections.building.budget import UNBOUNDED, ContextBudget, calculate_budget
from ...projections.building.builder import ContextBuilder, StrategyFailure
from ...projections.building.report import ContextReport, Fate
from ...projections.context import Context, ContextMessage
from ...projections.stats import SessionStats
from ...projections.usage import UsageProjection, UsageTotals
from ..http.fields import Count, Limit, Name, Tokens
from ..http.pages import check_limit
from ..preconditions import appended, state_tag
from ..routing import Call, Nothing, ReadQuery, Routes
from .tree import Written, written

routes = Routes()


class ContextQuery(ReadQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which path: the one to `leaf`, by default the session's."""

    leaf: Name | None = None


class ContextReply(Struct, frozen=True):
    """What a model is shown of a path, and the end of the log."""

    context: Context
    cursor: str


class BudgetRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The window of a model, and what else is in it.

    Attributes:
        model_context_window: The tokens that the model accepts.
        system_prompt: System text that is not part of the session.
        tool_definitions: The definitions of the tools, as they are sent.
        reserve_for_response: Tokens to keep free for the answer; null for a quarter of the window.
        leaf: The end of the path; by default the session's leaf.
    """

    model_context_window: Tokens
    system_prompt: str = ""
    tool_definitions: str = ""
    reserve_for_response: Count | None = None
    leaf: Name | None = None


class BuiltContext(Struct, frozen=True):
    """A context that fits a budget; see `ContextBuildResult` for what the fields mean."""

    messages: tuple[ContextMessage, ...]
    strategy: str
    tokens_used: int
    token_budget: int
    original_message_count: int
    included_message_count: int
    summarized_message_count: int
    masked_message_count: int
    budget: ContextBudget
    failures: tuple[StrategyFailure, ...]
    cursor: str


class ReportQuery(ReadQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At which entry, and for which request.

    Attributes:
        entry: The entry; by default the leaf.
        window: The tokens of the model's window; by default that in the session's metadata.
        reserve_for_response: Tokens to keep free for the answer; by default a quarter of the window.
        system_tokens: The tokens of a system prompt that is not part of the session.
        tool_tokens: The tokens of the definitions of the tools.
        start: Which of the messages to begin with, from 0; by default the one with which the last `limit` begin.
        limit: How many messages to tell of.
    """

    entry: Name | None = None
    window: Tokens | None = None
    reserve_for_response: Count | None = None
    system_tokens: Count = 0
    tool_tokens: Count = 0
    start: Count | None = None
    limit: Limit = 300


class Fates(Struct, frozen=True):
    """How many messages of a report have each fate; see `ContextItem`."""

    sent: int
    masked: int
    summarized: int
    cut: int


class ReportReply(Struct, frozen=True):
    """What a model saw at an entry, and the end of the log.

    Attributes:
        report: The report, with some of its items.
        start: Which of the items the first of these is, from 0.
        counts: How many of all items have each fate.
        cursor: The end of the log.
    """

    report: ContextReport
    start: int
    counts: Fates
    cursor: str


class NewCompaction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A summary that stands for everything before the first entry that is kept; null keeps nothing."""

    summary: str
    first_kept_entry_id: str | None
    tokens_before: Count


class UsageReply(Struct, frozen=True):
    """The tokens and the cost of a session, in all and by model, and the end of the log."""

    usage: UsageTotals
    cursor: str


class StatsReply(Struct, frozen=True):
    """The figures of a session, and the end of the log."""

    stats: SessionStats
    cursor: str


@routes.read("/v1/sessions/{session_id}/context", ContextReply, query=ContextQuery)
async def get_context(call: Call[ContextQuery, None]) -> ContextReply:
    """Return what a model is shown of a path."""
    session = await call.reading()
    call.unless_known(f"{state_tag(session)}/{quote(call.query.leaf or '')}")
    context = await session.context(call.query.leaf)
    return ContextReply(context, str(session.cursor))


@routes.add(
    "POST",
    "/v1/sessions/{session_id}/context",
    right="read",
    body=BudgetRequest,
    reply=BuiltContext,
    errors=(404, 409, 422),
)
async def build_context(call: Call[Nothing, BudgetRequest]) -> BuiltContext:
    """Build a context that fits a budget; no model is called and nothing is written."""
    session, body = await call.reading(), call.body
    budget = calculate_budget(
        body.model_context_window,
        body.system_prompt,
        body.tool_definitions,
        reserve_for_response=body.reserve_for_response,
    )
    result = await session.build_context(budget, ContextBuilder(), leaf_id=body.leaf)
    fields = {name: getattr(result, name) for name in BuiltContext.__struct_fields__ if name != "cursor"}
    return BuiltContext(**fields, cursor=str(session.cursor))


@routes.read("/v1/sessions/{session_id}/context/report", ReportReply, query=ReportQuery, errors=(404, 409, 422))
async def report_context(call: Call[ReportQuery, None]) -> ReportReply:
    """Tell what a model saw at an entry: what was sent, masked, summarized or cut, and the tokens of each part."""
    session, query = await call.reading(), call.query
    check_limit(query.limit, call.service.limits.page_max)
    call.unless_known(f"{state_tag(session)}/{quote(repr(query))}")
    report = await session.context_report(query.entry, budget=_budget(session, query))
    items = report.items
    start = max(0, len(items) - query.limit) if query.start is None else min(query.start, len(items))
    counts = Counter(item.fate for item in items)
    return ReportReply(
        replace(report, items=items[start : start + query.limit]),
        start,
        Fates(**{fate: counts[fate] for fate in get_args(Fate)}),
        str(session.cursor),
    )


def _budget(session: Session, query: ReportQuery) -> ContextBudget:
    """Return the budget of a request whose system prompt and tools are known by their tokens alone."""
    provider = session.metadata.provider
    window = query.window or (0 if provider is None else provider.context_window)
    budget = calculate_budget(window, reserve_for_response=query.reserve_for_response)
    taken = query.system_tokens + query.tool_tokens
    return replace(
        budget,
        system_prompt_tokens=query.system_tokens,
        tool_definition_tokens=query.tool_tokens,
        available_tokens=max(0, budget.available_tokens - taken) if window else UNBOUNDED,
    )


@routes.add(
    "POST",
    "/v1/sessions/{session_id}/compact",
    right="write",
    body=NewCompaction,
    reply=Written,
    status=201,
    errors=(404, 409, 422, 423, 507),
    keyed=True,
    conditional=True,
)
async def compact(call: Call[Nothing, NewCompaction]) -> Written:
    """Append a summary that contexts show in place of what came before."""
    session, body = await call.writing(), call.body
    compaction = Compaction(body.summary, body.first_kept_entry_id, body.tokens_before)
    return written(session, await appended(call, session, lambda options: session.append(compaction, **options)))


@routes.read("/v1/sessions/{session_id}/views/usage", UsageReply)
async def get_usage(call: Call[ReadQuery, None]) -> UsageReply:
    """Return the tokens and the cost of a session."""
    session = await call.reading()
    call.unless_known(state_tag(session))
    totals = await session.view(UsageProjection())
    return UsageReply(totals, str(session.cursor))


@routes.read("/v1/sessions/{session_id}/views/stats", StatsReply)
async def get_stats(call: Call[ReadQuery, None]) -> StatsReply:
    """Return the figures of a session."""
    session = await call.reading()
    call.unless_known(state_tag(session))
    return StatsReply(await session.stats(), str(session.cursor))
