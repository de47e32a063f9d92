"""What archiving sessions of PostgreSQL as objects frees, and how long it takes, and the first read of one.

    python -m bench archive --sessions 1000

The sessions are those of `bench.scale`, each with 20 entries of 1 KB; the objects are in a folder, which is flushed. It
prints what it measured as a table in Markdown.
"""

from __future__ import annotations

from tempfile import TemporaryDirectory

import anyio
import click
from msgspec import Struct

from .scale import ENTRIES, ENTRY_BYTES

AT_ONCE = 8


class Archived(Struct, frozen=True):
    """What a run measured.

    Attributes:
        sessions: How many sessions were archived.
        archive_s: How long that took, in seconds.
        before_bytes: The bytes of the tables of lines with their indexes, before.
        after_bytes: The same afterwards, when the database has given back what was deleted.
        object_bytes: The bytes of the objects.
        read_ms: The median of the first read of all entries of a session that is in the database, in milliseconds.
        archived_read_ms: The same for one in an object.
        back_ms: The median of an append to an archived session, which brings it back, in milliseconds.
    """

    sessions: int
    archive_s: float
    before_bytes: int
    after_bytes: int
    object_bytes: int
    read_ms: float
    archived_read_ms: float
    back_ms: float


def report(measured: Archived) -> str:
    """Return what was measured as Markdown."""
    count = measured.sessions
    return "\n".join(
        [
            f"{count:,} sessions of {ENTRIES} entries of {ENTRY_BYTES:,} bytes, {AT_ONCE} at a time",
            "",
            "| what | |",
            "|---|---|",
            f"| lines in the database before, a session | {measured.before_bytes / count:,.0f} bytes |",
            f"| afterwards | {measured.after_bytes / count:,.0f} bytes |",
            f"| its object | {measured.object_bytes / count:,.0f} bytes |",
            f"| archiving all | {measured.archive_s:.1f} s |",
            f"| the first read of all entries of a session in the database | {measured.read_ms:.1f} ms |",
            f"| of one in an object | {measured.archived_read_ms:.1f} ms |",
            f"| an append to one in an object, which brings it back | {measured.back_ms:.1f} ms |",
        ]
    )


@click.command("archive")
@click.option("--sessions", default=1000, show_default=True, type=click.IntRange(min=1), help="How many to archive.")
def archive_command(sessions: int) -> None:
    """Measure what archiving sessions of PostgreSQL as objects frees, and how long it takes."""
    from treering.stores.postgres.local_server import LocalServer

    from .archive_measuring import measure

    with (
        LocalServer(durable=True, settings={"shared_buffers": "256MB", "max_wal_size": "4GB"}) as server,
        TemporaryDirectory() as folder,
    ):
        click.echo(report(anyio.run(measure, server.url(schema="archive"), sessions, f"file://{folder}")))
