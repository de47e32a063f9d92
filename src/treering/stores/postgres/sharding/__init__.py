"""Sessions over several databases: each is placed in one of them by a hash of its name."""

from .placing import addresses_of, shard_of
from .store import ShardedStore

__all__ = ["ShardedStore", "addresses_of", "shard_of"]
