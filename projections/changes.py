"""What a subscriber of a view receives: the view as it is, then what changes in it."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from ..events.stores.base import Cursor

V = TypeVar("V")
C = TypeVar("C")


class Snapshot(Struct, Generic[V], frozen=True):
    """The whole view as it was at `cursor`; it replaces what the subscriber held."""

    cursor: Cursor
    value: V


class Changed(Struct, Generic[C], frozen=True):
    """What the step to `cursor` changed in the view."""

    cursor: Cursor
    change: C
