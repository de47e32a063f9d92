"""The gate through which the turns of a session go one after the other.

Agents may be each other's tools, so a turn can start turns of other sessions and wait for them. A turn that would wait
for itself in this way is rejected.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

import anyio

from ...events.errors import InvalidInput

GateKey: TypeAlias = tuple[int, str]
"""A session, by the host or the agent that its name belongs to, and that name."""


class _Gate:
    """A lock that admits one turn of a session at a time, knows that turn, and counts its users."""

    __slots__ = ("lock", "turn", "users")

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.turn: _RunningTurn | None = None
        self.users = 0


class _RunningTurn:
    """A running turn, and the gates at which the turns started by its tools wait."""

    __slots__ = ("awaited_gates",)

    def __init__(self) -> None:
        self.awaited_gates: list[_Gate] = []


_NO_TURNS: frozenset[_RunningTurn] = frozenset()
_enclosing_turns: ContextVar[frozenset[_RunningTurn]] = ContextVar("treering_agent_turns", default=_NO_TURNS)


@contextmanager
def _waiting(turns: Iterable[_RunningTurn], gate: _Gate) -> Generator[None]:
    """Record on each of the turns that it waits at the gate."""
    for turn in turns:
        turn.awaited_gates.append(gate)
    try:
        yield
    finally:
        for turn in turns:
            turn.awaited_gates.remove(gate)


def _waits_for(gate: _Gate, turns: frozenset[_RunningTurn]) -> bool:
    """Return whether the turn that holds the gate waits, directly or through other turns, for one of `turns`."""
    seen: set[_RunningTurn] = set()
    remaining = [gate]
    while remaining:
        turn = remaining.pop().turn
        if turn in turns:
            return True
        if turn is not None and turn not in seen:
            seen.add(turn)
            remaining += turn.awaited_gates
    return False


_gates: dict[GateKey, _Gate] = {}
"""The gates of the sessions in which turns currently run or wait."""


@asynccontextmanager
async def one_turn_at_a_time(key: GateKey, session_id: str) -> AsyncGenerator[None]:
    """Wait until no other turn of a session runs, and keep others waiting meanwhile.

    Args:
        key: The session.
        session_id: Its id, for errors.

    Raises:
        InvalidInput: The turn would wait for itself: one of the turns that started it runs in this session, or the turn
            that runs there waits for one of them.
    """
    enclosing = _enclosing_turns.get()
    gate = _gates.setdefault(key, _Gate())
    # A task that a tool left running may outlive its turn, so compare with the turn that runs now.
    if gate.turn in enclosing:
        raise InvalidInput(
            f"a turn of session {session_id!r} cannot start another turn of the same session: it would wait for itself"
        )
    if _waits_for(gate, enclosing):
        raise InvalidInput(
            f"session {session_id!r} is in a turn that waits for this one, so neither would ever end: "
            "use another session, or wait until this turn is over"
        )
    gate.users += 1
    turn = _RunningTurn()
    token = _enclosing_turns.set(enclosing | {turn})
    try:
        with _waiting(enclosing, gate):
            await gate.lock.acquire()
        gate.turn = turn
        try:
            yield
        finally:
            gate.turn = None
            gate.lock.release()
    finally:
        _enclosing_turns.reset(token)
        gate.users -= 1
        if not gate.users:
            del _gates[key]
