"""Where logs live: the stores that exist, and what one needs to write another.

A host makes its store from its root, a path or a URL; without one, it keeps its sessions in memory. `store=` takes any
other, and a program calls none of its methods::

    from treering import FileStore, SessionHost

    store = FileStore("sessions", durability="group", open_files_max=100)
    async with SessionHost(store=store) as host:
        session = await host.create()

A store of your own implements `Store` and declares by `capability` what it can do beyond that (`AppendsAtOnce`,
`KeepsRows`, `ScansChanges`, ...); `offered` answers for it. A `SearchIndex` in a `SearchFile` can be its search.
`copy_logs` copies all logs from one store to another.
`treering.testing.stores.StoreSuite` tests all of it, and `examples/sqlite_store.py` shows how, in 300 lines. An entry
point of the group `treering.stores` offers it for URLs of the scheme that is its name: with `sqlite =
"my_package:SqliteStore"`, `SessionHost("sqlite:/srv/sessions.db")` uses it.
"""

from ..events.dialects.base import Dialect
from ..events.dialects.detect import detect
from ..events.stores.base import (
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
    Stamp,
    Store,
    TornTail,
)
from ..events.stores.capabilities import (
    AppendsAtOnce,
    Health,
    KeepsRows,
    KeptRow,
    KeptRows,
    Leases,
    Left,
    LooksAtOnce,
    NamesFiles,
    NamesPlaces,
    NeverBlocks,
    Packs,
    Recovers,
    RemovesDamaged,
    ScansChanges,
    TriesWriting,
    Watches,
    Whole,
    offered,
)
from ..events.stores.checks import check_header, check_kind, check_lines
from ..events.stores.copying import CopyReport, NotCopied, copy_logs
from ..events.stores.files import Durability, FileStore
from ..events.stores.finding import Among, FindsRows, Outdated, RowColumns, RowPlace, RowQuery, columns_of
from ..events.stores.hosts import Answer, HostRow, Hosts, Inbox, Letter, Whereabouts
from ..events.stores.memory import MemoryStore
from ..events.stores.search import (
    Checkpoint,
    EntryText,
    Filters,
    FindsTexts,
    IndexedLog,
    IndexUnavailable,
    KeepsSearch,
    Portion,
    Wanted,
)
from ..events.stores.search_database import SearchDatabase, SearchFile
from ..events.stores.search_index import SearchIndex

__all__ = [
    "Among",
    "Answer",
    "Append",
    "AppendsAtOnce",
    "Blob",
    "BlobKind",
    "Checkpoint",
    "Committed",
    "CopyReport",
    "Dialect",
    "Durability",
    "EntryText",
    "Failed",
    "Fenced",
    "FileStore",
    "Filters",
    "FindsRows",
    "FindsTexts",
    "Health",
    "HostRow",
    "Hosts",
    "InDoubt",
    "Inbox",
    "IndexUnavailable",
    "IndexedLog",
    "KeepsRows",
    "KeepsSearch",
    "KeptRow",
    "KeptRows",
    "Lease",
    "Leases",
    "Left",
    "Letter",
    "LogInfo",
    "LooksAtOnce",
    "MemoryStore",
    "NamesFiles",
    "NamesPlaces",
    "NeverBlocks",
    "NotCopied",
    "Opening",
    "Outcome",
    "Outdated",
    "Packs",
    "Page",
    "Peek",
    "Portion",
    "Recovers",
    "Ref",
    "RemovesDamaged",
    "RowColumns",
    "RowPlace",
    "RowQuery",
    "ScansChanges",
    "SearchDatabase",
    "SearchFile",
    "SearchIndex",
    "Stamp",
    "Store",
    "TornTail",
    "TriesWriting",
    "Wanted",
    "Watches",
    "Whereabouts",
    "Whole",
    "check_header",
    "check_kind",
    "check_lines",
    "columns_of",
    "copy_logs",
    "detect",
    "offered",
]
