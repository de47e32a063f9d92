"""The entries that change what contexts show: compactions, branch summaries, edits, and messages of extensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import msgspec

from ..content import Content, NonEmpty, searched_texts, shown_text, text
from ..json_values import JSON, MaybeRaw, json_object, json_value
from .base import Column, Count, EntryBase
from .message import Description, Message, Payload, Usage


class Compaction(Payload, frozen=True):
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

    def searched(self) -> Iterable[str]:
        """Return the summary."""
        return (self.summary,)

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the summary."""
        return self.summary


def _innermost_text(value: JSON) -> str | None:
    while isinstance(value, dict):
        value = value.get("text", value.get("content"))
    return value if isinstance(value, str) else None


class CompactionEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="compaction"):
    """A compaction."""

    type: ClassVar[str] = "compaction"
    kind: ClassVar[int] = 12
    marks: ClassVar[Column | None] = "boundaries"
    compaction: Compaction


class BranchSummary(Payload, frozen=True):
    """A summary of the branch that ended at `from_id`, for the branch that continues here."""

    summary: str
    from_id: str
    raw_details: MaybeRaw = msgspec.field(name="details", default=None)
    usage: Usage | None = None
    from_hook: bool = False

    @property
    def details(self) -> JSON:
        """Free-form data from the author of the summary, decoded afresh for this caller."""
        return None if self.raw_details is None else json_value(self.raw_details)

    def as_message(self) -> Message | None:
        """Return the summary as a message; an empty one contributes nothing."""
        return Message("branchSummary", (text(self.summary),)) if self.summary else None

    def searched(self) -> Iterable[str]:
        """Return the summary."""
        return (self.summary,)

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the summary."""
        return self.summary


class BranchSummaryEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="branch_summary"):
    """The summary of an abandoned branch."""

    type: ClassVar[str] = "branch_summary"
    kind: ClassVar[int] = 13
    branch_summary: BranchSummary


class CustomMessage(Payload, frozen=True):
    """An extension's message that the model does see; `display` and `details` are only for the user interface."""

    custom_type: NonEmpty
    content: tuple[Content, ...]
    display: bool = True
    raw_details: MaybeRaw = msgspec.field(name="details", default=None)

    @property
    def details(self) -> JSON:
        """Free-form data from the extension, decoded afresh for this caller."""
        return None if self.raw_details is None else json_value(self.raw_details)

    def as_message(self) -> Message | None:
        """Return the message."""
        return Message("custom", self.content, custom_type=self.custom_type, display=self.display)

    def searched(self) -> Iterable[str]:
        """Return its texts."""
        return searched_texts(self.content)

    def preview(self, short: Callable[[str], str]) -> str:
        """Return the extension, and what it says."""
        return f"{self.custom_type}: {' '.join(map(shown_text, self.content))}"


class CustomMessageEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="custom_message"):
    """An extension's message to the model."""

    type: ClassVar[str] = "custom_message"
    kind: ClassVar[int] = 15
    custom_message: CustomMessage


class ContextEdit(Payload, frozen=True):
    """An edit of contexts from here on the path: the entry `target_id` appears with other content, or not at all.

    `replacement` is the new content; without it the target is left out.
    """

    target_id: NonEmpty
    replacement: tuple[Content, ...] | None = None

    def searched(self) -> Iterable[str]:
        """Return the texts of the replacement."""
        return searched_texts(self.replacement or ())

    def preview(self, short: Callable[[str], str]) -> str:
        """Return which entry is shown otherwise, and how."""
        return f"{short(self.target_id)} {self._effect}"

    def described(self) -> Description:
        """Return which entry is shown otherwise, and how."""
        return f"From here on, contexts show an earlier entry {self._effect}: {self.target_id}", None

    @property
    def _effect(self) -> str:
        return "left out" if self.replacement is None else "replaced"


class ContextEditEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="context_edit"):
    """An edit of how contexts show an earlier entry."""

    type: ClassVar[str] = "context_edit"
    kind: ClassVar[int] = 18
    marks: ClassVar[Column | None] = "edits"
    context_edit: ContextEdit
