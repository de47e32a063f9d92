"""What a session's log is made of: a header, and entries that point at their parents.

One frozen struct per type, one tagged union, the payload under the name of its type::

    MessageEntry(id=..., parent_id=..., timestamp=..., seq=7, message=Message("user", (text("Hello"),)))

In memory an entry has this shape whatever dialect its line is in. How a line becomes an entry and back is the
dialects' business; nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, ClassVar, TypeAlias, get_args

import msgspec
from msgspec import Meta, Raw, Struct

from .content import JSON, Content, ContentLike, MaybeRaw, NonEmpty, as_content, json_object, json_value, raw_object
from .errors import InvalidEntry
from .showing import shown

Count: TypeAlias = Annotated[int, Meta(ge=0)]
"""A number of things: never negative."""

Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A time that knows its zone, so that any two can be compared."""

NATIVE_VERSION = 1
"""The version that a native header carries."""

EPOCH = datetime.fromtimestamp(0, UTC)
"""The time of an entry that carries none."""

ROLES = frozenset(
    {
        "user",
        "assistant",
        "tool",
        "system",
        "developer",
        "bashExecution",
        "custom",
        "branchSummary",
        "compactionSummary",
    }
)
"""The roles that models are told of. A message of another role is a program's own: kept, shown, and sent to no model."""


class Header(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, repr_omit_defaults=True):
    """The first line of a log: what is known of the session as a whole.

    `version` is the dialect's own. `parent_session` names the session that this one was forked from, as the dialect
    writes it (an id or a path). `parent_entry` is the entry of that session from which a sub-agent's session hangs.
    `key` is the name under which a program asks for the session.
    """

    id: str
    version: int
    timestamp: Moment
    cwd: str | None = None
    parent_session: str | None = None
    parent_entry: str | None = None
    key: str | None = None
    title: str | None = None

    @property
    def created(self) -> datetime:
        """When the session was created."""
        return self.timestamp


class Batch(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """The mark of one line of an atomic batch: which session wrote it, which of how many lines it is (from 0)."""

    session: str
    id: str
    i: int
    n: int


class Usage(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """What a model's provider counted, in tokens, and what it cost in the provider's currency."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.total_tokens + other.total_tokens,
            self.cost + other.cost,
        )


def checked_usage(usage: object) -> Usage:
    """Return the usage that a program gives to be appended.

    A line says whatever its program counted, so reading one does not ask this.

    Raises:
        InvalidEntry: It is no `Usage`, or has a number below 0.
    """
    if not isinstance(usage, Usage):
        raise InvalidEntry(
            f"the usage is of type `{type(usage).__name__}`: give `Usage(input_tokens=..., output_tokens=...)`"
        )
    for name in usage.__struct_fields__:
        count: object = getattr(usage, name)
        if isinstance(count, (int, float)) and count < 0:
            raise InvalidEntry(f"{name} of the usage is {count}: nothing takes less than 0")
    return usage


class BashExecution(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A command that a person ran beside the model; `exclude_from_context` keeps it from the model."""

    command: str
    output: str = ""
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    exclude_from_context: bool = False


class Message(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A message of the conversation.

    `usage` and `stop_reason` come with an assistant's answer, `tool_name` with a tool's, `bash` with the role
    bashExecution, `custom_type` and `display` with the role custom. `raw_metadata` is a free JSON object.
    """

    role: NonEmpty
    content: tuple[Content, ...] = ()
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    error: str | None = None
    tool_name: str | None = None
    duration_ms: float | None = None
    bash: BashExecution | None = None
    custom_type: str | None = None
    display: bool | None = None
    raw_metadata: MaybeRaw = msgspec.field(name="metadata", default=None)

    __repr__ = shown

    def __post_init__(self) -> None:
        if self.role == "bashExecution" and self.bash is None and not self.content:
            raise InvalidEntry("a bashExecution message needs `bash` or content")

    @property
    def metadata(self) -> dict[str, JSON]:
        """The free JSON object, decoded afresh for this caller; empty where there is none."""
        return {} if self.raw_metadata is None else json_object(self.raw_metadata)

    @property
    def has_calls(self) -> bool:
        """Whether the message calls tools."""
        return any(part.__struct_config__.tag == "tool_use" for part in self.content)


class ModelChange(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """From here on the path, another model answers."""

    provider: NonEmpty
    model_id: NonEmpty


class ThinkingLevel(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """From here on the path, the model thinks at another level: "off", "low", "high" or the provider's own word."""

    thinking_level: str


class Label(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A bookmark on the entry `target_id`; an empty or absent label takes it away."""

    target_id: NonEmpty
    label: str | None = None


class Provider(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """Who answers in a session: what a program needs to go on with it.

    `type` is "ollama", "llamacpp", "lmstudio", "openai", "anthropic", "openai-compatible" or any other word, which is
    kept as it is. `context_window` is the model's, in tokens; 0 where it is not known.
    """

    type: NonEmpty
    model: str = ""
    context_window: Count = 0
    base_url: str | None = None


class SessionInfo(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """What people say of the session as a whole; a field that is given replaces the earlier one.

    `name` is the title that a person set ("" takes it away). `summary` stands for a summary that the program keeps
    beside the messages; `status`, `project` and `description` are the catalog's. `provider` is who answers.
    """

    name: str | None = None
    summary: str | None = None
    status: str | None = None
    project: str | None = None
    description: str | None = None
    raw_metadata: MaybeRaw = msgspec.field(name="metadata", default=None)
    provider: Provider | None = None

    __repr__ = shown

    @property
    def metadata(self) -> dict[str, JSON]:
        """The free JSON object, decoded afresh for this caller; empty where there is none."""
        return {} if self.raw_metadata is None else json_object(self.raw_metadata)


class Compaction(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """Everything on the path before `first_kept_entry_id` is from here on represented by `summary`.

    Without a `first_kept_entry_id` nothing before the compaction is kept. `tokens_before` is the size of the context
    that was compacted, in tokens. `raw_system_message` is a system message to put in front of the summary, as its
    dialect stored it. `from_hook` says that an extension made it.
    """

    summary: str
    first_kept_entry_id: str | None
    tokens_before: Count
    raw_details: MaybeRaw = msgspec.field(name="details", default=None)
    usage: Usage | None = None
    from_hook: bool = False
    raw_system_message: MaybeRaw = msgspec.field(name="system_message", default=None)

    __repr__ = shown

    @property
    def details(self) -> JSON:
        """What the maker of the compaction noted, decoded afresh for this caller."""
        return None if self.raw_details is None else json_value(self.raw_details)


class BranchSummary(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """What happened on the branch that ended at `from_id`, told to the branch that goes on here."""

    summary: str
    from_id: str
    raw_details: MaybeRaw = msgspec.field(name="details", default=None)
    usage: Usage | None = None
    from_hook: bool = False

    __repr__ = shown

    @property
    def details(self) -> JSON:
        """What the maker of the summary noted, decoded afresh for this caller."""
        return None if self.raw_details is None else json_value(self.raw_details)


class Custom(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """An extension's own data, never shown to a model; `custom_type` says whose."""

    custom_type: NonEmpty
    raw_data: MaybeRaw = msgspec.field(name="data", default=None)

    __repr__ = shown

    @property
    def data(self) -> JSON:
        """The data, decoded afresh for this caller."""
        return None if self.raw_data is None else json_value(self.raw_data)


class CustomMessage(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """An extension's message that the model does see; `display` and `details` are for the user interface alone."""

    custom_type: NonEmpty
    content: tuple[Content, ...]
    display: bool = True
    raw_details: MaybeRaw = msgspec.field(name="details", default=None)

    __repr__ = shown

    @property
    def details(self) -> JSON:
        """What the extension noted, decoded afresh for this caller."""
        return None if self.raw_details is None else json_value(self.raw_details)


class ToolExecution(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The record of one run of a tool: what was asked, what came of it, how long it took.

    The result that the model sees is a message of its own; this entry never reaches a context.
    """

    tool_call_id: NonEmpty
    tool_name: NonEmpty
    raw_arguments: Raw = msgspec.field(name="arguments", default=Raw(b"{}"))
    success: bool = True
    error: str | None = None
    exit_code: int | None = None
    duration_ms: float | None = None
    tokens: Count | None = None
    message_id: str | None = None

    __repr__ = shown

    @property
    def arguments(self) -> JSON:
        """The call's arguments, decoded afresh for this caller."""
        return json_value(self.raw_arguments)


class UsageRecord(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """Usage that no message carries: of a summary, a warmed cache, a whole turn; `kind` says of what.

    A turn's record carries the number of its messages in `messages` and what the program noted in `metadata`.
    """

    kind: NonEmpty
    usage: Usage
    provider: str | None = None
    model: str | None = None
    note: str | None = None
    messages: Count | None = None
    raw_metadata: MaybeRaw = msgspec.field(name="metadata", default=None)

    __repr__ = shown

    @property
    def metadata(self) -> dict[str, JSON]:
        """The free JSON object, decoded afresh for this caller; empty where there is none."""
        return {} if self.raw_metadata is None else json_object(self.raw_metadata)


class ContextEdit(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """From here on the path, the entry `target_id` stands in contexts with other content, or not at all.

    `replacement` is the new content; without it the target is left out.
    """

    target_id: NonEmpty
    replacement: tuple[Content, ...] | None = None


class EntryBase(
    Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True, kw_only=True, repr_omit_defaults=True
):
    """What every entry has.

    Attributes:
        id: Unique within the session.
        parent_id: The entry that this one follows; None at a root.
        timestamp: When it was appended, UTC; never earlier than the entry before it in the log.
        seq: Its ordinal in the log, from 1; 0 as long as it is not in one.
        aside: It was appended below another entry than the leaf, and did not become the leaf.
        command_id: The caller's id of the command that made it.
        batch: Its place in an atomic batch.
    """

    type: ClassVar[str]
    id: NonEmpty
    parent_id: str | None
    timestamp: Moment
    seq: int = 0
    aside: bool = False
    command_id: str | None = None
    batch: Batch | None = None


class MessageEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="message"):
    """A message."""

    type: ClassVar[str] = "message"
    message: Message


class ModelChangeEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="model_change"):
    """A change of the model."""

    type: ClassVar[str] = "model_change"
    model_change: ModelChange


class ThinkingLevelEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="thinking_level"):
    """A change of the thinking level."""

    type: ClassVar[str] = "thinking_level"
    thinking_level: ThinkingLevel


class LabelEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="label"):
    """A bookmark set or taken away."""

    type: ClassVar[str] = "label"
    label: Label


class SessionInfoEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="session_info"):
    """A change of what is said of the session."""

    type: ClassVar[str] = "session_info"
    session_info: SessionInfo


class CompactionEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="compaction"):
    """A compaction."""

    type: ClassVar[str] = "compaction"
    compaction: Compaction


class BranchSummaryEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="branch_summary"):
    """The summary of an abandoned branch."""

    type: ClassVar[str] = "branch_summary"
    branch_summary: BranchSummary


class CustomEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="custom"):
    """An extension's data."""

    type: ClassVar[str] = "custom"
    custom: Custom


class CustomMessageEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="custom_message"):
    """An extension's message to the model."""

    type: ClassVar[str] = "custom_message"
    custom_message: CustomMessage


class ToolExecutionEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="tool_execution"):
    """The record of a tool's run."""

    type: ClassVar[str] = "tool_execution"
    tool_execution: ToolExecution


class UsageEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="usage"):
    """Usage that no message carries."""

    type: ClassVar[str] = "usage"
    usage: UsageRecord


class ContextEditEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="context_edit"):
    """An edit of what contexts show of an earlier entry."""

    type: ClassVar[str] = "context_edit"
    context_edit: ContextEdit


NEVER_COMPLETED = "its batch was never completed"
"""Why a whole line may be opaque: it came with others, of which a crash let some be missing."""


class OpaqueEntry(Struct, frozen=True, gc=False, kw_only=True, repr_omit_defaults=True):
    """A line that a newer or another program wrote: a valid parent that contributes nothing.

    `type` is what the line calls itself, `raw` the whole line. `id` is None where the line has none; such a line
    cannot be referred to. `reason` says why the line is opaque.
    """

    type: str
    id: str | None
    parent_id: str | None
    timestamp: Moment
    raw: Raw
    seq: int = 0
    aside: bool = False
    command_id: str | None = None
    batch: Batch | None = None
    reason: str = "unknown type"

    __repr__ = shown

    @property
    def value(self) -> JSON:
        """The whole line, decoded afresh for this caller."""
        return json_value(self.raw)


KnownEntry: TypeAlias = (
    MessageEntry
    | ModelChangeEntry
    | ThinkingLevelEntry
    | LabelEntry
    | SessionInfoEntry
    | CompactionEntry
    | BranchSummaryEntry
    | CustomEntry
    | CustomMessageEntry
    | ToolExecutionEntry
    | UsageEntry
    | ContextEditEntry
)
"""An entry of a type that treering knows."""

Entry: TypeAlias = KnownEntry | OpaqueEntry
"""Any entry."""

Payload: TypeAlias = (
    Message
    | ModelChange
    | ThinkingLevel
    | Label
    | SessionInfo
    | Compaction
    | BranchSummary
    | Custom
    | CustomMessage
    | ToolExecution
    | UsageRecord
    | ContextEdit
)
"""What an entry says, without its place in the tree."""

ENTRY_TYPES: Mapping[str, type[KnownEntry]] = {entry.type: entry for entry in get_args(KnownEntry)}
"""The entry classes by the name of their type."""

_PAYLOAD_ENTRY: Mapping[type[Payload], type[KnownEntry]] = {
    Message: MessageEntry,
    ModelChange: ModelChangeEntry,
    ThinkingLevel: ThinkingLevelEntry,
    Label: LabelEntry,
    SessionInfo: SessionInfoEntry,
    Compaction: CompactionEntry,
    BranchSummary: BranchSummaryEntry,
    Custom: CustomEntry,
    CustomMessage: CustomMessageEntry,
    ToolExecution: ToolExecutionEntry,
    UsageRecord: UsageEntry,
    ContextEdit: ContextEditEntry,
}


def entry_class(payload: Payload) -> type[KnownEntry]:
    """Return the class of the entries that carry such a payload.

    Raises:
        InvalidEntry: It is no payload.
    """
    try:
        return _PAYLOAD_ENTRY[type(payload)]
    except KeyError:
        raise InvalidEntry(
            f"a value of type `{type(payload).__name__}` cannot be appended: give a payload, such as "
            "`message(role, content)`"
        ) from None


def payload_of(entry: KnownEntry) -> Payload:
    """Return what an entry says, without its place in the tree."""
    payload: Payload = getattr(entry, entry.type)
    return payload


def message(
    role: str,
    content: ContentLike,
    *,
    model: str | None = None,
    provider: str | None = None,
    usage: Usage | None = None,
    stop_reason: str | None = None,
    error: str | None = None,
    tool_name: str | None = None,
    duration_ms: float | None = None,
    bash: BashExecution | None = None,
    custom_type: str | None = None,
    display: bool | None = None,
    metadata: Mapping[str, object] | None = None,
) -> Message:
    """Make a message of whatever `append_message` takes, and of what only some messages have.

    Args:
        role: One of `ROLES`, or a program's own, of which no model is told.
        content: A string, a part, or a sequence of both.
        model: The model that answered.
        provider: Its provider.
        usage: What the provider counted.
        stop_reason: Why the model stopped.
        error: What went wrong.
        tool_name: The tool that a result comes from.
        duration_ms: How long it took, in milliseconds.
        bash: The command that a person ran, for the role bashExecution.
        custom_type: Whose message it is, for the role custom.
        display: Whether people are shown it, for the role custom.
        metadata: A free JSON object.

    Raises:
        InvalidEntry: The content, the metadata or the usage is none.
    """
    return Message(
        role,
        as_content(content),
        model,
        provider,
        None if usage is None else checked_usage(usage),
        stop_reason,
        error,
        tool_name,
        duration_ms,
        bash,
        custom_type,
        display,
        None if metadata is None else raw_object(metadata, "metadata"),
    )
