"""Where logs live: the stores that exist, and what one needs to write another.

A host makes its store from its root, a path or a URL; without one, it keeps its sessions in memory. `store=` takes any
other, and a program calls none of its methods::

    from treering import FileStore, SessionHost

    store = FileStore("sessions", durability="group", open_files_max=100)
    async with SessionHost(store=store) as host:
        session = await host.create()

A store of your own implements `Store` and declares by `capability` what it can do beyond that (`AppendsAtOnce`,
`LooksAtOnce`, `ScansChanges`, ...); `offered` answers for it. `treering.testing.stores.StoreSuite` tests all of it, and
`examples/sqlite_store.py` shows how, in 300 lines. An entry point of the group `treering.stores` offers it for URLs of
the scheme that is its name: with `sqlite = "my_package:SqliteStore"`, `SessionHost("sqlite:/srv/sessions.db")` uses it.
"""

from .events.dialects.base import Dialect
from .events.dialects.detect import detect
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
from .events.stores.checks import check_header, check_kind, check_lines
from .events.stores.files import Durability, FileStore
from .events.stores.memory import MemoryStore

__all__ = [
    "Append",
    "AppendsAtOnce",
    "Blob",
    "BlobKind",
    "Committed",
    "Dialect",
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
    "detect",
    "offered",
]
