"""The host behind an adapter in a comparison, as durable as the store beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from treering import SessionHost

FLUSHED = "a power cut (shared flushes)"
WRITTEN = "a process crash"


def host_in(folder: Path, durability: Literal["os", "group"]) -> SessionHost:
    """Return a host, not open yet, whose appends survive what those of the other side do.

    Args:
        folder: Where its sessions are.
        durability: "group" beside a store that flushes each message, "os" beside one that does not.
    """
    from treering import SessionHost

    return SessionHost(folder / "sessions", durability=durability)
