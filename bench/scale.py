"""How much room sessions take in PostgreSQL, and how long what is asked of very many of them takes: the command.

    python -m bench scale --sessions 1000000 --folder /var/tmp/scale

The sessions are real ones, made through `SessionHost` on a server of the program's own. At each power of ten on the way
it measures; what was measured is printed as tables in Markdown. With a folder, the next run goes on where one stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import click
import msgspec
from msgspec import Struct

ENTRIES = 20
ENTRY_BYTES = 1024
INDEXED_MAX = 1000
_MEASURED = "measured.json"
_SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min"}


class Measured(Struct, frozen=True):
    """What was measured of some sessions.

    Attributes:
        sessions: How many there were.
        made: How many of them were made by the run that measured.
        write_s: How long making those took, in seconds.
        took_ms: How long each question took, in milliseconds: the median.
        table_bytes: The bytes of each table with its indexes.
        index_s: How long the first search took, which makes the index, in seconds; None if none was made.
        index_bytes: The bytes of the index of a search; None if none was made.
    """

    sessions: int
    made: int
    write_s: float
    took_ms: dict[str, float]
    table_bytes: dict[str, int]
    index_s: float | None = None
    index_bytes: int | None = None


def decades(sessions: int) -> list[int]:
    """Return at how many sessions is measured: powers of ten from 1,000 on, and at the end."""
    steps = [10**power for power in range(3, len(str(sessions)))]
    return [step for step in steps if step < sessions] + [sessions]


def report(measured: Sequence[Measured]) -> str:
    """Return what was measured as Markdown: a column for each number of sessions."""
    lines = [f"Sessions of {ENTRIES} entries of {ENTRY_BYTES:,} bytes.", ""]
    lines += _heading("bytes per session", measured)
    for table in dict.fromkeys(name for each in measured for name in each.table_bytes):
        lines.append(_row(f"`{table}`", [_per(each, each.table_bytes.get(table)) for each in measured]))
    lines.append(_row("all of these", [_per(each, sum(each.table_bytes.values())) for each in measured]))
    lines.append(_row("the index of a search", [_per(each, each.index_bytes) for each in measured]))
    lines += ["", *_heading("takes, in ms", measured)]
    lines.append(_row("making a session", [f"{each.write_s / max(each.made, 1) * 1000:.1f}" for each in measured]))
    indexing = ["" if each.index_s is None else f"{each.index_s / each.sessions * 1000:.1f}" for each in measured]
    lines.append(_row("indexing its texts", indexing))
    for what in dict.fromkeys(what for each in measured for what in each.took_ms):
        took = [each.took_ms.get(what) for each in measured]
        lines.append(_row(what, ["" if each is None else f"{each:,.1f}" for each in took]))
    return "\n".join(lines)


def _heading(what: str, measured: Sequence[Measured]) -> list[str]:
    return [f"| {what} | {' | '.join(f'{each.sessions:,}' for each in measured)} |", "|---|" + "---|" * len(measured)]


def _row(what: str, cells: Sequence[str]) -> str:
    return f"| {what} | {' | '.join(cells)} |"


def _per(measured: Measured, size: int | None) -> str:
    return "" if size is None else f"{size / measured.sessions:,.0f}"


def read(folder: Path) -> list[Measured]:
    """Return what earlier runs in a folder measured."""
    file = folder / _MEASURED
    return msgspec.json.decode(file.read_bytes(), type=list[Measured]) if file.exists() else []


def write(folder: Path, measured: Sequence[Measured]) -> None:
    """Note in a folder what was measured."""
    (folder / _MEASURED).write_bytes(msgspec.json.format(msgspec.json.encode(measured)))


@click.command("scale")
@click.option("--sessions", default=1_000_000, show_default=True, type=click.IntRange(min=1), help="How many to make.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the database and the figures here, and go on from there the next time.",
)
@click.option(
    "--index-through",
    default=INDEXED_MAX,
    show_default=True,
    type=click.IntRange(min=0),
    help="Measure searches as long as there are no more sessions: their index takes more room than all else.",
)
def scale_command(sessions: int, folder: Path | None, index_through: int) -> None:
    """Measure how much room sessions take in PostgreSQL, and how long questions about them take."""
    from treering.stores.postgres.local_server import LocalServer

    from .scale_measuring import grow

    known = [] if folder is None else read(folder)
    with LocalServer(durable=True, settings=_SETTINGS, folder=folder) as server:
        for count in decades(sessions):
            if any(each.sessions == count for each in known):
                continue
            known.append(anyio.run(grow, server.url(schema="scale"), count, index_through))
            known.sort(key=lambda each: each.sessions)
            if folder is not None:
                write(folder, known)
            click.echo(f"{report(known)}\n")
