"""What changes, as it changes: the entries of a session, or the sessions of all programs of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

import anyio
import click

from ...events.entries import Entry
from ...projections.feed_events import Reset
from ..messages import warn
from ..opening import opened
from ..options import FormatName, home_options, json_option, session_completion
from ..output import run, watch_reader
from .entries import show


def _programs() -> Sequence[str]:
    from ...formats.programs import homes

    return (*homes(os.environ),)


@click.command()
@click.argument(
    "file", metavar="[SESSION]", required=False, type=click.Path(readable=False), shell_complete=session_completion
)
@json_option
@click.option("--from-start", is_flag=True, help="Print the existing entries first.")
@click.option("--programs", is_flag=True, help="Follow the sessions of all programs of this machine instead.")
@click.option(
    "--from",
    "names",
    multiple=True,
    type=FormatName(_programs),
    help="Follow the sessions of this program alone; can be given several times.",
)
@home_options
def follow(
    file: str | None, as_json: bool, from_start: bool, programs: bool, names: tuple[str, ...], root: str | None
) -> None:
    """Print each entry as another process appends it, until Ctrl-C.

    It also ends when the program that reads its output has ended, as `head` does.

    With --programs, follow the sessions that Claude Code, Codex, Gemini CLI, opencode, pi and others keep on this
    machine, those that changed last first: a list that is kept up to date at a terminal, and a line for each session
    that changes elsewhere. Their files are only read, each from its beginning and its end.

    \b
    Examples:
      treering follow session.jsonl
      treering follow session.jsonl --json --from-start
      treering follow --programs
      treering follow --from codex --json | jq -r 'select(.state == "waits").title'
    """
    with suppress(KeyboardInterrupt):
        if programs or names:
            given = "a SESSION" if file is not None else "--from-start" if from_start else "--root" if root else None
            if given is not None:
                raise click.UsageError(f"{given} and --programs exclude each other")
            from ..programs import follow_programs

            run(follow_programs, names, as_json)
            return
        if file is None:
            raise click.UsageError("Missing argument 'SESSION': give one, or --programs")
        run(_follow, file, root, as_json, from_start)


async def _follow(file: str, root: str | None, as_json: bool, from_start: bool) -> None:
    async with (
        opened(file, root) as session,
        session.subscribe(after=0 if from_start else session.cursor) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(watch_reader)
        while True:
            _show_items(await subscription.receive_many(), file, as_json=as_json)


def _show_items(items: Iterable[Entry | Reset], file: str, *, as_json: bool) -> None:
    """Show entries together, and a warning where the file was replaced."""
    entries: list[Entry] = []
    for item in items:
        if isinstance(item, Reset):
            show(entries, as_json=as_json)
            entries = []
            warn(f"{file}: the file was replaced or truncated; following it from the start")
        else:
            entries.append(item)
    show(entries, as_json=as_json)
