"""`treering labels`: the labelled entries of a session."""

from __future__ import annotations

import sys

import click

from ...projections.labels import LabelledEntry
from ...projections.labels import labels as labels_of
from ..descriptions import LABEL_CHARS_MAX, preview_of, role_of, short
from ..home import root_option
from ..opening import find_leaf, json_option, leaf_option, opened, session_file
from ..output import columns, echo_json, run, short_line
from ..table import WIDTH_OF_PIPES


@click.command()
@session_file
@leaf_option
@json_option
@root_option
def labels(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """List labelled entries, those on the path to the leaf first.

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
        labelled = labels_of(log.index, seq)
        if as_json:
            echo_json([{"entry_id": entry_id, "label": label} for entry_id, label in labelled])
            return
        seqs = {entry_id: log.index.find(entry_id) for entry_id, _ in labelled}
        entries = await log.entries_at(sorted(seqs.values()))
        previews: list[str] = []
        for entry_id, _ in labelled:
            entry = entries[seqs[entry_id]]
            previews.append("" if entry is None else f"{role_of(entry)}: {preview_of(entry)}")
    if labelled:
        _show(labelled, previews)


def _show(labelled: list[LabelledEntry], previews: list[str]) -> None:
    """Write a line for each label; in a narrow terminal, the previews are cut first."""
    from ..columns import GAP, aligned

    rows = [
        (preview, short_line(label, LABEL_CHARS_MAX), short(entry_id))
        for (entry_id, label), preview in zip(labelled, previews, strict=True)
    ]
    width = columns() if sys.stdout.isatty() else WIDTH_OF_PIPES
    heading, *lines = aligned([("text", "label", "entry"), *rows], width, droppable=(), shortened=1)
    preview, label, entry_id = heading
    click.secho(GAP.join((label, entry_id, preview)).rstrip(), dim=True)
    for preview, label, entry_id in lines:
        click.echo(GAP.join((click.style(label, bold=True), entry_id, preview)).rstrip())
