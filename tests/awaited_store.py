"""A store in memory whose appends are awaited, as those of a remote store are."""

from collections.abc import Sequence

from anyio.lowlevel import checkpoint

from treering import MemoryStore
from treering.events.stores.base import Append, Outcome


class AwaitedStore(MemoryStore):
    def try_append(self, append: Append) -> Outcome | None:  # type: ignore[override]  # like a remote store
        return None

    async def append(self, appends: Sequence[Append]) -> list[Outcome]:
        await checkpoint()
        return [super(AwaitedStore, self).try_append(each) for each in appends]
