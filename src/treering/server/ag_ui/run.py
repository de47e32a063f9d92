"""One run: what a page is told from when it asks until nobody is at work in the session any more.

First comes the history, then what the session is doing, then what happens: pieces of texts as they are written, and
entries as they are appended. Each message, call and span of reasoning that is opened is closed, as the protocol asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ...actors.session.session import Session
from ...events.content import plain_text
from ...events.entries import Entry, Message, MessageEntry, OpaqueEntry
from ...events.errors import SessionNotFound, TreeringError
from ...events.kinds import Kind
from ...projections.feed_events import LeafMove, Reset, TextPiece, Transient
from ...projections.session_state import SessionState
from ..event_stream import Bye, Push
from ..http.wire import encode, entry_raw, one_line
from ..routes.states import reply_of_session
from ..service import Service
from .history import History, Shown, calls_of, history, message_id_of, reasoning_id, results_of, thoughts_of

Event: TypeAlias = dict[str, Any]
"""An event as the protocol has it."""

_BREAKS = {"deleted": "the session is gone", "expired": "the token has expired", "revoked": "the token was revoked"}


def block(event: Event) -> bytes:
    """Return an event as a part of a stream."""
    return b"data: " + one_line(encode(event)) + b"\n\n"


def farewell(bye: Bye) -> bytes:
    """Return how a page is told that the stream breaks off before the run is over."""
    why = _BREAKS.get(bye.reason, "the server ends this stream: run again, which continues it")
    return block({"type": "RUN_ERROR", "message": why, "code": bye.reason})


class _Live(Struct):
    """A text that is being written: the id of its message, and what was told of it."""

    id: str
    text: str = ""


class Run:
    """One run.

    Args:
        service: The server.
        session: The session.
        thread_id: What the page calls the session.
        run_id: What it calls the run.
        known: The ids of the messages that it has, in their order.
        appended: Whether something of it was appended, which somebody may answer.
    """

    def __init__(
        self, service: Service, session: Session, thread_id: str, run_id: str, known: Sequence[str], *, appended: bool
    ) -> None:
        self._service = service
        self._session = session
        self._names = {"threadId": thread_id, "runId": run_id}
        self._known = known
        self._appended = appended
        self._live: dict[str, _Live] = {}  # "text" and "reasoning"
        self._state: dict[str, Any] = {}
        self._differs = False  # whether the page has a message that the history does not have so
        self._shown: History
        self._push: Push

    async def stream(self, push: Push) -> None:
        """Send the events of the run."""
        self._push = push
        await self._tell([{"type": "RUN_STARTED", **self._names}])
        try:
            await self._run()
        except (StopAsyncIteration, SessionNotFound):
            code = "shutdown" if self._service.stopping.is_set() else "deleted"
            await self._tell([{"type": "RUN_ERROR", "message": "the session is gone", "code": code}])
        except TreeringError as error:
            problem = self._service.problem(error)
            await self._tell([{"type": "RUN_ERROR", "message": problem.detail, "code": problem.error or ""}])

    async def _run(self) -> None:
        session = self._session
        await self._snapshot(self._known)
        await self._tell([await self._state_at_first(state := await session.state())])
        is_followed = self._appended or self._service.is_live(session.ref)
        if (not is_followed or not await self._is_at_work(state)) and session.cursor == self._shown.cursor:
            await self._finish(state)
            return
        async with session.subscribe(after=self._shown.cursor, transient=True, leaf=True) as items:
            is_caught_up = False
            while True:
                for item in await items.receive_many():
                    is_caught_up = is_caught_up or isinstance(item, LeafMove)  # which is told then
                    await self._take(item, items.cursor.generation)
                state = await session.state()
                await self._tell(await self._state_changes(state))
                if is_caught_up and items.cursor.seq >= session.cursor.seq and not await self._is_at_work(state):
                    await self._finish(state)
                    return

    async def _take(self, item: Entry | Transient | LeafMove | Reset, generation: str) -> None:
        """Tell of what happens; of another path by the history anew."""
        shown = self._shown
        if isinstance(item, Reset):
            is_moved = item.cursor.generation != shown.cursor.generation
        elif isinstance(item, LeafMove):
            is_moved = item.entry_id != shown.leaf_id
        elif isinstance(item, Transient):
            await self._tell(self._events_of(item))
            return
        elif item.seq <= shown.cursor.seq and generation == shown.cursor.generation:
            return  # the history had it
        else:
            is_moved = not item.aside and item.parent_id != shown.leaf_id
            if not is_moved:
                await self._tell(self._events_of(item))
                if not item.aside:
                    shown.leaf_id = item.id
        if is_moved:
            await self._tell(self._closed())
            await self._snapshot(None)

    async def _tell(self, events: Iterable[Event]) -> None:
        blocks = b"".join(map(block, events))
        if blocks:
            await self._push(blocks)

    async def _snapshot(self, known: Sequence[str] | None) -> None:
        self._shown = await history(self._session, self._service.limits.page_bytes_max)
        await self._tell(_snapshots(self._shown.messages, known))

    async def _finish(self, state: SessionState) -> None:
        """End the run: with what it waits for, or with what failed."""
        await self._tell(self._closed())
        if self._differs:
            await self._snapshot(None)
        if state.state == "error":
            failed = {"type": "RUN_ERROR", "message": state.error or "the answer failed", "code": "agent"}
            await self._tell([failed])
            return
        outcome: dict[str, Any] = {"type": "success"}
        if state.state == "waits":
            outcome["pendingToolCallIds"] = [call.id for call in await self._session.open_calls()]
        await self._tell([{"type": "RUN_FINISHED", **self._names, "outcome": outcome}])

    # -- state

    async def _is_at_work(self, state: SessionState) -> bool:
        """Return whether somebody is at work: an agent goes on after a call that failed, too."""
        if state.state != "error" or state.entry is None:
            return state.state == "working"
        index = (await self._session.log()).index
        return index.kinds[index.seq_of(state.entry)] == Kind.TOOL

    async def _state_at_first(self, state: SessionState) -> Event:
        self._state = await self._state_of(state)
        return {"type": "STATE_SNAPSHOT", "snapshot": self._state}

    async def _state_changes(self, state: SessionState) -> list[Event]:
        before, self._state = self._state, await self._state_of(state)
        delta = [
            {"op": "replace", "path": f"/{name}", "value": value}
            for name, value in self._state.items()
            if before[name] != value
        ]
        return [{"type": "STATE_DELTA", "delta": delta}] if delta else []

    async def _state_of(self, state: SessionState) -> dict[str, Any]:
        reply: dict[str, Any] = msgspec.to_builtins(await reply_of_session(self._service, self._session, state))
        return reply

    # -- what happens

    def _events_of(self, item: Entry | Transient) -> Iterator[Event]:
        if isinstance(item, TextPiece):
            yield from self._piece(item)
        elif isinstance(item, Transient):
            yield {"type": "CUSTOM", "name": item.name, "value": item.data}
        elif isinstance(item, MessageEntry) and not item.aside:
            yield from self._message(message_id_of(item), item.message)
        else:
            kind = "opaque" if isinstance(item, OpaqueEntry) else item.type
            yield {"type": "CUSTOM", "name": f"treering.{kind}", "value": entry_raw(item)}

    def _message(self, id_: str, said: Message) -> Iterator[Event]:
        if said.role == "assistant":
            yield from self._completed("reasoning", reasoning_id(id_), thoughts_of(said))
            live = self._live.get("text")
            parent = id_ if live is None else live.id
            yield from self._completed("text", id_, plain_text(said.content))
            for call_id, name, arguments in calls_of(said):
                yield {
                    "type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": name, "parentMessageId": parent,
                }  # fmt: skip
                yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": arguments}
                yield {"type": "TOOL_CALL_END", "toolCallId": call_id}
        elif said.role == "tool":
            for result_id, call_id, told in results_of(id_, said):
                yield {
                    "type": "TOOL_CALL_RESULT", "messageId": result_id, "toolCallId": call_id, "content": told,
                    "role": "tool",
                }  # fmt: skip
        elif said.role in ("user", "system", "developer"):
            yield {"type": "TEXT_MESSAGE_START", "messageId": id_, "role": said.role}
            yield from _delta("text", id_, plain_text(said.content))
            yield {"type": "TEXT_MESSAGE_END", "messageId": id_}

    def _piece(self, piece: TextPiece) -> Iterator[Event]:
        """Tell of the next piece of a text, which another one before it may have been given up for."""
        kind = "reasoning" if "thinking" in piece.name or "reasoning" in piece.name else "text"
        id_ = reasoning_id(piece.message) if kind == "reasoning" else piece.message
        live = self._live.get(kind)
        if live is not None and (live.id != id_ or piece.offset > len(live.text)):  # given up
            self._differs = True
            yield from self._close(kind)
            live = None
        if live is None:
            live = self._live[kind] = _Live(id_)
            yield from _opened(kind, id_)
        known = live.text[piece.offset :]
        if not piece.text.startswith(known):  # it was begun anew, or is known already
            self._differs = self._differs or not known.startswith(piece.text)
            return
        live.text += piece.text[len(known) :]
        yield from _delta(kind, live.id, piece.text[len(known) :])

    def _completed(self, kind: str, id_: str, whole: str) -> Iterator[Event]:
        """Tell the rest of a text that was written live, or all of one that was not."""
        live = self._live.get(kind)
        if live is None:
            if not whole:
                return
            live = self._live[kind] = _Live(id_)
            yield from _opened(kind, id_)
        if whole.startswith(live.text):
            yield from _delta(kind, live.id, whole[len(live.text) :])
        else:
            self._differs = True
        yield from self._close(kind)

    def _closed(self) -> list[Event]:
        """Close what is open: nobody goes on writing it."""
        self._differs = self._differs or bool(self._live)
        return [event for kind in list(self._live) for event in self._close(kind)]

    def _close(self, kind: str) -> Iterator[Event]:
        live = self._live.pop(kind)
        if kind == "text":
            yield {"type": "TEXT_MESSAGE_END", "messageId": live.id}
        else:
            yield {"type": "REASONING_MESSAGE_END", "messageId": live.id}
            yield {"type": "REASONING_END", "messageId": live.id}


def _opened(kind: str, id_: str) -> Iterator[Event]:
    if kind == "text":
        yield {"type": "TEXT_MESSAGE_START", "messageId": id_, "role": "assistant"}
    else:
        yield {"type": "REASONING_START", "messageId": id_}
        yield {"type": "REASONING_MESSAGE_START", "messageId": id_, "role": "reasoning"}


def _delta(kind: str, id_: str, text: str) -> Iterator[Event]:
    if text:
        name = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
        yield {"type": name, "messageId": id_, "delta": text}


def _snapshots(messages: list[Shown], known: Sequence[str] | None) -> Iterator[Event]:
    """Yield the history.

    A client keeps the messages that it has where they are, and puts all others after them. Where that would be another
    order, it is told first that there are none.

    Args:
        messages: The messages.
        known: The ids of those that the client has, in its order; None if that is not known.
    """
    ids = [each["id"] for each in messages]
    kept = None if known is None else [each for each in known if each in set(ids)]
    if kept is None or kept != ids[: len(kept)]:
        yield {"type": "MESSAGES_SNAPSHOT", "messages": []}
    yield {"type": "MESSAGES_SNAPSHOT", "messages": messages}
