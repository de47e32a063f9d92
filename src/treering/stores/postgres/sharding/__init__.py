"""Sessions over several databases: each is placed in one of them by a hash of its name."""

from .store import ShardedStore, addresses_of, shard_of

__all__ = ["ShardedStore", "addresses_of", "shard_of"]
