"""`treering entries`: the lines of a session, in file order."""

from __future__ import annotations

from collections.abc import AsyncIterator

import click
import msgspec

from ...actors.session.session import Session
from ...events.entries import Entry, OpaqueEntry
from ..descriptions import line_of
from ..home import root_option
from ..opening import find_leaf, json_option, leaf_option, opened, session_file
from ..output import as_json as encoded
from ..output import run

_AT_ONCE = 256


@click.command()
@session_file
@leaf_option
@json_option
@root_option
def entries(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """Print the entries in file order; with --leaf, only those on the path to that entry.

    With --json, each entry is one line in the native format, whatever the format of the file, with its `seq`.

    \b
    Examples:
      treering entries session.jsonl
      treering entries session.jsonl --json | jq -r 'select(.type == "message").message.role'
    """
    run(_entries, file, root, leaf, as_json)


async def _entries(file: str, root: str | None, leaf: str | None, as_json: bool) -> None:
    async with opened(file, root) as session:
        seq = await find_leaf(session, leaf)
        page: list[Entry] = []
        async for entry in session.iter_entries() if seq is None else _path(session, seq):
            page.append(entry)
            if len(page) == _AT_ONCE:
                show(page, as_json=as_json)
                page = []
        show(page, as_json=as_json)


async def _path(session: Session, seq: int) -> AsyncIterator[Entry]:
    log = await session.log()
    seqs = log.index.path(seq)
    for start in range(0, len(seqs), _AT_ONCE):
        page = seqs[start : start + _AT_ONCE]
        entries_by_seq = await log.entries_at(page)
        for each in page:
            if (entry := entries_by_seq[each]) is not None:
                yield entry


def show(entries: list[Entry], *, as_json: bool) -> None:
    """Write each entry on a line."""
    if not entries:
        return
    if as_json:
        click.echo(b"\n".join(native_line(entry) for entry in entries))
    else:
        click.echo("\n".join(line_of(entry) for entry in entries))


def native_line(entry: Entry) -> bytes:
    """Encode an entry in the native format, with its seq.

    An opaque entry keeps the keys of its own line and gets those of every native entry; `opaque` gives the reason.
    """
    if not isinstance(entry, OpaqueEntry):
        return encoded(entry)
    value = entry.value
    own = value if isinstance(value, dict) else {}
    envelope = {"type": entry.type, "id": entry.id, "parent_id": entry.parent_id}
    timed = {"timestamp": msgspec.to_builtins(entry.timestamp), "seq": entry.seq, "opaque": entry.reason}
    return encoded({**envelope, **own, **envelope, **timed})
