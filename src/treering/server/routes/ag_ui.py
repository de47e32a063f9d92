"""The route of AG-UI, by which web pages talk in a session and see what is written there; see `server.ag_ui`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from ...actors.session.session import Session
from ...events.errors import NotAuthorized
from ..ag_ui.history import SentMessage, history, payloads_of
from ..ag_ui.run import Run, farewell
from ..event_stream import EventStream
from ..http.fields import Name
from ..routing import Call, Nothing, Routes

routes = Routes()


class RunInput(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a page sends to run an agent.

    What else the protocol has is passed over: the state is the session's, and the tools are those of its agent.

    Attributes:
        thread_id: What the page calls the session.
        run_id: What it calls the run.
        messages: All messages that it has; what of them the session does not have is appended.
    """

    thread_id: Name
    run_id: Name
    messages: Annotated[list[SentMessage], Meta(max_length=10_000)]
    state: Any = None  # any JSON
    tools: Any = None
    context: Any = None
    forwarded_props: Any = None


@routes.add(
    "POST",
    "/ag-ui/{session_id}",
    right="read",
    body=RunInput,
    reply=bytes,
    media_types=("text/event-stream",),
    errors=(404, 409, 422, 423, 507),
    streams=True,
)
async def run_ag_ui(call: Call[Nothing, RunInput]) -> EventStream:
    """Append what a page says that the session does not have, and stream what is written until nobody is at work."""
    service, asked = call.service, call.body
    session = await call.reading()
    appended = await _appended(call, session)
    known = [each.id for each in asked.messages]
    run = Run(service, session, asked.thread_id, asked.run_id, known, appended=appended)
    return EventStream(service, call.principal, run.stream, farewell=farewell)


async def _appended(call: Call[Nothing, RunInput], session: Session) -> bool:
    """Append what is new; return whether there was anything, also if an earlier request appended it.

    Raises:
        NotAuthorized: The principal may read alone.
    """
    messages = call.body.messages
    shown = await history(session, call.service.limits.page_bytes_max)
    known = {each["id"] for each in shown.messages}
    index = (await session.log()).index
    new = [each for each in messages if each.id not in known and not index.find(each.id)]
    open_calls = frozenset(each.id for each in await session.open_calls())
    payloads = payloads_of(new, open_calls)
    if payloads:
        if not call.principal.may("write"):
            raise NotAuthorized(f"this needs the role 'write', not {call.principal.role!r}", known=True)
        session = await call.writing()
        for command_id, payload in payloads:
            await session.append(payload, command_id=command_id)
    last = messages[-1] if messages else None
    return bool(payloads) or (last is not None and last.role == "user" and last.id in known)
