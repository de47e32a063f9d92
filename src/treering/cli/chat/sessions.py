"""Slash commands on sessions: list, show, export, archive, resume, rename."""

from __future__ import annotations

import os

from ...events.errors import InvalidInput
from ...events.texts import counted
from ..commands.info import VALUE_CHARS_MAX, info_lines, info_of
from ..descriptions import short
from ..output import short_line
from ..picker import has_terminal
from ..rows import NAMELESS
from ..table import table_of
from .chat import Chat
from .opening import recent_lines
from .slash import slash


@slash("sessions", "", "List the sessions of this project.")
async def sessions(chat: Chat, rest: str) -> None:
    await _list(chat, chat.conversation.project)


@slash("sessions all", "", "List the sessions of all projects.")
async def sessions_all(chat: Chat, rest: str) -> None:
    await _list(chat, None)


async def _list(chat: Chat, project: str | None) -> None:
    conversation = chat.conversation
    rows = await conversation.host.list_sessions(project=project)
    among = await conversation.host.list_sessions(status="any")
    chat.lines(table_of(rows, among=among, places=project is None, current=conversation.session.ref))
    if not rows:
        chat.note("there are no sessions yet" if project is None else "there are no sessions in this project yet")


@slash("session info", "", "Show the details of this session.")
async def session_info(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    if conversation.session.leaf_id is None:
        chat.note(f"session {conversation.session.id}: nothing has been said yet, so nothing is stored")
        return
    row = await conversation.host.resolve(conversation.session.id)
    details = [*info_lines(await info_of(conversation.host, row)), ("answers", conversation.model_name)]
    width = max(len(name) for name, _ in details)
    chat.lines(f"{name:<{width}}  {short_line(value, VALUE_CHARS_MAX)}" for name, value in details)


@slash("session export", "[FILE]", "Write the conversation as markdown, by default into this directory.")
async def session_export(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    session = conversation.session
    if session.leaf_id is None:
        raise InvalidInput("nothing has been said yet: there is nothing to export")
    path = await session.export("markdown", _target(conversation.project, rest or f"{short(session.id)}.md"))
    chat.note(f"written to {path}")


def _target(folder: str, file: str) -> str:
    return os.path.join(folder, os.path.expanduser(file))


@slash("session archive", "", "Archive this session, and start a new one.")
async def session_archive(chat: Chat, rest: str) -> None:
    archived = await chat.conversation.archive()
    chat.note(f"archived session {short(archived)}; started a new one")


@slash("resume", "[SESSION]", "Resume another session, by its id, the beginning of one, its name, or from a list.")
async def resume(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    if not rest:
        if not (chat.interactive and has_terminal()):
            raise InvalidInput("there is no terminal to choose on: name a session; /sessions lists them")
        picked = await chat.choose()
        if picked.action == "new":
            await _begin(chat)
        if picked.session is None:
            return
        rest = picked.session.path or picked.session.id
    await conversation.resume(rest)
    await show_session(chat)


@slash("new", "", "Start a new session; this one is kept.")
async def new(chat: Chat, rest: str) -> None:
    await _begin(chat)


async def _begin(chat: Chat) -> None:
    await chat.conversation.start()
    chat.note("started a new session")


@slash("rename", "TITLE", "Give this session a title.")
async def rename(chat: Chat, rest: str) -> None:
    if not rest:
        raise InvalidInput("give a title: /rename TITLE")
    await chat.conversation.session.set_title(rest)
    chat.note(f"this session is now called {rest!r}")


async def show_session(chat: Chat) -> None:
    """Show which session was resumed, and its latest messages."""
    conversation = chat.conversation
    session = conversation.session
    context = await session.context()
    title = short_line(session.metadata.title or NAMELESS)
    chat.note(f"session {short(session.id)}, {title!r}: {counted(session.message_count, 'message')}")
    for warning in context.warnings:
        chat.note(f"warning: {warning}")
    chat.lines(recent_lines(context))
    last = context.model
    if last is not None and (last.provider, last.model_id) != (
        conversation.model.provider,
        conversation.model.model_id,
    ):
        chat.note(
            f"{last.provider}/{last.model_id} answered here before; {conversation.model_name} answers now: see /model"
        )
