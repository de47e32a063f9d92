"""`treering compact`: replace the older part of a context with a summary, or preview that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from ...actors.session.compaction import KEEP_TOKENS, CompactionReport
from ...events.wording import counted
from ..descriptions import short
from ..home import Home, root_option, session_argument
from ..number_input import Count
from ..opening import json_option
from ..output import clean, echo_json, echo_lines, quiet_option, run, tell

if TYPE_CHECKING:
    from ...projections.building.summaries import Summarizer


class _Request(Struct, frozen=True):
    session: str
    keep_tokens: int
    model: str
    base_url: str | None


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
@click.option(
    "--model",
    metavar="NAME",
    envvar="TREERING_MODEL",
    show_envvar=True,
    help="The model that makes the summary; see `treering chat`.",
)
@click.option(
    "--base-url",
    metavar="URL",
    envvar="TREERING_BASE_URL",
    show_envvar=True,
    help="Where that model is served; each provider has a default.",
)
@json_option
@quiet_option
@root_option
def compact(
    session: str,
    applying: bool,
    keep_tokens: int,
    model: str | None,
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
    if applying and model is None:
        raise click.UsageError("--apply needs --model: name the model that makes the summary")
    request = _Request(session, keep_tokens, model or "", base_url)
    report = run(_compact, Home.at(root), request, applying)
    if as_json:
        echo_json(report)
    else:
        echo_lines(report_lines(report))
    if not report.applied and not report.reason:
        tell("nothing was written: pass --apply to compact")


async def _compact(home: Home, request: _Request, applying: bool) -> CompactionReport:
    async with home.opened() as host:
        row = await host.resolve(request.session)
        summarizer = _summarizer(request) if applying else None
        async with await host.load(row, read_only=True) as viewed:
            planned = await viewed.dry_compact(keep_tokens=request.keep_tokens)
        if summarizer is None or planned.first_kept_entry_id is None:  # opening it for writing would unarchive it
            return planned
        session = await host.load(row)
        return await session.compact(summarizer, keep_tokens=request.keep_tokens)


def _summarizer(request: _Request) -> Summarizer:
    from ..chat.models import Models, summarizer_for

    return summarizer_for(Models.from_options(request.model, request.base_url).named(request.model))


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
