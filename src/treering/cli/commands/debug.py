"""`treering debug`: what a model is sent, and how it was built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

import click

from ...actors.agents.sent_requests import SentContext
from ...actors.agents.window import UNBOUNDED
from ...actors.session.session import Session
from ...events.content import Content
from ...events.wording import counted
from ...projections.building.budget import ContextBudget, calculate_budget
from ...projections.building.builder import ContextBuildResult
from ..descriptions import colored, part_text, short
from ..home import Home, root_option, session_argument
from ..number_input import Count
from ..opening import json_option
from ..output import clean, echo_json, echo_lines, quiet_option, run, tell


@click.group()
def debug() -> None:
    """Inspect what a model is sent.

    \b
    Examples:
      treering debug context last
    """


@debug.command()
@session_argument
@click.option(
    "--window",
    metavar="TOKENS",
    type=Count(min=1),
    help="The model's window, by default the one recorded in the session. If neither is known, everything is sent.",
)
@json_option
@quiet_option
@root_option
def context(session: str, window: int | None, as_json: bool, root: str | None) -> None:
    """Show what a model would be sent now: the messages, the strategy, the counts.

    Requests are not stored, since they can be rebuilt; in a chat, `/debug context` shows the last one that was sent.
    This command builds a new one, without a system prompt. It calls no model and writes nothing.

    \b
    Examples:
      treering debug context last
      treering debug context 5f0c12ab --window 8192 --json
    """
    built = run(_context, Home.at(root), session, window)
    tell("nothing was sent: this is what would be sent now")
    if built.token_budget == UNBOUNDED:
        tell("the model's window is unknown, so nothing is left out: set it with --window")
    if as_json:
        echo_json(built.to_json())
    else:
        echo_lines(built_lines(built))


async def _context(home: Home, text: str, window: int | None) -> ContextBuildResult:
    async with home.opened() as host:
        row = await host.resolve(text)
        async with await host.load(row, read_only=True) as session:
            return await session.build_context(_budget(session, window))


def _budget(session: Session, window: int | None) -> ContextBudget:
    """Return the budget that an agent would have; without a known window it is unbounded."""
    provider = session.metadata.provider
    known = window or (0 if provider is None else provider.context_window)  # 0 is unknown
    return calculate_budget(known or UNBOUNDED, reserve_for_response=None if known else 0)


def built_lines(built: ContextBuildResult) -> Iterator[str]:
    """Yield a built context for people: the strategy, the counts, failed strategies, the messages."""
    yield from _counts(built, "would be sent")
    for each in built.messages:
        yield from _message(each.role, each.entry_id or None, each.content)


def sent_lines(sent: SentContext) -> Iterator[str]:
    """Yield a sent request for people, with the messages exactly as they were sent."""
    yield click.style(f"request {sent.number}", bold=True)
    yield from _counts(sent.built, "sent", len(sent.messages))
    for each in sent.messages:
        yield from _message(each.role, None, each.content)


def _counts(built: ContextBuildResult, verb: str, count: int | None = None) -> Iterator[str]:
    messages = counted(len(built.messages) if count is None else count, "message")
    yield f"strategy  {click.style(clean(built.strategy), bold=True)}"
    limit = "" if built.token_budget == UNBOUNDED else f" of {built.token_budget:,}"
    yield f"tokens    {built.tokens_used:,}{limit} (estimated)"
    yield f"messages  {messages} {verb}, of {built.original_message_count} in the context: " + ", ".join(
        f"{number} {name}"
        for number, name in (
            (built.included_message_count, "as they are"),
            (built.summarized_message_count, "summarized"),
            (built.dropped_message_count, "left out"),
            (built.masked_message_count, "with tool results cut"),
        )
        if number
    )
    for failure in built.failures:
        yield click.style(f"failed    {clean(str(failure))}", dim=True)


def _message(role: str, entry_id: str | None, content: Sequence[Content]) -> Iterator[str]:
    yield ""
    yield colored(clean(role)) + (f"  {click.style(short(entry_id), dim=True)}" if entry_id else "")
    for part in content:
        yield indent(clean(part_text(part)), "  ")
