"""The items that a subscriber of a view receives: a snapshot of the view, then its changes."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from ..events.stores.base import Cursor

V = TypeVar("V")
C = TypeVar("C")


class Snapshot(Struct, Generic[V], frozen=True):
    """The whole view at `cursor`; it replaces the subscriber's previous value."""

    cursor: Cursor
    value: V


class Changed(Struct, Generic[C], frozen=True):
    """The change of the view in the step to `cursor`."""

    cursor: Cursor
    change: C
