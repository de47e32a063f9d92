"""What every payload says to the rest of the library; messages, and the usage that providers count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ..content import Content, ContentLike, NonEmpty, ThinkingPart, as_content, plain_text, searched_texts, shown_text
from ..errors import InvalidEntry
from ..json_values import JSON, MaybeRaw, json_object, raw_object, shown
from .base import EntryBase

Description: TypeAlias = tuple[str, Raw | None]
"""A line of plain text, and the JSON data that belongs to it, if any."""


class Payload(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """The content of an entry, without its place in the tree.

    The methods tell the rest of the library what to make of it. A subclass defines no more than differs from what
    stands here: an entry that is shown by the name of its type, found by no search, and part of no context. A field
    `usage` counts towards the usage of the session, for the `provider` and the `model` beside it.
    """

    __repr__ = shown

    def as_message(self) -> Message | None:
        """Return the message that contexts show for the entry, or None if it contributes nothing."""
        return None

    def searched(self) -> Iterable[str]:
        """Return the texts by which a search finds the entry."""
        return ()

    def preview(self, short: Callable[[str], str]) -> str:
        """Return what a list of entries shows beside the type; the list cuts it to one line.

        Args:
            short: Shortens the id of another entry.
        """
        return ""

    def described(self) -> Description:
        """Return the line of the entry in documents, and the JSON data below it; "" for the name of the type."""
        return "", None


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

    def beyond(self, known: Usage) -> Usage:
        """Return the usage minus the known part, each field at least 0."""
        return Usage(
            max(self.input_tokens - known.input_tokens, 0),
            max(self.output_tokens - known.output_tokens, 0),
            max(self.cache_read_tokens - known.cache_read_tokens, 0),
            max(self.cache_write_tokens - known.cache_write_tokens, 0),
            max(self.total_tokens - known.total_tokens, 0),
            max(self.cost - known.cost, 0.0),
        )


def usage_in_words(usage: Usage) -> str:
    """Return the tokens and the cost, for people."""
    parts = [f"{usage.input_tokens:,} in", f"{usage.output_tokens:,} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens:,} cached")
    if usage.cost:
        parts.append(f"{usage.cost:.4f}")
    return " · ".join(parts)


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


class Message(Payload, frozen=True):
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

    def searched(self) -> Iterable[str]:
        """Return its texts, and those of the command that it records and of its error."""
        yield from searched_texts(self.content)
        if self.bash is not None:
            yield self.bash.command
            yield self.bash.output
        yield self.error or ""

    def preview(self, short: Callable[[str], str]) -> str:
        """Return what it says, without thinking if it says anything else; the command that it records; its error."""
        parts = [part for part in self.content if not isinstance(part, ThinkingPart)] or self.content
        spoken = " ".join(map(shown_text, parts))
        return spoken or (f"ran {self.bash.command}" if self.bash else "") or self.error or ""


class MessageEntry(EntryBase, frozen=True, gc=False, kw_only=True, tag="message"):
    """A message."""

    type: ClassVar[str] = "message"
    kind: ClassVar[int] = 7  # of a role without a number of its own; see `Kind`
    message: Message


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


def names_model(message: Message) -> bool:
    """Return whether the message states which model answers from here on the path."""
    return message.role == "assistant" and message.provider is not None and message.model is not None


def is_asked(message: Message) -> bool:
    """Return whether a message with the role `user` was written by a user and not by the program.

    Importers mark messages that the program wrote as `is_meta` in their metadata.
    """
    return message.raw_metadata is None or message.metadata.get("is_meta") is not True


def asked_text(message: Message) -> str:
    """Return the text of a message with the role `user` without what the program wrote around the user's words.

    Importers tell where these begin and end as `asked` in the metadata.
    """
    if not is_asked(message):
        return ""
    words = plain_text(message.content)
    match None if message.raw_metadata is None else message.metadata.get("asked"):
        case [int(start), int(end)]:
            return words[max(0, start) : max(0, end)]
        case _:
            return words
