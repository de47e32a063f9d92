"""`treering copy`: all sessions of one place, in another one, byte for byte."""

from __future__ import annotations

import sys

import click

from ...actors.catalog.settings import root_of
from ...actors.host.runtime import random_id
from ...events.stores.base import Ref, Store
from ...events.stores.copying import CopyReport, copy_logs
from ...events.stores.opening import store_at
from ...events.texts import counted
from ..messages import logs_on_stderr, sentence
from ..options import json_option, quiet_option
from ..output import echo_json, line, run, tell, transient_progress

_NAMES = 1000


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@json_option
@quiet_option
@click.pass_context
def copy(ctx: click.Context, source: str, target: str, as_json: bool) -> None:
    """Copy all sessions to another place, such as a database, byte for byte.

    FROM and TO are directories, or addresses such as postgresql://user@host/database. Lines, ids, numbers of entries
    and leaves are kept; what is derived, such as the index for searching, is made anew. The source may be in use.

    A copy that was interrupted or killed at any time is continued by the same command. Sessions that TO has already are
    compared, and get the entries that they lack; a session that was continued in TO is left as it is, and reported. The
    exit status is 1 if a session could not be copied.

    \b
    Examples:
      treering copy ~/sessions postgresql://user@host/database
      treering copy postgresql://user@host/database /backup/sessions
    """
    roots = (str(root_of(source, "FROM")), str(root_of(target, "TO")))
    if roots[0] == roots[1]:
        raise click.UsageError("FROM and TO are the same place: give two")
    report = run(_copy, *roots)
    for each in report.failed:
        click.echo(f"treering: {line(each.ref)}: {sentence(each.error)}", err=True)
    if as_json:
        failed = [{"ref": each.ref, "error": sentence(each.error)} for each in report.failed]
        echo_json(
            {"sessions": report.logs, "added": report.added, "lines": report.lines, "bytes": report.bytes}
            | {"failed": failed}
        )
    tell(
        f"{counted(report.logs, 'session')} the same in both, {report.added} of them new or longer: "
        f"{counted(report.lines, 'line')} added, {report.bytes:,} bytes"
    )
    ctx.exit(int(bool(report.failed)))


async def _copy(source: str, target: str) -> CopyReport:
    """Copy with a progress bar at a terminal."""
    stores = (store_at(source, new_id=random_id), store_at(target, new_id=random_id))
    with transient_progress() as bar, logs_on_stderr():
        try:
            total = await _count(stores[0]) if sys.stderr.isatty() else None
            task = bar.add_task("copying", total=total)

            def note(_: Ref) -> None:
                bar.advance(task)

            return await copy_logs(*stores, note=note)
        finally:
            for store in stores:
                await store.aclose()


async def _count(store: Store) -> int:
    """Return how many logs there are."""
    count, after = 0, ""
    while page := await store.page(after=after, limit=_NAMES):
        count, after = count + len(page), page[-1].ref
    return count
