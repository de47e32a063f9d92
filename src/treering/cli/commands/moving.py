"""Sessions that move: all of one place to another one, byte for byte; and one that goes on in another program."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ...actors.catalog.settings import root_of
from ...actors.host.runtime import random_id
from ...events.errors import InvalidInput
from ...events.stores.base import Ref, Store
from ...events.stores.copying import CopyReport, copy_logs
from ...events.stores.opening import store_at
from ...events.texts import counted
from ..home import Home
from ..messages import logs_on_stderr, sentence
from ..opening import find_entry
from ..options import FormatName, home_options, json_option, quiet_option, session_argument
from ..output import echo_json, line, run, show, tell, transient_progress

if TYPE_CHECKING:
    from ...actors.transfer.reports import HandedOver

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
    if os.path.isabs(roots[0]) and not os.path.isdir(roots[0]):
        raise InvalidInput(f"there is no directory {line(source)}: give the one that holds the sessions")
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


def _target_names() -> Sequence[str]:
    from ...formats.handing_over.targets import target_names

    return target_names()


@click.command("hand-over")
@session_argument
@click.option("--to", "program", required=True, type=FormatName(_target_names), help="The program.")
@click.option("--leaf", metavar="ID", help="Hand over the path to this entry instead of that to the leaf.")
@click.option(
    "--cwd",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False),
    help="Where the program goes on; by default the session's own directory, or the current one if there is none.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing, and only print what the program cannot hold.")
@json_option
@quiet_option
@home_options
def hand_over(
    session: str, program: str, leaf: str | None, cwd: str | None, dry_run: bool, as_json: bool, root: str | None
) -> None:
    """Hand a session over to another program, which goes on with it.

    The path is written as a session of that program, where it looks for its sessions, and nothing of others is touched.
    Stdout gets the commands that enter its directory and resume it; stderr, what the program cannot hold.
    `treering import --from PROGRAM` then brings back what it went on to write, below the entry that was handed over.
    docs/handing-over.md says more.

    \b
    Examples:
      treering hand-over last --to claude-code
      treering hand-over 5f0c12ab --to claude-code --dry-run
    """
    result = run(_hand_over, Home.at(root), session, program, leaf, cwd, dry_run)
    show(result, _lines(result), as_json=as_json)
    if not as_json:
        kinds = Counter(each.kind for each in result.left_out)
        for kind, count in kinds.items():
            tell(f"left out: {counted(count, kind) if count == 1 else f'{count:,} x {kind}'}")


async def _hand_over(
    home: Home, text: str, program: str, leaf: str | None, cwd: str | None, dry_run: bool
) -> HandedOver:
    async with home.opened() as host:
        row = await host.resolve(text)
        async with await host.load(row, read_only=dry_run) as session:
            leaf_id = None if leaf is None else await find_entry(session, leaf)
            return await session.hand_over(program, leaf_id=leaf_id, cwd=cwd, dry_run=dry_run)


def _lines(result: HandedOver) -> Iterator[str]:
    if result.command is not None:
        yield f"cd {shlex.quote(line(result.cwd))}"
        yield line(result.command)
        return
    for each in result.left_out:
        yield f"{each.entry_id}  {line(each.kind)}  {line(each.text)}"
