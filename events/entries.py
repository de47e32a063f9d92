"""The content of a session's log: a header, and entries that point at their parents.

One frozen struct per type, one tagged union, the payload under the name of its type::

    MessageEntry(id=..., parent_id=..., timestamp=..., seq=7, message=Message("user", (text("Hello"),)))

In memory an entry has this shape whatever the dialect of its line. The dialects convert lines to entries and back;
nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, TypeAlias, get_args

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import replace

from .content import Content, ContentLike, NonEmpty, as_content, text
from .errors import InvalidEntry
from .json_values import JSON, MaybeRaw, json_object, json_value, raw_object, shown

Count: TypeAlias = Annotated[int, Meta(ge=0)]
"""A number of things: never negative."""

Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""A time with a time zone, so that any two can be compared."""

NATIVE_VERSION = 1
"""The version that a native header carries."""

EPOCH = datetime.fromtimestamp(0, UTC)
"""The time of an entry whose line has none."""

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
"""The roles that are sent to models. A message of any other role is a program's own: stored, shown, but never sent."""


class Header(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, repr_omit_defaults=True):
    """The first line of a log, which describes the session as a whole.

    `version` is the dialect's own. `parent_session` names the session from which this one was forked, as the dialect
    writes it (an id or a path). `parent_entry` is the entry of that session to which a sub-agent's session belongs.
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
    """The mark of a line in an atomic batch: the session that wrote it, and its index `i` (from 0) among `n` lines."""

    session: str
    id: str
    i: int
    n: int


class Usage(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The tokens that a model's provider counted, and their cost in the provider's currency."""

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
    """Return the usage of an entry to append, after checking it.

    Lines are read without this check, since a line may hold whatever its program counted.

    Raises:
        InvalidEntry: The value is not a `Usage`, or has a negative number.
    """
    if not isinstance(usage, Usage):
        raise InvalidEntry(
            f"the usage is of type `{type(usage).__name__}`: give `Usage(input_tokens=..., output_tokens=...)`"
        )
    for name in usage.__struct_fields__:
        count: object = getattr(usage, name)
        if isinstance(count, (int, float)) and count < 0:
            raise InvalidEntry(f"{name} of the usage is {count}: give a number from 0 on")
    return usage


class BashExecution(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A shell command that a person ran during the session; `exclude_from_context` keeps it from the model."""

    command: str
    output: str = ""
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    exclude_from_context: bool = False


class Message(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A message of the conversation.

    `usage` and `stop_reason` belong to an assistant's answer, `tool_name` to a tool's result, `bash` to the role
    bashExecution, `custom_type` and `display` to the role custom. `raw_metadata` is a free-form JSON object.
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
        """The free-form JSON object, decoded afresh for this caller; empty if there is none."""
        return {} if self.raw_metadata is None else json_object(self.raw_metadata)

    @property
    def has_calls(self) -> bool:
        """Whether the message calls tools."""
        return any(part.__struct_config__.tag == "tool_use" for part in self.content)


class ModelChange(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A change of the model that answers from here on the path."""

    provider: NonEmpty
    model_id: NonEmpty


class ThinkingLevel(Struct, frozen=True, gc=False, repr_omit_defaults=True):
    """A change of the thinking level from here on the path: "off", "low", "high" or the provider's own word."""

    thinking_level: str


class Label(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A bookmark on the entry `target_id`; an empty or absent label removes it."""

    target_id: NonEmpty
    label: str | None = None


class Provider(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The provider and model of a session: what a program needs to resume it.

    `type` is "ollama", "llamacpp", "lmstudio", "openai", "anthropic", "openai-compatible" or any other word, which is
    stored unchanged. `context_window` is the model's, in tokens; 0 if unknown.
    """

    type: NonEmpty
    model: str = ""
    context_window: Count = 0
    base_url: str | None = None


ARCHIVED = "archived"
"""The status by which a session was archived before `SessionInfo.archived` existed."""


class SessionInfo(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A description of the session as a whole; a field that is set replaces its earlier value.

    `name` is the title that a person set ("" removes it). `summary` is a summary that the program keeps beside the
    messages; `status`, `project` and `description` belong to the catalog. `provider` names who answers. `archived`
    tells whether the session is archived; a `status` without it brings the session back.

    The status "archived" archives the session, too: it was written before `archived` existed, and replaced the
    program's own status.
    """

    name: str | None = None
    summary: str | None = None
    status: str | None = None
    project: str | None = None
    description: str | None = None
    raw_metadata: MaybeRaw = msgspec.field(name="metadata", default=None)
    provider: Provider | None = None
    archived: bool | None = None

    __repr__ = shown

    @property
    def metadata(self) -> dict[str, JSON]:
        """The free-form JSON object, decoded afresh for this caller; empty if there is none."""
        return {} if self.raw_metadata is None else json_object(self.raw_metadata)

    @property
    def archives(self) -> bool | None:
        """Whether this archives the session (True) or brings it back (False); None if it does neither."""
        if self.archived is not None or self.status is None:
            return self.archived
        return self.status == ARCHIVED

    def merged(self, later: SessionInfo) -> SessionInfo:
        """Return the description after a later one: each field that is set there replaces its earlier value."""
        fields = {name: value for name in self.__struct_fields__ if (value := getattr(later, name)) is not None}
        if later.archives is not None:
            fields["archived"] = later.archives or None  # one form of the same state, however it came about
        if later.status == ARCHIVED:
            fields["status"] = None
        return replace(self, **fields)


class Compaction(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A compaction: from here on, `summary` stands for everything on the path before `first_kept_entry_id`.

    Without a `first_kept_entry_id` nothing before the compaction is kept. `tokens_before` is the size of the compacted
    context in tokens. `raw_system_message` is a system message to put in front of the summary, as its dialect stores
    it. `from_hook` is true if an extension made the compaction.
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
        """Free-form data from the author of the compaction, decoded afresh for this caller."""
        return None if self.raw_details is None else json_value(self.raw_details)

    @property
    def system_message(self) -> Message | None:
        """The system message to put in front of the summary, with the stored form as its metadata; None if it has none.

        It repeats the system messages before the compaction.
        """
        raw = self.raw_system_message
        stored = None if raw is None else json_object(raw)
        if not stored:
            return None
        content = stored.get("content")
        parts = content if isinstance(content, list) else [content]
        texts = [part for each in parts if (part := _innermost_text(each)) is not None]
        return Message("system", tuple(map(text, texts)), raw_metadata=raw)


def _innermost_text(value: JSON) -> str | None:
    while isinstance(value, dict):
        value = value.get("text", value.get("content"))
    return value if isinstance(value, str) else None


class BranchSummary(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A summary of the branch that ended at `from_id`, for the branch that continues here."""

    summary: str
    from_id: str
    raw_details: MaybeRaw = msgspec.field(name="details", default=None)
    usage: Usage | None = None
    from_hook: bool = False

    __repr__ = shown

    @property
    def details(self) -> JSON:
        """Free-form data from the author of the summary, decoded afresh for this caller."""
        return None if self.raw_details is None else json_value(self.raw_details)


class Custom(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """An extension's own data, never shown to a model; `custom_type` identifies the extension."""

    custom_type: NonEmpty
    raw_data: MaybeRaw = msgspec.field(name="data", default=None)

    __repr__ = shown

    @property
    def data(self) -> JSON:
        """The data, decoded afresh for this caller."""
        return None if self.raw_data is None else json_value(self.raw_data)


class CustomMessage(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """An extension's message that the model does see; `display` and `details` are only for the user interface."""

    custom_type: NonEmpty
    content: tuple[Content, ...]
    display: bool = True
    raw_details: MaybeRaw = msgspec.field(name="details", default=None)

    __repr__ = shown

    @property
    def details(self) -> JSON:
        """Free-form data from the extension, decoded afresh for this caller."""
        return None if self.raw_details is None else json_value(self.raw_details)


class ToolExecution(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The record of one run of a tool: its arguments, its outcome, its duration.

    The result that the model sees is a separate message; this entry is never part of a context.
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
    """Usage that belongs to no message, such as that of a summary, a warmed cache or a whole turn; `kind` names it.

    A turn's record has the number of its messages in `messages` and the program's own data in `metadata`.
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
        """The free-form JSON object, decoded afresh for this caller; empty if there is none."""
        return {} if self.raw_metadata is None else json_object(self.raw_metadata)


class ContextEdit(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """An edit of contexts from here on the path: the entry `target_id` appears with other content, or not at all.

    `replacement` is the new content; without it the target is left out.
    """

    target_id: NonEmpty
    replacement: tuple[Content, ...] | None = None


class EntryBase(
    Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True, kw_only=True, repr_omit_defaults=True
):
    """The fields that all entries have.

    Attributes:
        id: Unique within the session.
        parent_id: The entry that this one follows; None at a root.
        timestamp: When it was appended, UTC; never earlier than the entry before it in the log.
        seq: Its seq in the log, from 1; 0 until it is in one.
        aside: Whether it was appended without becoming the leaf, below an entry other than the leaf.
        command_id: The caller's id of the command that appended it.
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
    """A bookmark that is set or removed."""

    type: ClassVar[str] = "label"
    label: Label


class SessionInfoEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="session_info"):
    """A change of the session's description."""

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
    """Usage that belongs to no message."""

    type: ClassVar[str] = "usage"
    usage: UsageRecord


class ContextEditEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="context_edit"):
    """An edit of how contexts show an earlier entry."""

    type: ClassVar[str] = "context_edit"
    context_edit: ContextEdit


NEVER_COMPLETED = "its batch was never completed"
"""Why a complete line may be opaque: a crash prevented other lines of its batch from being written."""


class OpaqueEntry(Struct, frozen=True, gc=False, kw_only=True, repr_omit_defaults=True):
    """A line of a type or shape that treering does not know: a valid parent that contributes nothing.

    `type` is the type that the line states, `raw` the whole line. `id` is None if the line has none; such a line
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
"""The content of an entry, without its place in the tree."""

ENTRY_TYPES: Mapping[str, type[KnownEntry]] = {entry.type: entry for entry in get_args(KnownEntry)}
"""The entry classes by the name of their type."""

ENTRY_CLASSES: Mapping[type[Payload], type[KnownEntry]] = {
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
"""The entry classes by the class of their payload."""


def entry_class(payload: Payload) -> type[KnownEntry]:
    """Return the entry class that carries such a payload.

    Raises:
        InvalidEntry: The value is not a payload.
    """
    try:
        return ENTRY_CLASSES[type(payload)]
    except KeyError:
        raise InvalidEntry(
            f"a value of type `{type(payload).__name__}` cannot be appended: give a payload, such as "
            "`message(role, content)`"
        ) from None


def entry_of(
    payload: Payload,
    *,
    id: str,
    parent_id: str | None,
    timestamp: datetime,
    seq: int = 0,
    aside: bool = False,
    command_id: str | None = None,
    batch: Batch | None = None,
) -> KnownEntry:
    """Return the entry that carries a payload; see `EntryBase` for the fields.

    Raises:
        InvalidEntry: The value is not a payload.
    """
    if type(payload) is Message:  # nearly all are, and naming the field is five times as fast as the general way
        return MessageEntry(
            id=id,
            parent_id=parent_id,
            timestamp=timestamp,
            seq=seq,
            aside=aside,
            command_id=command_id,
            batch=batch,
            message=payload,
        )
    kind = entry_class(payload)
    payload_field: dict[str, Any] = {kind.type: payload}
    return kind(
        id=id,
        parent_id=parent_id,
        timestamp=timestamp,
        seq=seq,
        aside=aside,
        command_id=command_id,
        batch=batch,
        **payload_field,
    )


def payload_of(entry: KnownEntry) -> Payload:
    """Return the payload of an entry: its content without its place in the tree."""
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
    """Make a message from the content that `append_message` accepts, and from the fields of particular roles.

    Args:
        role: "user", "assistant", "tool", "system", another one that `Session.append_message` names, or a program's
            own, which is not sent to models.
        content: A string, a part, or a sequence of both.
        model: The model that answered.
        provider: Its provider.
        usage: The tokens that the provider counted.
        stop_reason: Why the model stopped.
        error: What went wrong.
        tool_name: The tool that produced a result.
        duration_ms: How long it took, in milliseconds.
        bash: The command that a person ran, for the role bashExecution.
        custom_type: The extension that the message belongs to, for the role custom.
        display: Whether people see it, for the role custom.
        metadata: A free-form JSON object.

    Raises:
        InvalidEntry: The content, the metadata or the usage is invalid.
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
