"""The session layer for hosts that run many LLM agents at once.

General layout: `events` defines what is written (entries, dialects, logs, stores), `projections` what is read (context,
tree, labels, subscriptions), `actors` who acts (commands, session actors, the host). Imports point from actors to
projections to events; this package re-exports the public names. A session is an append-only tree of entries in one
JSONL file; one actor owns the file and is the only one that writes it; views are folded from the entries and streamed
to subscribers::

    async with treering.SessionHost("~/sessions") as host:
        session = await host.create(cwd="/work/project")
        await session.append_message("user", "Hello")
        context = await session.context()
"""

from __future__ import annotations

from .actors.agents.agent import AgentSession as AgentSession
from .actors.agents.conversation import ConversationSession as ConversationSession
from .actors.agents.events import AgentEvent as AgentEvent
from .actors.agents.events import Compacted as Compacted
from .actors.agents.events import MessageEnd as MessageEnd
from .actors.agents.events import NotCompacted as NotCompacted
from .actors.agents.events import Recovered as Recovered
from .actors.agents.events import RequestSent as RequestSent
from .actors.agents.events import Retrying as Retrying
from .actors.agents.events import ToolExecutionEnd as ToolExecutionEnd
from .actors.agents.events import Turn as Turn
from .actors.agents.events import TurnEnd as TurnEnd
from .actors.agents.hooks import AgentHooks as AgentHooks
from .actors.agents.hooks import LeavePolicy as LeavePolicy
from .actors.agents.hooks import LeftWork as LeftWork
from .actors.agents.hooks import TurnInput as TurnInput
from .actors.agents.model import Completed as Completed
from .actors.agents.model import Model as Model
from .actors.agents.model import ModelEvent as ModelEvent
from .actors.agents.model import ModelRequest as ModelRequest
from .actors.agents.model import TextDelta as TextDelta
from .actors.agents.model import ThinkingDelta as ThinkingDelta
from .actors.agents.model import ToolCallStarted as ToolCallStarted
from .actors.agents.model import ToolSpec as ToolSpec
from .actors.agents.model import malformed_arguments as malformed_arguments
from .actors.agents.options import AgentOptions as AgentOptions
from .actors.agents.sent_requests import RequestSubscription as RequestSubscription
from .actors.agents.sent_requests import SentContext as SentContext
from .actors.agents.streaming import TurnStream as TurnStream
from .actors.agents.summarizing import summarizer_of as summarizer_of
from .actors.agents.tool import Suspend as Suspend
from .actors.agents.tool import Tool as Tool
from .actors.agents.tool import ToolOutput as ToolOutput
from .actors.agents.tool import tool as tool
from .actors.catalog.archiving import RetentionReport as RetentionReport
from .actors.catalog.archiving import Retired as Retired
from .actors.catalog.archiving import Spared as Spared
from .actors.catalog.root import default_root as default_root
from .actors.catalog.settings import Settings as Settings
from .actors.commands import AppendOptions as AppendOptions
from .actors.exports import ExportFormat
from .actors.host.host import SessionHost as SessionHost
from .actors.host.keyed import KeyedSessions as KeyedSessions
from .actors.host.listing import SessionChanged as SessionChanged
from .actors.host.listing import SessionsSubscription as SessionsSubscription
from .actors.host.lookup import SessionLike as SessionLike
from .actors.host.names import SessionKey
from .actors.host.runtime import HostStatistics, Latency, SessionStatistics
from .actors.host.runtime import Limits as Limits
from .actors.imports.report import ImportReport as ImportReport
from .actors.imports.report import ImportReports as ImportReports
from .actors.search.hits import Hit as Hit
from .actors.search.hits import Search as Search
from .actors.session.branching import BranchReport
from .actors.session.compaction import CompactionReport
from .actors.session.describing import StoredMessage
from .actors.session.open_calls import OpenCall, Recovery
from .actors.session.session import Session
from .actors.sync import SyncEntrySubscription as SyncEntrySubscription
from .actors.sync import SyncHost as SyncHost
from .actors.sync import SyncKeyedSessions as SyncKeyedSessions
from .actors.sync import SyncSearch as SyncSearch
from .actors.sync import SyncSession as SyncSession
from .actors.sync import SyncSubscription as SyncSubscription
from .actors.sync import SyncTransientSubscription as SyncTransientSubscription
from .actors.sync.host import SyncSessionLike as SyncSessionLike
from .events.content import Content as Content
from .events.content import ContentLike as ContentLike
from .events.content import ImagePart as ImagePart
from .events.content import TextPart as TextPart
from .events.content import ThinkingPart as ThinkingPart
from .events.content import ToolResultPart as ToolResultPart
from .events.content import ToolUsePart as ToolUsePart
from .events.content import file_text as file_text
from .events.content import image as image
from .events.content import plain_text as plain_text
from .events.content import text as text
from .events.content import thinking as thinking
from .events.content import tool_result as tool_result
from .events.content import tool_use as tool_use
from .events.entries import BashExecution as BashExecution
from .events.entries import BranchSummary as BranchSummary
from .events.entries import BranchSummaryEntry as BranchSummaryEntry
from .events.entries import Compaction as Compaction
from .events.entries import CompactionEntry as CompactionEntry
from .events.entries import ContextEdit as ContextEdit
from .events.entries import ContextEditEntry as ContextEditEntry
from .events.entries import Custom as Custom
from .events.entries import CustomEntry as CustomEntry
from .events.entries import CustomMessage as CustomMessage
from .events.entries import CustomMessageEntry as CustomMessageEntry
from .events.entries import Entry as Entry
from .events.entries import Header as Header
from .events.entries import Label as Label
from .events.entries import LabelEntry as LabelEntry
from .events.entries import Message as Message
from .events.entries import MessageEntry as MessageEntry
from .events.entries import ModelChange as ModelChange
from .events.entries import ModelChangeEntry as ModelChangeEntry
from .events.entries import OpaqueEntry as OpaqueEntry
from .events.entries import Payload as Payload
from .events.entries import Provider as Provider
from .events.entries import SessionInfo as SessionInfo
from .events.entries import SessionInfoEntry as SessionInfoEntry
from .events.entries import ThinkingLevel as ThinkingLevel
from .events.entries import ThinkingLevelEntry as ThinkingLevelEntry
from .events.entries import ToolExecution as ToolExecution
from .events.entries import ToolExecutionEntry as ToolExecutionEntry
from .events.entries import Usage as Usage
from .events.entries import UsageEntry as UsageEntry
from .events.entries import UsageRecord as UsageRecord
from .events.entries import message as message
from .events.errors import AgentError as AgentError
from .events.errors import AmbiguousSession as AmbiguousSession
from .events.errors import AnswerCutOff as AnswerCutOff
from .events.errors import AppendError as AppendError
from .events.errors import AppendFailed as AppendFailed
from .events.errors import AppendInDoubt as AppendInDoubt
from .events.errors import Closed as Closed
from .events.errors import CommandConflict as CommandConflict
from .events.errors import CompactionLoop as CompactionLoop
from .events.errors import Conflict as Conflict
from .events.errors import ContextError as ContextError
from .events.errors import ContextOverflow as ContextOverflow
from .events.errors import CorruptTree as CorruptTree
from .events.errors import DialectCannot as DialectCannot
from .events.errors import EntryNotFound as EntryNotFound
from .events.errors import ExportExists as ExportExists
from .events.errors import ExtraMissing as ExtraMissing
from .events.errors import ForeignFormatError as ForeignFormatError
from .events.errors import HostClosed as HostClosed
from .events.errors import InvalidEntry as InvalidEntry
from .events.errors import InvalidInput as InvalidInput
from .events.errors import InvalidSessionId as InvalidSessionId
from .events.errors import LeafMoved as LeafMoved
from .events.errors import LogDamaged as LogDamaged
from .events.errors import LogError as LogError
from .events.errors import LogReplaced as LogReplaced
from .events.errors import ModelError as ModelError
from .events.errors import ModelUnavailable as ModelUnavailable
from .events.errors import NotASession as NotASession
from .events.errors import NotFound as NotFound
from .events.errors import NotLive as NotLive
from .events.errors import NotSuspended as NotSuspended
from .events.errors import ProjectionFailed as ProjectionFailed
from .events.errors import RateLimited as RateLimited
from .events.errors import ReadOnly as ReadOnly
from .events.errors import RedactedSession as RedactedSession
from .events.errors import RequestRefused as RequestRefused
from .events.errors import RequestTooLong as RequestTooLong
from .events.errors import SessionClosed as SessionClosed
from .events.errors import SessionExists as SessionExists
from .events.errors import SessionLocked as SessionLocked
from .events.errors import SessionNotFound as SessionNotFound
from .events.errors import SummaryRefused as SummaryRefused
from .events.errors import TreeringError as TreeringError
from .events.errors import TurnSuspended as TurnSuspended
from .events.errors import TurnTooLong as TurnTooLong
from .events.errors import UnsafeCut as UnsafeCut
from .events.errors import UnsupportedVersion as UnsupportedVersion
from .events.errors import Where as Where
from .events.errors import WrongThread as WrongThread
from .events.findings import Finding as Finding
from .events.findings import LeftOut as LeftOut
from .events.redaction import Redaction as Redaction
from .events.stores.base import Cursor as Cursor
from .events.stores.base import Store as Store
from .events.stores.base import TornTail as TornTail
from .events.stores.files import Durability as Durability
from .events.stores.files import FileStore as FileStore
from .events.stores.memory import MemoryStore as MemoryStore
from .projections.base import Projection as Projection
from .projections.base import Valued as Valued
from .projections.building.budget import ContextBudget as ContextBudget
from .projections.building.budget import calculate_budget as calculate_budget
from .projections.building.builder import ContextBuilder as ContextBuilder
from .projections.building.builder import ContextBuildResult as ContextBuildResult
from .projections.building.builder import StrategyFailure as StrategyFailure
from .projections.building.composing import compose as compose
from .projections.building.pairing import safe_start as safe_start
from .projections.building.source import ContextSource as ContextSource
from .projections.building.strategy import ContextStrategy as ContextStrategy
from .projections.building.strategy import NeededSummary as NeededSummary
from .projections.building.strategy import StrategyResult as StrategyResult
from .projections.building.summaries import Summarizer as Summarizer
from .projections.building.summaries import SummarizerOptions as SummarizerOptions
from .projections.building.summaries import SummaryRequest as SummaryRequest
from .projections.building.summary_cache import StoredSummary as StoredSummary
from .projections.building.used_tokens import UsedTokens as UsedTokens
from .projections.changes import Changed as Changed
from .projections.changes import Snapshot as Snapshot
from .projections.context import Context as Context
from .projections.context import ContextChange as ContextChange
from .projections.context import ContextMessage as ContextMessage
from .projections.context import ModelRef as ModelRef
from .projections.feed import Reset as Reset
from .projections.feed import Transient as Transient
from .projections.labels import LabelChange as LabelChange
from .projections.metadata import SessionMetadata as SessionMetadata
from .projections.state import WorkProjection as WorkProjection
from .projections.state import WorkState as WorkState
from .projections.stats import SessionStats as SessionStats
from .projections.subscriptions import EntrySubscription as EntrySubscription
from .projections.subscriptions import TransientSubscription as TransientSubscription
from .projections.subscriptions import ViewSubscription as ViewSubscription
from .projections.summary import SessionSummary as SessionSummary
from .projections.tokens import ByteEstimator as ByteEstimator
from .projections.tokens import MessageTokenizer as MessageTokenizer
from .projections.tokens import Tokenizer as Tokenizer
from .projections.tree import LabelChanged as LabelChanged
from .projections.tree import LeafChanged as LeafChanged
from .projections.tree import NodeAdded as NodeAdded
from .projections.tree import Tree as Tree
from .projections.tree import TreeChange as TreeChange
from .projections.tree import TreeNode as TreeNode
from .projections.tree import TreeReplica as TreeReplica
from .projections.usage import ModelUsage as ModelUsage
from .projections.usage import UsageProjection as UsageProjection
from .projections.usage import UsageTotals as UsageTotals

__version__ = "0.1.0"

__all__ = [
    "AgentError",
    "AgentEvent",
    "AgentHooks",
    "AgentOptions",
    "AgentSession",
    "AmbiguousSession",
    "AnswerCutOff",
    "AppendError",
    "AppendFailed",
    "AppendInDoubt",
    "AppendOptions",
    "BashExecution",
    "BranchReport",
    "BranchSummary",
    "BranchSummaryEntry",
    "ByteEstimator",
    "Changed",
    "Closed",
    "CommandConflict",
    "Compacted",
    "Compaction",
    "CompactionEntry",
    "CompactionLoop",
    "CompactionReport",
    "Completed",
    "Conflict",
    "Content",
    "ContentLike",
    "Context",
    "ContextBudget",
    "ContextBuildResult",
    "ContextBuilder",
    "ContextChange",
    "ContextEdit",
    "ContextEditEntry",
    "ContextError",
    "ContextMessage",
    "ContextOverflow",
    "ContextSource",
    "ContextStrategy",
    "ConversationSession",
    "CorruptTree",
    "Cursor",
    "Custom",
    "CustomEntry",
    "CustomMessage",
    "CustomMessageEntry",
    "DialectCannot",
    "Durability",
    "Entry",
    "EntryNotFound",
    "EntrySubscription",
    "ExportExists",
    "ExportFormat",
    "ExtraMissing",
    "FileStore",
    "Finding",
    "ForeignFormatError",
    "Header",
    "Hit",
    "HostClosed",
    "HostStatistics",
    "ImagePart",
    "ImportReport",
    "ImportReports",
    "InvalidEntry",
    "InvalidInput",
    "InvalidSessionId",
    "KeyedSessions",
    "Label",
    "LabelChange",
    "LabelChanged",
    "LabelEntry",
    "Latency",
    "LeafChanged",
    "LeafMoved",
    "LeavePolicy",
    "LeftOut",
    "LeftWork",
    "Limits",
    "LogDamaged",
    "LogError",
    "LogReplaced",
    "MemoryStore",
    "Message",
    "MessageEnd",
    "MessageEntry",
    "MessageTokenizer",
    "Model",
    "ModelChange",
    "ModelChangeEntry",
    "ModelError",
    "ModelEvent",
    "ModelRef",
    "ModelRequest",
    "ModelUnavailable",
    "ModelUsage",
    "NeededSummary",
    "NodeAdded",
    "NotASession",
    "NotCompacted",
    "NotFound",
    "NotLive",
    "NotSuspended",
    "OpaqueEntry",
    "OpenCall",
    "Payload",
    "Projection",
    "ProjectionFailed",
    "Provider",
    "RateLimited",
    "ReadOnly",
    "Recovered",
    "Recovery",
    "RedactedSession",
    "Redaction",
    "RequestRefused",
    "RequestSent",
    "RequestSubscription",
    "RequestTooLong",
    "Reset",
    "RetentionReport",
    "Retired",
    "Retrying",
    "Search",
    "SentContext",
    "Session",
    "SessionChanged",
    "SessionClosed",
    "SessionExists",
    "SessionHost",
    "SessionInfo",
    "SessionInfoEntry",
    "SessionKey",
    "SessionLike",
    "SessionLocked",
    "SessionMetadata",
    "SessionNotFound",
    "SessionStatistics",
    "SessionStats",
    "SessionSummary",
    "SessionsSubscription",
    "Settings",
    "Snapshot",
    "Spared",
    "Store",
    "StoredMessage",
    "StoredSummary",
    "StrategyFailure",
    "StrategyResult",
    "Summarizer",
    "SummarizerOptions",
    "SummaryRefused",
    "SummaryRequest",
    "Suspend",
    "SyncEntrySubscription",
    "SyncHost",
    "SyncKeyedSessions",
    "SyncSearch",
    "SyncSession",
    "SyncSessionLike",
    "SyncSubscription",
    "SyncTransientSubscription",
    "TextDelta",
    "TextPart",
    "ThinkingDelta",
    "ThinkingLevel",
    "ThinkingLevelEntry",
    "ThinkingPart",
    "Tokenizer",
    "Tool",
    "ToolCallStarted",
    "ToolExecution",
    "ToolExecutionEnd",
    "ToolExecutionEntry",
    "ToolOutput",
    "ToolResultPart",
    "ToolSpec",
    "ToolUsePart",
    "TornTail",
    "Transient",
    "TransientSubscription",
    "Tree",
    "TreeChange",
    "TreeNode",
    "TreeReplica",
    "TreeringError",
    "Turn",
    "TurnEnd",
    "TurnInput",
    "TurnStream",
    "TurnSuspended",
    "TurnTooLong",
    "UnsafeCut",
    "UnsupportedVersion",
    "Usage",
    "UsageEntry",
    "UsageProjection",
    "UsageRecord",
    "UsageTotals",
    "UsedTokens",
    "Valued",
    "ViewSubscription",
    "Where",
    "WorkProjection",
    "WorkState",
    "WrongThread",
    "__version__",
    "calculate_budget",
    "compose",
    "default_root",
    "file_text",
    "image",
    "malformed_arguments",
    "message",
    "plain_text",
    "safe_start",
    "summarizer_of",
    "text",
    "thinking",
    "tool",
    "tool_result",
    "tool_use",
]
