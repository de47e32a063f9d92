"""The projection protocol: a fold over the entries of one session, in the order of the log.

A custom projection needs a name and four short methods::

    class Words:
        name = "words"

        def initial(self, header: Header) -> int:
            return 0

        def apply(self, value: int, entry: Entry) -> tuple[int, int | None]:
            if not isinstance(entry, MessageEntry):
                return value, None
            words = len(plain_text(entry.message.content).split())
            return value + words, words

        def dump(self, value: int) -> bytes:
            return str(value).encode()

        def load(self, blob: bytes) -> int:
            return int(blob)

This module holds the protocol and a plain replay only; checkpoints and subscribers are handled elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from ..events.entries import Entry, Header

V = TypeVar("V")
"""The value of a projection."""
V_co = TypeVar("V_co", covariant=True)
C = TypeVar("C")
"""The change that one entry makes to the value."""
C_co = TypeVar("C_co", covariant=True)

OWN = "treering-"
"""The prefix reserved for the names of built-in projections, so that a custom one is never mistaken for one of them."""


class Valued(Protocol[V_co]):
    """A projection for callers that only read its value: covariant in the value, unlike `Projection`."""

    @property
    def name(self) -> str:
        """See `Projection.name`."""
        ...

    def initial(self, header: Header) -> V_co:
        """See `Projection.initial`."""
        ...

    def apply(self, value: Any, entry: Entry) -> tuple[V_co, Any | None]:  # noqa: ANN401  # a value of its own only
        """See `Projection.apply`."""
        ...

    def dump(self, value: Any) -> bytes:  # noqa: ANN401  # a value of its own only
        """See `Projection.dump`."""
        ...

    def load(self, blob: bytes) -> V_co:
        """See `Projection.load`."""
        ...


class Projection(Valued[V], Protocol[V, C_co]):
    """A fold over entries, whose value is a view.

    `apply` is pure: it does not modify the value passed to it, and the same entries always give the same value.
    It sees each visible line once, in the order of the log: the lines of a batch once the batch is complete, a line of an
    aborted batch as an opaque entry, and a damaged line not at all.
    """

    @property
    def name(self) -> str:
        """The name under which the value is shared and checkpointed; names that begin with "treering-" are reserved."""
        ...

    def initial(self, header: Header) -> V:
        """Return the value of a session without entries."""
        ...

    def apply(self, value: V, entry: Entry) -> tuple[V, C_co | None]:
        """Return the value after the entry, and the change that the entry made; None if it changed nothing."""
        ...

    def dump(self, value: V) -> bytes:
        """Return a value as bytes for a checkpoint."""
        ...

    def load(self, blob: bytes) -> V:
        """Return the value that was dumped.

        Raises:
            Exception: The bytes are not a valid value; the view is then rebuilt from the first entry.
        """
        ...


def replay(projection: Projection[V, object], header: Header, entries: Iterable[Entry]) -> V:
    """Return the value of a projection over entries: all of a log, or those of one path."""
    value = projection.initial(header)
    for entry in entries:
        value, _ = projection.apply(value, entry)
    return value
