"""`treering context`: what a model sees of a session."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import indent

import click

from ...events.content import shown_text
from ...projections.context import Context, json_fields
from ..descriptions import colored, short
from ..home import root_option
from ..logs import warn
from ..opening import find_leaf, json_option, leaf_option, opened, session_file
from ..output import clean, echo_json, echo_lines, run


@click.command()
@session_file
@leaf_option
@json_option
@root_option
def context(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """Print what a model sees of the path to the leaf.

    \b
    Examples:
      treering context session.jsonl
      treering context session.jsonl --leaf 5f0c12ab --json
    """
    run(_context, file, root, leaf, as_json)


async def _context(file: str, root: str | None, leaf: str | None, as_json: bool) -> None:
    async with opened(file, root) as session:
        seq = await find_leaf(session, leaf)
        log = await session.log()
        shown = await log.context(log.index.leaf if seq is None else seq)
    for warning in shown.warnings:
        warn(f"{file}: {warning}")
    if as_json:
        echo_json(json_fields(shown))
    else:
        echo_lines(_lines(shown))


def _lines(shown: Context) -> Iterator[str]:
    model = f"{shown.model.provider}/{shown.model.model_id}" if shown.model else "no model"
    head = f"session {shown.session_id}, leaf {short(shown.leaf_id)}, {model}, thinking {shown.thinking_level}"
    yield click.style(clean(head), dim=True)
    for each in shown.messages:
        yield ""
        yield f"{colored(clean(each.role))}  {click.style(short(each.entry_id), dim=True)}"
        for text in [shown_text(part) for part in each.content] or [each.message.error or "(nothing)"]:
            yield indent(clean(text), "  ")
