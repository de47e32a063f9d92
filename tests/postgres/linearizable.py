"""A checker of recorded histories: is there an order in which one log could have answered all calls one by one?

The method is that of Wing and Gong with the memory of Lowe, as in porcupine: take any call that was begun before the
first return that is left, see whether the model can answer it so, and go on; take it back if nothing follows. States
that were seen with the same calls taken are not tried again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

State: TypeAlias = tuple[str, ...]
"""A log: the texts in it."""


class Call(Struct, frozen=True):
    """One call of one client.

    Attributes:
        text: What was appended; None for a read.
        begun: When the call was made.
        ended: When it returned; infinity if it is not known what became of it, so that it may take effect at any time.
        seen: What a read returned.
    """

    text: str | None
    begun: float
    ended: float = math.inf
    seen: State | None = None

    def after(self, state: State) -> State | None:
        """Return the state after the call; None if a log in this state would not have answered so."""
        if self.text is not None:
            return (*state, self.text)
        return state if self.seen == state else None


class _Event:
    """The begin or the return of a call, in a list that calls are taken out of and put back into."""

    __slots__ = ("call", "end", "next", "number", "previous")

    def __init__(self, number: int, call: Call, end: _Event | None) -> None:
        self.number = number
        self.call = call
        self.end = end  # of a begin
        self.previous: _Event
        self.next: _Event | None = None

    def take_out(self) -> None:
        """Take out the call, of which this is the begin."""
        assert self.end is not None
        for each in (self, self.end):
            each.previous.next = each.next
            if each.next is not None:
                each.next.previous = each.previous

    def put_back(self) -> None:
        """Put the call back."""
        assert self.end is not None
        for each in (self.end, self):
            each.previous.next = each
            if each.next is not None:
                each.next.previous = each


def _events(calls: Sequence[Call]) -> _Event:
    """Return the head of the list of all events, by time; a return at the time of a begin comes after it."""
    events: list[tuple[float, int, int, _Event]] = []
    for number, call in enumerate(calls):
        end = _Event(number, call, None)
        events.append((call.begun, 0, number, _Event(number, call, end)))
        events.append((call.ended, 1, number, end))
    head = last = _Event(-1, Call(None, 0), None)
    for *_, event in sorted(events, key=lambda each: each[:3]):
        last.next, event.previous = event, last
        last = event
    return head


def is_linearizable(calls: Sequence[Call]) -> bool:
    """Tell whether a log could have answered these calls in some order that agrees with their times.

    A call that never returned may come last of all, where nothing was seen of it.
    """
    head = _events(calls)
    state: State = ()
    taken = 0
    tried: set[tuple[int, State]] = set()
    path: list[tuple[_Event, State]] = []
    event = head.next
    while event is not None:
        if event.end is not None:
            after = event.call.after(state)
            if after is not None and (key := (taken | 1 << event.number, after)) not in tried:
                tried.add(key)
                path.append((event, state))
                taken, state = key
                event.take_out()
                event = head.next
            else:
                event = event.next
        elif event.call.ended == math.inf:
            return True  # nothing is known of what is left
        elif path:
            event, state = path.pop()
            taken &= ~(1 << event.number)
            event.put_back()
            event = event.next
        else:
            return False
    return True
