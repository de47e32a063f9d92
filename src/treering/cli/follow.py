"""`treering follow`: the entries of a session as they come."""

from __future__ import annotations

from contextlib import suppress

import click

from ..events.entries import Entry
from ..projections.feed import Reset
from .entries import show
from .home import root_option
from .logs import warn
from .opening import json_option, opened, session_file
from .output import run


@click.command()
@session_file
@json_option
@click.option("--from-start", is_flag=True, help="Print the entries that are there already, too.")
@root_option
def follow(file: str, as_json: bool, from_start: bool, root: str | None) -> None:
    """Print each entry as another process appends it, until Ctrl-C.

    \b
    Examples:
      treering follow session.jsonl
      treering follow session.jsonl --json --from-start
    """
    with suppress(KeyboardInterrupt):
        run(_follow, file, root, as_json, from_start)


async def _follow(file: str, root: str | None, as_json: bool, from_start: bool) -> None:
    async with (
        opened(file, root) as session,
        session.subscribe(after=0 if from_start else session.cursor) as subscription,
    ):
        while True:
            entries: list[Entry] = []
            for item in await subscription.receive_many():
                if isinstance(item, Reset):
                    show(entries, as_json=as_json)
                    entries = []
                    warn(f"{file}: the file was replaced or shortened: following it from its start")
                else:
                    entries.append(item)
            show(entries, as_json=as_json)
