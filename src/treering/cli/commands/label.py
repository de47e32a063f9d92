"""`treering label`: label an entry."""

from __future__ import annotations

import click

from ..home import Home, root_option, session_argument
from ..opening import find_entry, json_option
from ..output import echo_json, run


@click.command()
@session_argument
@click.argument("entry", metavar="ENTRY")
@click.argument("text", metavar="[TEXT]", required=False)
@json_option
@root_option
def label(session: str, entry: str, text: str | None, as_json: bool, root: str | None) -> None:
    """Label an entry of a session, or remove its label.

    ENTRY is an entry's id, or the beginning of one. Without TEXT, the label is removed. `treering labels` lists all
    labels.

    \b
    Examples:
      treering label last 9b2e1c33 "before the rewrite"
      treering label last 9b2e1c33
    """
    result = run(_label, Home.at(root), session, entry, text)
    if as_json:
        echo_json(result)


async def _label(home: Home, session: str, entry: str, text: str | None) -> dict[str, str | None]:
    async with home.opened() as host:
        row = await host.resolve(session)
        async with await host.load(row, read_only=True) as viewed:  # a typo must not unarchive the session
            entry_id = await find_entry(viewed, entry)
        loaded = await host.load(row)
        await loaded.set_label(entry_id, text)
        return {"session_id": loaded.id, "entry_id": entry_id, "label": loaded.label(entry_id)}
