"""`treering follow`: the entries of a session as they are appended."""

from __future__ import annotations

import select
from collections.abc import Iterable
from contextlib import suppress

import anyio
import click

from ...events.entries import Entry
from ...projections.feed import Reset
from ..home import root_option
from ..logs import warn
from ..opening import json_option, opened, session_file
from ..output import run
from .entries import show

_STDOUT = 1
_LOOKS_EVERY_S = 0.5


@click.command()
@session_file
@json_option
@click.option("--from-start", is_flag=True, help="Print the existing entries first.")
@root_option
def follow(file: str, as_json: bool, from_start: bool, root: str | None) -> None:
    """Print each entry as another process appends it, until Ctrl-C.

    It also ends when the program that reads its output has ended, as `head` does.

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
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_watch_reader)
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


async def _watch_reader() -> None:
    """Watch stdout if it is a pipe: a write reports a closed pipe, but the next entry may never come.

    Raises:
        BrokenPipeError: The reader has closed the pipe.
    """
    pipe = select.poll()
    pipe.register(_STDOUT, 0)  # poll reports a closed other end without being asked to
    while not pipe.poll(0):  # noqa: ASYNC110  # the kernel does not set an anyio event
        await anyio.sleep(_LOOKS_EVERY_S)
    raise BrokenPipeError
