"""`treering labels`: the bookmarks of a session."""

from __future__ import annotations

import sys

import click

from ..projections.labels import LabelledEntry
from ..projections.labels import labels as labels_of
from .home import root_option
from .opening import find_leaf, json_option, leaf_option, opened, session_file
from .output import clean, columns, echo_json, run
from .table import WIDTH_OF_PIPES
from .telling import said, short, who


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
    """Write a line for each label; where the terminal is narrow, what the entries say is cut first."""
    from .columns import GAP, aligned

    rows = [(what, clean(label), short(entry_id)) for (entry_id, label), what in zip(found, told, strict=True)]
    width = columns() if sys.stdout.isatty() else WIDTH_OF_PIPES
    heading, *lines = aligned([("what it says", "label", "entry"), *rows], width, going=(), shortened=1)
    what, label, entry_id = heading
    click.secho(GAP.join((label, entry_id, what)).rstrip(), dim=True)
    for what, label, entry_id in lines:
        click.echo(GAP.join((click.style(label, bold=True), entry_id, what)).rstrip())
