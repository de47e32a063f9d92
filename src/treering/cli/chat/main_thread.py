"""The main thread of a chat: start the event loop, open the session, read lines, and leave cleanly."""

from __future__ import annotations

import sys
from functools import partial
from typing import Literal

from anyio.from_thread import start_blocking_portal
from msgspec import Struct

from ... import __version__
from ...actors.agents.model import Model
from ...actors.agents.options import LeftWork
from ...events.arguments import is_text
from ...events.errors import InvalidInput
from ..home import Home
from ..output import INTERRUPTED, as_json, clean
from ..rows import short
from .chat import Chat
from .conversation import Conversation
from .job_runner import JobRunner
from .models import Models
from .slash import Slashes
from .slash_commands import all_commands, show_session
from .terminal import Reader, Screen

_LEAVE_AFTER = 2  # consecutive interrupts, including the one that stopped an answer


class Opening(Struct, frozen=True):
    """How a chat begins.

    Attributes:
        how: A new session, the latest of the project, or a named one.
        session: The id, a unique prefix of it, the name or the path of the named session.
    """

    how: Literal["new", "latest", "named"] = "new"
    session: str = ""


def run_chat(
    home: Home,
    opening: Opening,
    models: Models,
    model: Model,
    system: str,
    *,
    prompt: str | None = None,
    as_one_document: bool = False,
) -> int:
    """Run a chat until it ends.

    Args:
        home: The root and the project.
        opening: The session to begin with.
        models: The factory of models.
        model: The first model.
        system: The system prompt.
        prompt: Send only this, show the answer, and exit; None for a conversation.
        as_one_document: Show that answer as JSON once it is complete.

    Returns:
        The exit status.

    Raises:
        TreeringError: The session cannot be opened.
    """
    interactive = prompt is None and sys.stdin.isatty() and sys.stdout.isatty()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(home.opened()) as host:
        runner = JobRunner(portal)
        screen = Screen(interactive=interactive, quiet=as_one_document)
        commands = all_commands()
        reader = Reader(interactive=interactive, completed=[f"/{each.name}" for each in commands])

        async def leaving(left: LeftWork) -> bool:
            return await chat.summary_wanted(left)

        conversation = Conversation(host, home.project, models, model, system, leaving)
        chat = Chat(conversation, home, runner, screen, reader, interactive=interactive)
        with portal.wrap_async_context_manager(conversation), runner.handling_signals():
            if not runner.run_job(partial(_open, chat, opening, converses=prompt is None)):
                return INTERRUPTED
            if prompt is None:
                return _converse(chat, commands, runner, reader)
            return _answer_once(chat, runner, prompt, as_one_document=as_one_document)


async def _open(chat: Chat, opening: Opening, *, converses: bool) -> None:
    conversation = chat.conversation
    if converses and chat.interactive:
        chat.note(f"treering {__version__}, {conversation.model_name}; /help lists the commands, Ctrl-D leaves")
    if not await _resume(chat, opening):
        if not is_text(conversation.project):
            chat.note(
                f"the path {conversation.project} is not valid Unicode: the session is stored without a directory"
            )
        await conversation.start()
        return
    await _check_model(chat, one_prompt=not converses)
    if converses and chat.interactive:
        await show_session(chat)


async def _resume(chat: Chat, opening: Opening) -> bool:
    """Resume the session to begin with, and return whether there is one; otherwise a new one is needed."""
    if opening.how == "named":
        await chat.conversation.resume(opening.session)
        return True
    if opening.how == "new":
        return False
    if await chat.conversation.resume_latest():
        return True
    chat.note("this project has no session yet: started a new one")
    return False


async def _check_model(chat: Chat, *, one_prompt: bool) -> None:
    """Warn that the echo is about to answer in place of a model; with a single prompt, refuse.

    Raises:
        InvalidInput: A single prompt was given without a model.
    """
    previous = await chat.conversation.replaced_model()
    if previous is None:
        return
    if one_prompt:
        raise InvalidInput(
            f"{previous} answered in this session before: choose a model with --model NAME or --model echo"
        )
    chat.note(f"{previous} answered in this session before; now the echo does: switch with /model NAME")


def _answer_once(chat: Chat, runner: JobRunner, prompt: str, *, as_one_document: bool) -> int:
    """Send one prompt, and show its answer."""
    if not runner.run_job(partial(_say, chat, prompt)):
        return INTERRUPTED
    if as_one_document and not chat.failed:
        runner.run_job(partial(_show_as_json, chat))
    return int(chat.failed)


async def _say(chat: Chat, prompt: str) -> None:
    with chat.showing_errors():
        await chat.say(prompt)


async def _show_as_json(chat: Chat) -> None:
    """Show the last turn as JSON."""
    session, model, turn = chat.conversation.session, chat.conversation.model, chat.turn
    assert turn is not None  # the turn has ended without an error
    document = {
        "session_id": session.id,
        "file": session.file_path,
        "model": {"provider": model.provider, "model_id": model.model_id},
        "entry_id": turn.entry_ids[-1],
        "text": turn.text,
        "stop_reason": turn.stop_reason,
        "usage": turn.usage,
    }
    chat.lines([as_json(document).decode()])


def _converse(chat: Chat, commands: Slashes, runner: JobRunner, reader: Reader) -> int:
    """Process lines until the input ends or the person leaves."""
    interrupts = 0
    while not chat.leaving and interrupts < _LEAVE_AFTER:
        try:
            line = reader.next_message()
            if line is None:
                break
            interrupts = 0
            if not runner.run_job(partial(commands.take, chat, line)):
                interrupts = 1
                chat.stopped()
        except KeyboardInterrupt:
            interrupts += 1
            chat.interrupted(last=interrupts == _LEAVE_AFTER)
        if interrupts and not chat.interactive:
            return INTERRUPTED
    runner.run_job(partial(_farewell, chat))
    return 0 if chat.interactive else int(chat.failed)


async def _farewell(chat: Chat) -> None:
    session = chat.conversation.session
    if chat.interactive:
        hint = f"resume with: treering chat -r {clean(short(session.id))}"
        chat.note(hint if session.leaf_id is not None else "nothing was said, so nothing is stored")
