"""`treering demo`: a short story of several agents, played against real files.

The story is the same on every run: the host gets a scripted clock and id source, the agents take turns, and each line
is printed only after the work that it describes.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TypeVar, TypeVarTuple

import anyio
import click
from anyio import to_thread
from anyio.lowlevel import checkpoint

from ...actors.host.host import SessionHost
from ...actors.host.runtime import Limits
from ...actors.session.session import Session
from ...events.content import tool_use
from ...events.errors import ExtraMissing, InvalidInput
from ...events.health.doctor import examine
from ...projections.feed_events import Reset
from ..options import port_option
from ..output import echo_lines, echo_step, echo_title, line, run
from ..rows import preview_of, role_of, short
from .demo_worker import SESSION, TORN, story_clock, story_ids
from .tree import tree_pages

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_DEADLINE_S = 60
_PLANNED = 5  # the entries of the plan in the first scene


@click.command()
@click.option(
    "--dir",
    "folder",
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, readable=False),
    help="Use this directory and keep the files; by default, use a temporary directory.",
)
@click.option("--serve", "serves", is_flag=True, help="Let twenty agents work, and serve their sessions on loopback.")
@port_option("With --serve or --cluster: the port; 0 for a free one.")
@click.option("--open", "opens", is_flag=True, help="With --serve or --cluster: open the page in a browser.")
@click.option(
    "--cluster", is_flag=True, help="Kill one of three hosts that share a database; with --serve, go on until Ctrl-C."
)
@click.option("--seed", metavar="N", default=1, show_default=True, help="With --serve: decides who says what.")
def demo(folder: str | None, serves: bool, port: int, opens: bool, cluster: bool, seed: int) -> None:
    """Play a short story with several agents, and draw the resulting tree.

    With --serve, twenty agents work by a script until Ctrl-C, and a browser shows them at the address that is printed.
    It needs no network; the oldest sessions are removed.

    With --cluster, three hosts share a PostgreSQL that is started for this. The one that owns the conversation is
    killed, and the conversation goes on. It needs PostgreSQL's server, such as Debian's package `postgresql`.

    \b
    Examples:
      treering demo
      treering demo --dir story && treering tree story/plan.jsonl
      treering demo --serve --open
      treering demo --cluster --serve --open
    """
    if cluster:
        _play_cluster(folder, port, opens, serves)
        return
    with _place(folder) as place:
        if serves:
            from ..crew.crew import serve_demo

            run(serve_demo, place, port, seed, opens)
            return
        run(play, place)
    if folder:
        plan = shlex.quote(line(os.path.join(folder, "plan.jsonl")))
        farewell = f"The files are in {line(folder)}; try: treering tree {plan}"
    else:
        farewell = "The files were in a temporary directory, which has been removed."
    click.echo(farewell)
    click.echo("Agents at work, in a browser: treering demo --serve")


def _play_cluster(folder: str | None, port: int, opens: bool, goes_on: bool) -> None:
    """Play with three hosts.

    Raises:
        InvalidInput: A folder is given: the database keeps everything.
        ExtraMissing: The packages of the database, of the server or of its clients are not installed.
    """
    if folder is not None:
        raise InvalidInput("--dir is of no use with --cluster: its sessions are in a database, which is removed")
    try:
        from .demo_cluster import Story, play_cluster
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            f"the cluster needs more packages ({error.name}): pip install 'treering[postgres,remote,server]'"
        ) from error
    run(play_cluster, port, opens, Story(goes_on=goes_on))


@contextmanager
def _place(folder: str | None) -> Generator[str, None, None]:
    if folder:
        yield os.path.abspath(folder)
    else:
        with TemporaryDirectory(prefix="treering-demo-") as temporary:
            yield temporary


async def play(folder: str) -> None:
    """Play the story in a directory.

    Raises:
        SessionExists: The story was already played in this directory.
    """
    with anyio.fail_after(_DEADLINE_S):
        async with _host(folder, 0) as host:
            plan = await _work_together(host)
            await _change_course(plan)
            await _compact(plan)
        echo_title("4. A worker process is killed in the middle of a line")  # colors are known to this thread only
        acknowledged = await to_thread.run_sync(_kill_a_worker, folder)
        async with _host(folder, 45) as host:
            await _recover(host, folder, acknowledged)
            echo_title("5. The tree of the plan")
            plan = await host.load("plan")
            async for lines in tree_pages(plan):
                echo_lines(lines)
            click.echo()


def _host(folder: str, minute: int) -> SessionHost:
    """Return a host that runs everything inline, in a fixed order."""
    limits = Limits(inline_for_s=_DEADLINE_S)
    return SessionHost(
        folder, clock=story_clock(minute), new_id=story_ids(minute), offload=_at_once, writes="inline", limits=limits
    )


async def _at_once(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    return fn(*args)


# -- the scenes


async def _work_together(host: SessionHost) -> Session:
    echo_title("1. Three agents work at once, each in its own session, while an observer follows the plan")
    plan, code, review = await host.create("plan"), await host.create("code"), await host.create("review")
    async with plan.subscribe() as entries, anyio.create_task_group() as agents:
        agents.start_soon(_plan, plan)
        agents.start_soon(_code, code)
        agents.start_soon(_review, review)
        async for entry in entries:
            if isinstance(entry, Reset):
                continue
            echo_step(f"live: {plan.id} {entry.seq}  {role_of(entry)}: {preview_of(entry)}")
            if entry.seq == _PLANNED:
                break
    for session in (code, review):
        echo_step(f"{session.id}.jsonl has {session.cursor.seq} entries, written at the same time")
    return plan


async def _plan(session: Session) -> None:
    await session.append_model_change("anthropic", "claude-x")
    await checkpoint()
    await session.append_message("user", "The importer is slow. What do we do?")
    await checkpoint()
    await session.append_message("assistant", "Two ways: a faster parser, or fewer passes.")
    await checkpoint()
    question = await session.append_message("user", "Which one first?")
    await checkpoint()
    await session.set_label(question, "crossroads")


async def _code(session: Session) -> None:
    await session.append_message("user", "Measure the importer.")
    await checkpoint()
    await session.append_message("assistant", ["I will profile it.", tool_use("call_1", "profile", {"runs": 3})])
    await checkpoint()
    await session.append_tool_execution("call_1", "profile", {"runs": 3}, "parse 20 %, passes 80 %", duration_ms=812.0)
    await checkpoint()
    await session.append_message("assistant", "Four fifths of the time go into passes.")


async def _review(session: Session) -> None:
    await session.append_message("user", "Look at the open changes.")
    await checkpoint()
    await session.append_message("assistant", "One: the parser is rewritten in it. Nothing measured.")


async def _change_course(plan: Session) -> None:
    echo_title("2. The plan takes a wrong turn, goes back, and keeps both branches in one file")
    (crossroads,) = plan.find_by_label("crossroads")
    parser = await plan.append_message("assistant", "The parser first.")
    wrong = await plan.append_message("user", "The profile says that the passes cost the most.")
    await plan.set_label(parser, "wrong turn")
    await plan.branch_with_summary(crossroads, "The parser was tried first; the profile argued against it.")
    echo_step(f"went back from {short(wrong)} to {short(crossroads)}, with a summary of the abandoned branch")
    await plan.append_message("assistant", "Fewer passes, then.")
    await plan.append_message("user", "Do that.")


async def _compact(plan: Session) -> None:
    echo_title("3. The conversation is compacted; the originals stay")
    before = await plan.context()
    last = before.messages[-1].entry_id
    await plan.append_compaction("The importer spends its time in passes: reduce them.", last, tokens_before=4200)
    done = await plan.append_message("assistant", "Merged three passes into one: twice as fast.")
    await plan.set_label(done, "done")
    after = await plan.context()
    echo_step(f"a model sees {len(before.messages)} messages before, {len(after.messages)} after")
    echo_step(f"the file still holds all {plan.message_count} messages")


def _kill_a_worker(folder: str) -> list[str]:
    acknowledged: list[str] = []
    command = [sys.executable, "-m", "treering.cli.commands.demo_worker", folder]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as worker:  # in its own process group: Ctrl-C reaches only this process, which kills the worker
        try:
            assert worker.stdout is not None
            for said in worker.stdout:
                if said.strip() == TORN:
                    break
                acknowledged.append(said.strip())
        finally:
            worker.kill()
    echo_step(f"{len(acknowledged)} entries were acknowledged before SIGKILL")
    for finding in examine(os.path.join(folder, f"{SESSION}.jsonl")):
        where = f"{os.path.basename(finding.path)}:{finding.line}:{finding.byte}"
        echo_step(f"doctor: {where}: {finding.code}")
    return acknowledged


async def _recover(host: SessionHost, folder: str, acknowledged: list[str]) -> None:
    worker = await host.load(SESSION)
    survived = worker.path()
    lost = [entry_id for entry_id in acknowledged if entry_id not in survived]
    loss = f"{len(lost)} acknowledged entries were" if len(lost) > 1 else f"{len(lost) or 'no'} acknowledged entry was"
    echo_step(f"reopened: {len(survived)} entries, {loss} lost")
    await worker.append_message("assistant", "Here again. The last test passes now.")
    fragments = [name for name in sorted(os.listdir(folder)) if ".torn-" in name]
    echo_step(f"continued with entry {worker.cursor.seq}; the fragment was kept as {', '.join(fragments)}")
    echo_step(f"doctor: {len(examine(folder))} findings in all files")
