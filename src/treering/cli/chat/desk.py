"""The desk at which a person sits: opens the loop and the session, reads line after line, and leaves in order."""

from __future__ import annotations

import sys
from functools import partial

from anyio.from_thread import start_blocking_portal

from ... import __version__
from ...actors.agents.hooks import LeftWork
from ...actors.agents.model import Model
from ...actors.naming import is_text
from ...events.errors import InvalidInput
from ..home import Home
from ..output import INTERRUPTED, as_json, clean
from ..telling import short
from .conversation import Conversation
from .front import Front
from .models import Models
from .opening import Opening
from .reader import Reader
from .registry import all_commands
from .screen import Screen
from .sessions import tell_session
from .talk import Talk

_LEAVE_AFTER = 2  # interrupts in a row, the one that stopped an answer included


def hold(
    home: Home,
    opening: Opening,
    models: Models,
    model: Model,
    system: str,
    *,
    prompt: str | None = None,
    whole: bool = False,
) -> int:
    """Hold a chat to its end.

    Args:
        home: Where sessions are.
        opening: In which one to begin.
        models: Makes models.
        model: The first one.
        system: What the system says.
        prompt: Say this alone, show its answer, and leave; None for a conversation.
        whole: Show that answer as JSON, when it is whole.

    Returns:
        The exit status.

    Raises:
        TreeringError: The session cannot be opened.
    """
    interactive = prompt is None and sys.stdin.isatty() and sys.stdout.isatty()
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(home.opened()) as host:
        front = Front(portal)
        screen = Screen(interactive=interactive, quiet=whole)
        commands = all_commands()
        reader = Reader(interactive=interactive, completed=[f"/{each.name}" for each in commands])

        async def leaving(left: LeftWork) -> bool:
            return await talk.summary_wanted(left)

        conversation = Conversation(host, home.project, models, model, system, leaving)
        talk = Talk(conversation, home, front, screen, reader, commands, interactive=interactive)
        with portal.wrap_async_context_manager(conversation), front.attending():
            if not front.carry_out(partial(_open, talk, opening, told=prompt is None)):
                return INTERRUPTED
            if prompt is None:
                return _converse(talk, front, reader)
            return _say_once(talk, front, prompt, whole=whole)


async def _open(talk: Talk, opening: Opening, *, told: bool) -> None:
    conversation = talk.conversation
    if told and talk.interactive:
        talk.note(f"treering {__version__}, {conversation.model_name}; /help tells what can be done, Ctrl-D leaves")
    if opening.how == "named":
        await conversation.resume(opening.session)
        await _mind_the_model(talk, alone=not told)
    elif opening.how != "latest" or not await conversation.resume_latest():
        if opening.how == "latest":
            talk.note("there is no session of this project yet: this is a new one")
        if not is_text(conversation.project):
            talk.note(
                f"the name of {conversation.project} is no text: the session does not say that it is of this folder"
            )
        await conversation.start()
        return
    else:
        await _mind_the_model(talk, alone=not told)
    if told and talk.interactive:
        await tell_session(talk)


async def _mind_the_model(talk: Talk, *, alone: bool) -> None:
    """Tell that an echo is about to answer where a model did before; refuse where nobody would see it in time.

    Raises:
        InvalidInput: One thing is to be said, and nobody named a model for it.
    """
    before = await talk.conversation.model_before()
    if before is None:
        return
    if alone:
        raise InvalidInput(
            f"{before} answered in this session before: say who answers now, by --model NAME or --model echo"
        )
    talk.note(f"{before} answered in this session before; an echo does now: /model NAME lets another one answer")


def _say_once(talk: Talk, front: Front, prompt: str, *, whole: bool) -> int:
    """Say one thing, and show its answer."""
    if not front.carry_out(partial(talk.say, prompt)):
        return INTERRUPTED
    if whole and not talk.failed:
        front.carry_out(partial(_tell_whole, talk))
    return int(talk.failed)


async def _tell_whole(talk: Talk) -> None:
    """Show the last turn as JSON."""
    session, model, turn = talk.conversation.session, talk.conversation.model, talk.turn
    assert turn is not None  # it ended, and did not fail
    told = {
        "session_id": session.id,
        "file": session.file_path,
        "model": {"provider": model.provider, "model_id": model.model_id},
        "entry_id": turn.entry_ids[-1],
        "text": turn.text,
        "stop_reason": turn.stop_reason,
        "usage": turn.usage,
    }
    talk.lines([as_json(told).decode()])


def _converse(talk: Talk, front: Front, reader: Reader) -> int:
    """Take line after line, until the input ends or the person leaves."""
    interrupts = 0
    while not talk.leaving and interrupts < _LEAVE_AFTER:
        try:
            line = reader.said()
            if line is None:
                break
            interrupts = 0
            if not front.carry_out(partial(talk.take, line)):
                interrupts = 1
                talk.stopped()
        except KeyboardInterrupt:
            interrupts += 1
            talk.interrupted(last=interrupts == _LEAVE_AFTER)
        if interrupts and not talk.interactive:
            return INTERRUPTED
    front.carry_out(partial(_farewell, talk))
    return 0 if talk.interactive else int(talk.failed)


async def _farewell(talk: Talk) -> None:
    session = talk.conversation.session
    if talk.interactive:
        kept = f"kept: treering chat -r {clean(short(session.id))}"
        talk.note(kept if session.leaf_id is not None else "nothing was said, and nothing is kept")
