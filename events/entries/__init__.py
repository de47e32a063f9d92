"""The content of a session's log: a header, and entries that point at their parents.

One frozen struct per type, one tagged union, the payload under the name of its type::

    MessageEntry(id=..., parent_id=..., timestamp=..., seq=7, message=Message("user", (text("Hello"),)))

In memory an entry has this shape whatever the dialect of its line. The dialects convert lines to entries and back;
nothing here reads or writes. `table` lists the types; `message`, `contextual` and `records` declare them, each with
what it is to contexts, the index, search, documents and listings.
"""

from .base import EPOCH as EPOCH
from .base import NATIVE_VERSION as NATIVE_VERSION
from .base import NEVER_COMPLETED as NEVER_COMPLETED
from .base import Batch as Batch
from .base import Column as Column
from .base import Count as Count
from .base import EntryBase as EntryBase
from .base import Header as Header
from .base import Moment as Moment
from .base import OpaqueEntry as OpaqueEntry
from .contextual import BranchSummary as BranchSummary
from .contextual import BranchSummaryEntry as BranchSummaryEntry
from .contextual import Compaction as Compaction
from .contextual import CompactionEntry as CompactionEntry
from .contextual import ContextEdit as ContextEdit
from .contextual import ContextEditEntry as ContextEditEntry
from .contextual import CustomMessage as CustomMessage
from .contextual import CustomMessageEntry as CustomMessageEntry
from .message import ROLES as ROLES
from .message import BashExecution as BashExecution
from .message import Description as Description
from .message import Message as Message
from .message import MessageEntry as MessageEntry
from .message import Payload as Payload
from .message import Usage as Usage
from .message import asked_text as asked_text
from .message import checked_usage as checked_usage
from .message import is_asked as is_asked
from .message import message as message
from .message import names_model as names_model
from .message import usage_in_words as usage_in_words
from .records import ARCHIVED as ARCHIVED
from .records import Custom as Custom
from .records import CustomEntry as CustomEntry
from .records import Label as Label
from .records import LabelEntry as LabelEntry
from .records import ModelChange as ModelChange
from .records import ModelChangeEntry as ModelChangeEntry
from .records import Provider as Provider
from .records import SessionInfo as SessionInfo
from .records import SessionInfoEntry as SessionInfoEntry
from .records import ThinkingLevel as ThinkingLevel
from .records import ThinkingLevelEntry as ThinkingLevelEntry
from .records import ToolExecution as ToolExecution
from .records import ToolExecutionEntry as ToolExecutionEntry
from .records import UsageEntry as UsageEntry
from .records import UsageRecord as UsageRecord
from .table import ENTRY_CLASSES as ENTRY_CLASSES
from .table import ENTRY_TYPES as ENTRY_TYPES
from .table import PAYLOADS as PAYLOADS
from .table import Entry as Entry
from .table import KnownEntry as KnownEntry
from .table import entry_class as entry_class
from .table import entry_of as entry_of
from .table import payload_of as payload_of
