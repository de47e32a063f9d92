"""The store of an address, over one database or several: what the entry points of the schemes name."""

from __future__ import annotations

from ...events.offload import Offload
from ...events.stores.base import Store
from .sharding import ShardedStore, addresses_of
from .store import PostgresStore


def store_at(url: str, *, offload: Offload | None = None, **_: object) -> Store:
    """Return the store of an address.

    Args:
        url: The address; see `treering.stores.postgres.address`. Several, separated by commas, or in the lines of a
            file that is given as "postgresql:@FILE", make a store over several databases (`sharding`).
        offload: Runs blocking work; by default in threads.

    Raises:
        InvalidInput: An address cannot be read, or the same one is given twice.
        OSError: The file cannot be read.
    """
    stores = [PostgresStore(each, offload=offload) for each in addresses_of(url)]
    return stores[0] if len(stores) == 1 else ShardedStore(stores, [each.address.place for each in stores])
