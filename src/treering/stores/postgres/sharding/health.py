"""The health of several stores: what is wrong in each of them."""

from __future__ import annotations

from collections.abc import Sequence

from ....events.findings import Finding, Repair
from ....events.stores.capabilities import Health


class ShardedHealth(Health):
    """The health of several stores.

    Args:
        shards: That of each.
    """

    def __init__(self, shards: Sequence[Health]) -> None:
        self._shards = tuple(shards)

    def examine(self) -> list[Finding]:
        """See `Health.examine`."""
        return [finding for each in self._shards for finding in each.examine()]

    def repair(self) -> list[Repair]:
        """See `Health.repair`."""
        return [repair for each in self._shards for repair in each.repair()]
