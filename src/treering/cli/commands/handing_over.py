"""A session that goes on in another program."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from ...events.texts import counted
from ..home import Home
from ..opening import find_entry
from ..options import FormatName, home_options, json_option, quiet_option, session_argument
from ..output import line, run, show, tell

if TYPE_CHECKING:
    from ...actors.transfer.reports import HandedOver


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
