"""Commands on a session's context: what a model sees and is sent, and replacing the older part with a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

import click

from ...actors.agents.events import SentContext
from ...actors.session.compaction import KEEP_TOKENS, CompactionReport
from ...actors.session.session import Session
from ...events.content import Content, shown_text
from ...events.texts import counted
from ...projections.building.budget import UNBOUNDED, ContextBudget, calculate_budget
from ...projections.building.builder import ContextBuildResult
from ...projections.context import Context, json_fields
from ..command_list import Commands
from ..home import Home
from ..messages import warn
from ..opening import find_leaf, opened
from ..options import (
    Count,
    base_url_option,
    home_options,
    json_option,
    leaf_option,
    model_option,
    quiet_option,
    session_argument,
    session_file,
)
from ..output import clean, run, show, tell
from ..rows import colored, short


@click.command()
@session_file
@leaf_option
@json_option
@home_options
def context(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """Print what a model sees of the path to the leaf.

    \b
    Examples:
      treering context session.jsonl
      treering context session.jsonl --leaf 5f0c12ab --json
    """
    run(_show_context, file, root, leaf, as_json)


async def _show_context(file: str, root: str | None, leaf: str | None, as_json: bool) -> None:
    async with opened(file, root) as session:
        seq = await find_leaf(session, leaf)
        log = await session.log()
        shown = await log.context(log.index.leaf if seq is None else seq)
    for warning in shown.warnings:
        warn(f"{file}: {warning}")
    show(json_fields(shown), _lines(shown), as_json=as_json)


def _lines(shown: Context) -> Iterator[str]:
    model = f"{shown.model.provider}/{shown.model.model_id}" if shown.model else "no model"
    head = f"session {shown.session_id}, leaf {short(shown.leaf_id)}, {model}, thinking {shown.thinking_level}"
    yield click.style(clean(head), dim=True)
    for each in shown.messages:
        yield from _message(each.role, each.entry_id, each.content)
        if not each.content:
            yield indent(clean(each.message.error or "(nothing)"), "  ")


@click.group(cls=Commands)
def debug() -> None:
    """Inspect what a model is sent.

    \b
    Examples:
      treering debug context last
    """


@debug.command("context")
@session_argument
@click.option(
    "--window",
    metavar="TOKENS",
    type=Count(min=1),
    help="The model's window, by default the one recorded in the session. If neither is known, everything is sent.",
)
@json_option
@quiet_option
@home_options
def debug_context(session: str, window: int | None, as_json: bool, root: str | None) -> None:
    """Show what a model would be sent now: the messages, the strategy, the counts.

    Requests are not stored, since they can be rebuilt; in a chat, `/debug context` shows the last one that was sent.
    This command builds a new one, without a system prompt. It calls no model and writes nothing.

    \b
    Examples:
      treering debug context last
      treering debug context 5f0c12ab --window 8192 --json
    """
    built = run(_build_context, Home.at(root), session, window)
    tell("nothing was sent: this is what would be sent now")
    if built.token_budget == UNBOUNDED:
        tell("the model's window is unknown, so nothing is left out: set it with --window")
    show(built.to_json(), _built_lines(built), as_json=as_json)


async def _build_context(home: Home, text: str, window: int | None) -> ContextBuildResult:
    async with home.opened() as host:
        row = await host.resolve(text)
        async with await host.load(row, read_only=True) as session:
            return await session.build_context(_budget(session, window))


def _budget(session: Session, window: int | None) -> ContextBudget:
    """Return the budget that an agent would have; without a known window it is unbounded."""
    provider = session.metadata.provider
    known = window or (0 if provider is None else provider.context_window)  # 0 is unknown
    return calculate_budget(known or UNBOUNDED, reserve_for_response=None if known else 0)


def _built_lines(built: ContextBuildResult) -> Iterator[str]:
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
        yield indent(clean(shown_text(part)), "  ")


@click.command()
@session_argument
@click.option("--apply", "applying", is_flag=True, help="Append the compaction; requires --model.")
@click.option(
    "--keep-tokens",
    metavar="N",
    type=Count(min=0),
    default=KEEP_TOKENS,
    show_default=True,
    help="About how many tokens stay as they are.",
)
@model_option("The model that makes the summary; see `treering chat`.")
@base_url_option("Where that model is served; each provider has a default.")
@json_option
@quiet_option
@home_options
def compact(
    session: str,
    applying: bool,
    keep_tokens: int,
    model_name: str | None,
    base_url: str | None,
    as_json: bool,
    root: str | None,
) -> None:
    """Replace the older part of a session's context with a summary.

    Without --apply, nothing is written and no model is called; the command reports where it would cut the session, and
    the tokens before and after. The originals always stay in the session.

    \b
    Examples:
      treering compact last
      treering compact last --apply --model ollama:qwen3:8b
    """
    if applying and model_name is None:
        raise click.UsageError("--apply needs --model: name the model that makes the summary")
    report = run(_compact, Home.at(root), session, keep_tokens, model_name if applying else None, base_url)
    show(report, report_lines(report), as_json=as_json)
    if not report.applied and not report.reason:
        tell("nothing was written: pass --apply to compact")


async def _compact(
    home: Home, text: str, keep_tokens: int, model_name: str | None, base_url: str | None
) -> CompactionReport:
    """Compact a session with a model's summary, or without a model report what that would do."""
    from ..chat.models import Models, summarizer_for

    async with home.opened() as host:
        row = await host.resolve(text)
        models = Models.from_options(model_name, base_url)
        summarizer = None if model_name is None else summarizer_for(models.named(model_name))
        async with await host.load(row, read_only=True) as viewed:
            planned = await viewed.dry_compact(keep_tokens=keep_tokens)
        if summarizer is None or planned.first_kept_entry_id is None:  # opening it for writing would unarchive it
            return planned
        session = await host.load(row)
        return await session.compact(summarizer, keep_tokens=keep_tokens)


def report_lines(report: CompactionReport) -> Iterator[str]:
    """Yield lines for people on what a compaction did or would do."""
    if report.first_kept_entry_id is None:
        yield f"nothing to compact: {clean(report.reason)}"
        return
    verb, would = ("summarized", "") if report.applied else ("would summarize", "would ")
    kept = f"{counted(report.kept_count, 'message')} from {short(report.first_kept_entry_id)} on"
    yield f"{verb} {counted(report.summarized_count, 'message')}, and {would}keep{'' if would else 's'} {kept}"
    about = "" if report.applied else "about "
    yield f"tokens before {report.tokens_before:,}, after {about}{report.tokens_after:,} (estimated)"
    yield f"the summary takes {about}{report.summary_tokens:,}"
    if report.entry_id is not None:
        yield f"compaction {short(report.entry_id)}"
