"""Where logs live: the stores that exist, and what one needs to write another.

A host makes its store from its root, a URL or nothing (`memory:`); a program calls none of a store's methods::

    async with SessionHost(store=MemoryStore()) as host:
        ...
    async with SessionHost(store=FileStore("/srv/sessions", durability="group")) as host:
        ...

A store of your own implements `Store` and declares by `capability` what it can do beyond that (`AppendsAtOnce`,
`LooksAtOnce`, `ScansChanges`, ...; `offered` answers for it). `treering.testing.stores.StoreSuite` tests all of it, and
`examples/sqlite_store.py` shows how. The entry point group `treering.stores` makes it known by the scheme of a URL.
"""

from .events.stores.base import (
    Append,
    Blob,
    BlobKind,
    Committed,
    Failed,
    Fenced,
    InDoubt,
    Lease,
    LogInfo,
    Opening,
    Outcome,
    Page,
    Peek,
    Ref,
    Store,
    TornTail,
)
from .events.stores.blobs import check_kind
from .events.stores.capabilities import (
    AppendsAtOnce,
    KeepsFiles,
    Leases,
    LooksAtOnce,
    NamesPlaces,
    Packs,
    Recovers,
    ScansChanges,
    offered,
)
from .events.stores.files import Durability, FileStore
from .events.stores.lines import check_header, check_lines
from .events.stores.memory import MemoryStore

__all__ = [
    "Append",
    "AppendsAtOnce",
    "Blob",
    "BlobKind",
    "Committed",
    "Durability",
    "Failed",
    "Fenced",
    "FileStore",
    "InDoubt",
    "KeepsFiles",
    "Lease",
    "Leases",
    "LogInfo",
    "LooksAtOnce",
    "MemoryStore",
    "NamesPlaces",
    "Opening",
    "Outcome",
    "Packs",
    "Page",
    "Peek",
    "Recovers",
    "Ref",
    "ScansChanges",
    "Store",
    "TornTail",
    "check_header",
    "check_kind",
    "check_lines",
    "offered",
]
