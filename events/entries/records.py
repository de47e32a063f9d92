"""The entries that record what happened beside the conversation; no context shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..content import NonEmpty
from ..json_values import JSON, MaybeRaw, json_object, json_value
from ..texts import one_line
from .base import Column, Count, EntryBase
from .message import Description, Payload, Usage, usage_in_words


class ModelChange(Payload, frozen=True):
    """A change of the model that answers from here on the path."""

    provider: NonEmpty
    model_id: NonEmpty

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the model."""
        return f"{self.provider}/{self.model_id}"

    def described(self) -> Description:
        """Return the model."""
        return f"Model: {self.provider}/{self.model_id}", None


class ModelChangeEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="model_change"):
    """A change of the model."""

    type: ClassVar[str] = "model_change"
    kind: ClassVar[int] = 8
    marks: ClassVar[Column | None] = "models"
    model_change: ModelChange


class ThinkingLevel(Payload, frozen=True):
    """A change of the thinking level from here on the path: "off", "low", "high" or the provider's own word."""

    thinking_level: str

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the level."""
        return self.thinking_level

    def described(self) -> Description:
        """Return the level."""
        return f"Thinking level: {self.thinking_level}", None


class ThinkingLevelEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="thinking_level"):
    """A change of the thinking level."""

    type: ClassVar[str] = "thinking_level"
    kind: ClassVar[int] = 9
    marks: ClassVar[Column | None] = "levels"
    thinking_level: ThinkingLevel


class Label(Payload, frozen=True):
    """A bookmark on the entry `target_id`; an empty or absent label removes it."""

    target_id: NonEmpty
    label: str | None = None

    def searched(self) -> Iterable[str]:
        """Return the label."""
        return (self.label or "",)

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the entry, and its label."""
        return f"{short(self.target_id)} {self.label or '(removed)'}"

    def described(self) -> Description:
        """Return the label."""
        return (f"Label: {self.label}" if self.label else "Label taken away"), None


class LabelEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="label"):
    """A bookmark that is set or removed."""

    type: ClassVar[str] = "label"
    kind: ClassVar[int] = 10
    label: Label


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


class SessionInfo(Payload, frozen=True):
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

    def searched(self) -> Iterable[str]:
        """Return the texts that a person or the program wrote about the session."""
        return (self.name or "", self.description or "", self.summary or "")

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the first of the name, the summary and the status that is set."""
        return self.name or self.summary or self.status or ""

    def described(self) -> Description:
        """Return the fields that are set."""
        names = ("name", "summary", "status", "project", "description")
        fields: dict[str, str | None] = {name: getattr(self, name) for name in names}
        parts = [f"{name} {one_line(value)!r}" for name, value in fields.items() if value is not None]
        if self.archived is not None:
            parts.append("archived" if self.archived else "brought back")
        return "Session: " + (", ".join(parts) or "metadata"), self.raw_metadata


class SessionInfoEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="session_info"):
    """A change of the session's description."""

    type: ClassVar[str] = "session_info"
    kind: ClassVar[int] = 11
    session_info: SessionInfo


class Custom(Payload, frozen=True):
    """An extension's own data, never shown to a model; `custom_type` identifies the extension."""

    custom_type: NonEmpty
    raw_data: MaybeRaw = msgspec.field(name="data", default=None)

    @property
    def data(self) -> JSON:
        """The data, decoded afresh for this caller."""
        return None if self.raw_data is None else json_value(self.raw_data)

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the extension."""
        return self.custom_type

    def described(self) -> Description:
        """Return the extension, and its data."""
        return f"Extension: {self.custom_type}", self.raw_data


class CustomEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="custom"):
    """An extension's data."""

    type: ClassVar[str] = "custom"
    kind: ClassVar[int] = 14
    custom: Custom


class ToolExecution(Payload, frozen=True):
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

    @property
    def arguments(self) -> JSON:
        """The call's arguments, decoded afresh for this caller."""
        return json_value(self.raw_arguments)

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the tool, and whether it succeeded."""
        return f"{self.tool_name} {'done' if self.success else 'failed'}"

    def described(self) -> Description:
        """Return the tool, and what is known of the run."""
        parts = [f"Tool run: {self.tool_name}", "" if self.success else "failed"]
        parts.append("" if self.exit_code is None else f"exit code {self.exit_code}")
        parts.append("" if self.duration_ms is None else _duration(self.duration_ms))
        parts.append("" if self.error is None else one_line(self.error))
        return " · ".join(filter(None, parts)), None


def _duration(duration_ms: float) -> str:
    return f"{duration_ms:,.0f} ms" if duration_ms < 1000 else f"{duration_ms / 1000:,.1f} s"


class ToolExecutionEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="tool_execution"):
    """The record of a tool's run."""

    type: ClassVar[str] = "tool_execution"
    kind: ClassVar[int] = 16
    tool_execution: ToolExecution


class UsageRecord(Payload, frozen=True):
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

    @property
    def metadata(self) -> dict[str, JSON]:
        """The free-form JSON object, decoded afresh for this caller; empty if there is none."""
        return {} if self.raw_metadata is None else json_object(self.raw_metadata)

    def preview(self, short: Callable[[str], str]) -> str:
        """Return what it is of, and the tokens."""
        return f"{self.kind}: {self.usage.input_tokens} in, {self.usage.output_tokens} out"

    def described(self) -> Description:
        """Return what it is of, the tokens and the cost."""
        return f"Usage of {self.kind}: {usage_in_words(self.usage)}", self.raw_metadata


class UsageEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="usage"):
    """Usage that belongs to no message."""

    type: ClassVar[str] = "usage"
    kind: ClassVar[int] = 17
    usage: UsageRecord
