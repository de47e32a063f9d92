"""`treering resume`: continue a session that is named or chosen from a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...projections.summary import CORRUPTED, SessionSummary
from ..home import Home, root_option, session_completion
from ..output import INTERRUPTED, refuse_to_choose, run
from ..table import table_of

if TYPE_CHECKING:
    from ...actors.host.host import SessionHost
    from ..picking import Picked


@click.command()
@click.argument("session", metavar="[SESSION]", required=False, shell_complete=session_completion)
@click.option("-a", "--all", "everywhere", is_flag=True, help="Choose from the sessions of all projects.")
@click.option("--model", metavar="NAME", help="The model that answers; see `treering chat`.")
@click.option("--base-url", metavar="URL", help="Where the model is served.")
@root_option
@click.pass_context
def resume(
    ctx: click.Context,
    session: str | None,
    everywhere: bool,
    model: str | None,
    base_url: str | None,
    root: str | None,
) -> None:
    """Resume a session, by name or chosen from a list.

    The session becomes the current one of its project, and a chat continues it. Without a terminal to choose on, the
    sessions are listed and the exit status is 2.

    Keys: Enter resumes, n starts a new session, q quits; arrows or j and k move, / filters, Tab shows all projects.

    \b
    Examples:
      treering resume
      treering resume 5f0c12ab
      treering resume "Fix the cart" --model ollama:qwen3:8b
    """
    home = Home.at(root)
    if session is not None:
        row: SessionSummary | None = run(_current, home, session)
    else:
        from ..picker import has_terminal

        if not has_terminal():
            refuse_to_choose(run(_listed, home, everywhere), "resume SESSION")
        picked = run(_choose, home, everywhere)
        if picked.action in ("quit", "interrupt"):
            ctx.exit(INTERRUPTED if picked.action == "interrupt" else 0)
        row = picked.session
    from ..chat.command import chat

    target = ["--new"] if row is None else ["--resume", row.path or row.id]
    options = (("--model", model), ("--base-url", base_url), ("--root", home.root))
    args = [*target, *(part for name, value in options if value is not None for part in (name, value))]
    with chat.make_context("chat", args, parent=ctx.parent) as inner:
        chat.invoke(inner)


async def _listed(home: Home, everywhere: bool) -> list[str]:
    async with home.opened() as host:
        rows = await host.list_sessions(project=None if everywhere else home.project)
        among = await host.list_sessions(status="any")
    return list(table_of(rows, among=among, places=everywhere))


async def _choose(home: Home, everywhere: bool) -> Picked:
    from ..picker import pick

    async with home.opened() as host:
        picked = await pick(host, project=home.project, everywhere=everywhere)
        if picked.session is not None:
            await _make_current(host, home, picked.session)
        return picked


async def _current(home: Home, text: str) -> SessionSummary:
    async with home.opened() as host:
        row = await host.resolve(text)
        await _make_current(host, home, row)
        return row


async def _make_current(host: SessionHost, home: Home, row: SessionSummary) -> None:
    if row.status != CORRUPTED:  # the chat reports why it cannot be read
        await host.set_current_session(row.project or home.project, row)
