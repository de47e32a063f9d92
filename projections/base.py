"""What a projection is: a fold over the entries of one session, in the order of the log.

A projection of one's own needs five short methods::

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

Only the protocol and its plainest use stand here; who keeps checkpoints and wakes subscribers is not this room's
business.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from ..events.entries import Entry, Header

V = TypeVar("V")
"""The value of a projection."""
V_co = TypeVar("V_co", covariant=True)
C = TypeVar("C")
"""What says how one entry changed the value."""
C_co = TypeVar("C_co", covariant=True)

OWN = "treering-"
"""How the names of the library's own projections begin, and no others: what a program folds is never taken for theirs."""


class Valued(Protocol[V_co]):
    """A projection, as far as somebody cares who asks for its value: what is an int may be taken for an object."""

    @property
    def name(self) -> str:
        """See `Projection.name`."""
        ...

    def initial(self, header: Header) -> V_co:
        """See `Projection.initial`."""
        ...

    def apply(self, value: Any, entry: Entry) -> tuple[V_co, Any | None]:  # noqa: ANN401  # its own value, and no other
        """See `Projection.apply`."""
        ...

    def dump(self, value: Any) -> bytes:  # noqa: ANN401  # its own value, and no other
        """See `Projection.dump`."""
        ...

    def load(self, blob: bytes) -> V_co:
        """See `Projection.load`."""
        ...


class Projection(Valued[V], Protocol[V, C_co]):
    """A fold over entries, whose value is a view.

    `apply` is pure: it leaves the value that it was given as it was, and the same entries always give the same value.
    It sees each visible line once, in the order of the log: lines of a batch when the batch is whole, a line of an
    aborted batch as an opaque entry, a damaged line not at all.
    """

    @property
    def name(self) -> str:
        """The name under which the value is shared and its checkpoints are kept; those that begin with "treering-" are taken."""
        ...

    def initial(self, header: Header) -> V:
        """Return the value of a session without entries."""
        ...

    def apply(self, value: V, entry: Entry) -> tuple[V, C_co | None]:
        """Return the value with the entry taken in, and the change that it made; None where it changed nothing."""
        ...

    def dump(self, value: V) -> bytes:
        """Return a value as bytes for a checkpoint."""
        ...

    def load(self, blob: bytes) -> V:
        """Return the value that was dumped.

        Raises:
            Exception: The bytes are no such value; the view is then rebuilt from nothing.
        """
        ...


def replay(projection: Projection[V, object], header: Header, entries: Iterable[Entry]) -> V:
    """Fold entries from nothing: all of a log, or those of one path."""
    value = projection.initial(header)
    for entry in entries:
        value, _ = projection.apply(value, entry)
    return value
