"""The hosts that share a store: who they are, and which of them is about to leave; a capability of such stores."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from msgspec import Struct


class HostRow(Struct, frozen=True, kw_only=True):
    """A host, as the others know it.

    Attributes:
        name: Its name: that of its machine, and the id of its process.
        address: Where it answers requests; None if it does not.
        sessions: How many logs it owns.
        lag_s: For how many seconds it has not renewed its lease.
        left_s: The seconds until others may take what it owns, unless it renews before; not above 0 if it is gone.
        draining: Whether it takes no more sessions, and lets go those that it has.
    """

    name: str
    address: str | None
    sessions: int
    lag_s: float
    left_s: float
    draining: bool


@runtime_checkable
class Hosts(Protocol):
    """A store that knows the hosts that share it."""

    @property
    def host_name(self) -> str:
        """The name of this host."""
        ...

    @property
    def draining(self) -> bool:
        """Whether this host was told to take no more sessions, as far as it knew when it last renewed its leases."""
        ...

    def announce(self, address: str | None) -> None:
        """Be a host of this store from the next renewal on, even while no log is owned.

        Args:
            address: Where this host answers requests, for hosts that forward some; None if it does not.
        """
        ...

    def hosts(self) -> list[HostRow]:
        """Return the hosts that have not left, those that died lately included, by their names. Blocks."""
        ...

    def drain(self, name: str) -> bool:
        """Tell a host to take no more sessions; return whether there is one of this name that lives. Blocks."""
        ...
