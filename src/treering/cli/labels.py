"""`treering labels`: the bookmarks of a session."""

from __future__ import annotations

import sys

import click

from ..projections.labels import LabelledEntry
from ..projections.labels import labels as labels_of
from .home import root_option
from .opening import find_leaf, json_option, leaf_option, opened, session_file
from .output import clean, echo_json, run
from .telling import said, short, who

_WIDTH_OF_PIPES = 10_000


@click.command()
@session_file
@leaf_option
@json_option
@root_option
def labels(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """List the labelled entries, those on the path to the leaf first.

    \b
    Examples:
      treering labels session.jsonl
      treering labels session.jsonl --json
    """
    run(_labels, file, root, leaf, as_json)


async def _labels(file: str, root: str | None, leaf: str | None, as_json: bool) -> None:
    async with opened(file, root) as session:
        seq = await find_leaf(session, leaf)
        log = await session.log()
        found = labels_of(log.index, seq)
        if as_json:
            echo_json([{"entry_id": entry_id, "label": label} for entry_id, label in found])
            return
        seqs = {entry_id: log.index.find(entry_id) for entry_id, _ in found}
        entries = await log.entries_at(sorted(seqs.values()))
        told: list[str] = []
        for entry_id, _ in found:
            entry = entries[seqs[entry_id]]
            told.append("" if entry is None else f"{who(entry)}: {said(entry)}")
    if found:
        _show(found, told)


def _show(found: list[LabelledEntry], told: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=True, header_style="dim")
    table.add_column("label", no_wrap=True)
    table.add_column("entry", no_wrap=True)
    table.add_column("what it says", no_wrap=True, overflow="ellipsis")
    for (entry_id, label), what in zip(found, told, strict=True):
        table.add_row(Text(clean(label), style="bold"), short(entry_id), Text(what))
    width = None if sys.stdout.isatty() else _WIDTH_OF_PIPES
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)
