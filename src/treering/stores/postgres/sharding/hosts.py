"""The hosts of several stores as those of one: each host is a host of all of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ....events.stores.hosts import HostRow, Hosts


class ShardedHosts(Hosts):
    """The hosts over several stores.

    Args:
        shards: What each store knows of its hosts.

    Attributes:
        announced: Whether this host is one even while it owns nothing.
    """

    def __init__(self, shards: Sequence[Hosts]) -> None:
        self._shards = tuple(shards)
        self.announced = False

    @property
    def host_name(self) -> str:
        """See `Hosts.host_name`; it is the same in all stores."""
        return self._shards[0].host_name

    @property
    def draining(self) -> bool:
        """See `Hosts.draining`: whether it was told so through any of them."""
        return any(each.draining for each in self._shards)

    def announce(self, address: str | None) -> None:
        """See `Hosts.announce`."""
        self.announced = True
        for each in self._shards:
            each.announce(address)

    def hosts(self) -> list[HostRow]:
        """See `Hosts.hosts`; what is said of a host is the worst of what the stores say of it.

        Raises:
            StoreUnavailable: One of the databases cannot be reached, so that hosts and sessions would be missing.
        """
        found: dict[str, HostRow] = {}
        for row in (row for each in self._shards for row in each.hosts()):
            known = found.get(row.name)
            found[row.name] = row if known is None else _merged(known, row)
        return [found[name] for name in sorted(found)]

    def drain(self, name: str) -> bool:
        """See `Hosts.drain`."""
        told = [each.drain(name) for each in self._shards]  # each of them
        return any(told)


def _merged(one: HostRow, other: HostRow) -> HostRow:
    return replace(
        one,
        address=one.address or other.address,
        sessions=one.sessions + other.sessions,
        lag_s=max(one.lag_s, other.lag_s),
        left_s=min(one.left_s, other.left_s),
        draining=one.draining or other.draining,
    )
