"""The state of a session as clients get it: what it is doing, whether the host holds it active, and who spawned it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...actors.session.session import Session
from ...events.entries import Header, Usage
from ...events.stores.base import Ref
from ...projections.session_state import SessionState
from ...projections.summary import SessionSummary
from ...wire import Parent, StateReply
from ..preconditions import state_tag
from ..routing import Call, ReadQuery, Routes

if TYPE_CHECKING:
    from ..service import Service

routes = Routes()

_AT_REST = ("working", "done")
"""What a session of another program says that it is doing whose program has stopped: it is idle."""


def _reply(
    service: Service, state: SessionState, *, header: Header | SessionSummary, ref: Ref, usage: Usage | None
) -> StateReply:
    parent, is_live = header.parent_session, service.is_live(ref)
    return StateReply(
        session=header.id,
        state="idle" if service.programs is not None and not is_live and state.state in _AT_REST else state.state,
        live=is_live,
        since=state.since,
        entry=state.entry,
        tool=state.tool,
        open=state.open,
        line=state.line,
        tokens=state.tokens,
        window=state.window,
        cost=None if usage is None else usage.cost or None,
        error=state.error,
        error_entry=state.entry if state.error is not None else None,
        parent=None if parent is None else Parent(service.shown(parent), header.parent_entry),
    )


def state_of_row(service: Service, row: SessionSummary) -> StateReply | None:
    """Return the state that a row of the listing says; None if the session cannot be read."""
    return None if row.state is None else _reply(service, row.state, header=row, ref=row.ref, usage=row.usage)


async def reply_of_session(service: Service, session: Session, state: SessionState) -> StateReply:
    """Return a state of a session as a client gets it, without paths of the server."""
    usage = (await session.log()).index.usage
    return _reply(service, state, header=session.header, ref=session.ref, usage=usage)


@routes.read("/v1/sessions/{session_id}/state", StateReply)
async def get_state(call: Call[ReadQuery, None]) -> StateReply:
    """Return what a session is doing: a word, since when, the tool that runs, and the last line that was said."""
    session = await call.reading()
    call.unless_known(f"{state_tag(session)}/{int(call.service.is_live(session.ref))}")
    return await reply_of_session(call.service, session, await session.state())
