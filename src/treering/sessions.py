"""Hosts and sessions: what they are, what they take, and what they report.

A `SessionHost` finds, opens and keeps the sessions under a root; a `Session` is the handle by which one of them is read
and appended to. `KeyedSessions` offers conversations by the program's own keys::

    from treering import Limits, SessionHost

    async with SessionHost("~/sessions", limits=Limits(idle_after_s=10.0)) as host:
        session = await host.get_or_create("telegram:123456")
        await session.append_message("user", "Hello")
        async for hit in host.search("hello"):
            found = hit.session_id, hit.snippet

`treering.sync` has the same without an event loop.
"""

from .actors.catalog.archiving import RetentionReport, Retired, Spared
from .actors.catalog.settings import Settings, default_root
from .actors.commands import AppendOptions
from .actors.host.host import SessionHost
from .actors.host.keyed import KeyedSessions
from .actors.host.lookup import SessionLike
from .actors.host.names import SessionKey
from .actors.host.runtime import HostStatistics, Latency, Limits, SessionStatistics
from .actors.search.hits import Hit, Search
from .actors.session.branching import BranchReport
from .actors.session.compaction import CompactionReport
from .actors.session.describing import StoredMessage
from .actors.session.exporting import ExportFormat
from .actors.session.open_calls import OpenCall, Recovery
from .actors.session.session import Session
from .actors.transfer.reports import HandedOver, ImportReport, ImportReports
from .events.findings import Finding, LeftOut, NotHeld
from .events.redaction import Redaction
from .projections.building.budget import UsedTokens
from .projections.session_state import CalledTool, SessionState
from .projections.stats import SessionStats
from .projections.summary import SessionMetadata, SessionSummary

__all__ = [
    "AppendOptions",
    "BranchReport",
    "CalledTool",
    "CompactionReport",
    "ExportFormat",
    "Finding",
    "HandedOver",
    "Hit",
    "HostStatistics",
    "ImportReport",
    "ImportReports",
    "KeyedSessions",
    "Latency",
    "LeftOut",
    "Limits",
    "NotHeld",
    "OpenCall",
    "Recovery",
    "Redaction",
    "RetentionReport",
    "Retired",
    "Search",
    "Session",
    "SessionHost",
    "SessionKey",
    "SessionLike",
    "SessionMetadata",
    "SessionState",
    "SessionStatistics",
    "SessionStats",
    "SessionSummary",
    "Settings",
    "Spared",
    "StoredMessage",
    "UsedTokens",
    "default_root",
]
