"""Slash commands on sessions: list, show, export, archive, resume, rename."""

from __future__ import annotations

import os

from ...events.errors import InvalidInput
from ...events.wording import counted
from ..descriptions import short
from ..info import info_lines, info_of
from ..output import clean
from ..picker import has_terminal
from ..rows import NAMELESS
from ..table import table_of
from .opening import recent_lines
from .slash import slash
from .talk import Talk


@slash("sessions", "", "List the sessions of this project.")
async def sessions(talk: Talk, rest: str) -> None:
    await _list(talk, talk.conversation.project)


@slash("sessions all", "", "List the sessions of all projects.")
async def sessions_all(talk: Talk, rest: str) -> None:
    await _list(talk, None)


async def _list(talk: Talk, project: str | None) -> None:
    conversation = talk.conversation
    rows = await conversation.host.list_sessions(project=project)
    among = await conversation.host.list_sessions(status="any")
    talk.lines(table_of(rows, among=among, places=project is None, current=conversation.session.ref))
    if not rows:
        talk.note("there are no sessions yet" if project is None else "there are no sessions in this project yet")


@slash("session info", "", "Show the details of this session.")
async def session_info(talk: Talk, rest: str) -> None:
    conversation = talk.conversation
    if conversation.session.leaf_id is None:
        talk.note(f"session {conversation.session.id}: nothing has been said yet, so nothing is stored")
        return
    row = await conversation.host.resolve(conversation.session.id)
    details = [*info_lines(await info_of(conversation.host, row)), ("answers", conversation.model_name)]
    width = max(len(name) for name, _ in details)
    talk.lines(f"{name:<{width}}  {clean(value)}" for name, value in details)


@slash("session export", "[FILE]", "Write the conversation as markdown, by default into this directory.")
async def session_export(talk: Talk, rest: str) -> None:
    conversation = talk.conversation
    session = conversation.session
    if session.leaf_id is None:
        raise InvalidInput("nothing has been said yet: there is nothing to export")
    path = await session.export("markdown", _target(conversation.project, rest or f"{short(session.id)}.md"))
    talk.note(f"written to {path}")


def _target(folder: str, file: str) -> str:
    return os.path.join(folder, os.path.expanduser(file))


@slash("session archive", "", "Archive this session, and start a new one.")
async def session_archive(talk: Talk, rest: str) -> None:
    archived = await talk.conversation.archive()
    talk.note(f"archived session {short(archived)}; started a new one")


@slash("resume", "[SESSION]", "Resume another session, by its id, the beginning of one, its name, or from a list.")
async def resume(talk: Talk, rest: str) -> None:
    conversation = talk.conversation
    if not rest:
        if not (talk.interactive and has_terminal()):
            raise InvalidInput("there is no terminal to choose on: name a session; /sessions lists them")
        picked = await talk.choose()
        if picked.action == "new":
            await _begin(talk)
        if picked.session is None:
            return
        rest = picked.session.path or picked.session.id
    await conversation.resume(rest)
    await show_session(talk)


@slash("new", "", "Start a new session; this one is kept.")
async def new(talk: Talk, rest: str) -> None:
    await _begin(talk)


async def _begin(talk: Talk) -> None:
    await talk.conversation.start()
    talk.note("started a new session")


@slash("rename", "TITLE", "Give this session a title.")
async def rename(talk: Talk, rest: str) -> None:
    if not rest:
        raise InvalidInput("give a title: /rename TITLE")
    await talk.conversation.session.set_title(rest)
    talk.note(f"this session is now called {rest!r}")


async def show_session(talk: Talk) -> None:
    """Show which session was resumed, and its latest messages."""
    conversation = talk.conversation
    session = conversation.session
    context = await session.context()
    title = clean(session.metadata.title or NAMELESS)
    talk.note(f"session {short(session.id)}, {title!r}: {counted(session.message_count, 'message')}")
    for warning in context.warnings:
        talk.note(f"warning: {warning}")
    talk.lines(recent_lines(context))
    last = context.model
    if last is not None and (last.provider, last.model_id) != (
        conversation.model.provider,
        conversation.model.model_id,
    ):
        talk.note(
            f"{last.provider}/{last.model_id} answered here before; {conversation.model_name} answers now: see /model"
        )
