"""Summaries: how a summarizer is asked for one, and how it is stored so that it is not asked twice for the same range.

A summarizer is any async callable. It gets a `SummaryRequest` and returns text, or messages::

    async def summarizer(request: SummaryRequest) -> str:
        answer = await client.chat(request.messages, max_tokens=request.max_tokens)
        return answer.text

The text in a request never exceeds a limit: the largest messages are shortened first, and when the summarizer raises
`ContextOverflow` it is called again with half as much. Any other error propagates to the caller.

A summary is derived: it can always be made again, and it is valid for exactly the messages from which its key was
computed. It is stored in the log as a custom entry of the type `treering.summary`, which is never sent to a model, can
be expressed in every dialect and is copied by every fork::

    {"key":"3f0c...","start_id":"a1","end_id":"b7","message_count":42,"content":"The user asked ...","tokens":310,
     "summarizer":"ollama/qwen3:8b","original_tokens":18211,"compression_ratio":0.017,"start_seq":1,"end_seq":57}

Its id and its time are those of the entry.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...events.arguments import check_count
from ...events.content import plain_text, text
from ...events.entries import Custom, CustomEntry, Entry, Message, Usage
from ...events.errors import ContextOverflow, InvalidInput, SummaryRefused
from ...events.json_values import raw_json
from ..context import ContextMessage
from ..tokens import Tokenizer, tokenizer_of
from .pairing import PairedMessages
from .transcript import bounded, transcript

SUMMARY_TYPE = "treering.summary"
"""The custom type of the entries that store summaries."""

_FIELDS_OF_ENTRY = frozenset({"id", "created"})

_hashed = msgspec.json.Encoder(order="deterministic").encode


class StoredSummary(Struct, frozen=True):
    """A summary of a range of messages.

    Attributes:
        key: A hash of the messages of the range; see `range_key`.
        start_id: The entry of the first message.
        end_id: The entry of the last message.
        message_count: The number of messages that it covers.
        content: The summary.
        tokens: Its tokens.
        summarizer: What made it, such as the model; see `summarizer_id`.
        original_tokens: The tokens of the messages.
        compression_ratio: `tokens` divided by `original_tokens`.
        start_seq: The seq of the first message's entry; 0 if unknown.
        end_seq: The seq of the last message's entry; 0 if unknown.
        id: The entry that stores it; "" while it is not stored.
        created: When it was stored; None while it is not stored.
    """

    key: str
    start_id: str
    end_id: str
    message_count: int
    content: str
    tokens: int
    summarizer: str
    original_tokens: int = 0
    compression_ratio: float = 0.0
    start_seq: int = 0
    end_seq: int = 0
    id: str = ""
    created: datetime | None = None

    def payload(self) -> Custom:
        """Return the payload of the entry that stores it."""
        data = {name: getattr(self, name) for name in self.__struct_fields__ if name not in _FIELDS_OF_ENTRY}
        return Custom(SUMMARY_TYPE, raw_json(data))

    def kept_by(self, entry: CustomEntry) -> StoredSummary:
        """Return the summary with the id and the time of the entry that stores it."""
        return replace(self, id=entry.id, created=entry.timestamp)


def stored_summaries(entries: Iterable[Entry | None]) -> tuple[StoredSummary, ...]:
    """Return the summaries stored in entries, ignoring all other and invalid ones."""
    summaries: list[StoredSummary] = []
    for entry in entries:
        if isinstance(entry, CustomEntry) and entry.custom.custom_type == SUMMARY_TYPE:
            with suppress(msgspec.ValidationError):
                summaries.append(msgspec.convert(entry.custom.data, StoredSummary).kept_by(entry))
    return tuple(summaries)


def range_key(messages: Sequence[ContextMessage]) -> str:
    """Return a hash of messages, so that a summary is not used for messages that were edited since."""
    return RangeKeys(messages, 0, 0).key(len(messages))


class RangeKeys:
    """The keys of ranges of messages that begin at the same one; a longer range goes on from a shorter one.

    Args:
        messages: The messages.
        start: The position at which the ranges begin.
        settled: The position after which later contexts may have other messages; no key of a longer range is kept.
    """

    __slots__ = ("_digest", "_key_by_end", "_messages", "_settled", "_start", "_through")

    def __init__(self, messages: Sequence[ContextMessage], start: int, settled: int) -> None:
        self._messages = messages
        self._start = self._through = start
        self._settled = settled
        self._digest = hashlib.sha256()
        self._key_by_end: dict[int, str] = {}

    @classmethod
    def kept_in(cls, paired: PairedMessages, start: int) -> RangeKeys:
        """Return the keys of ranges of these messages, those included that were computed for an earlier context."""
        kept = paired.derived.get((cls, start))
        keys = cls(paired.messages, start, paired.turn)
        if isinstance(kept, RangeKeys) and kept._through <= paired.turn:
            keys._digest, keys._through, keys._key_by_end = kept._digest, kept._through, kept._key_by_end
        paired.derived[(cls, start)] = keys
        return keys

    def key(self, end: int) -> str:
        """Return the key of the range that ends before a position; see `range_key`."""
        known = self._key_by_end.get(end)
        if known is not None:
            return known
        goes_on = self._through <= end
        digest = self._digest.copy() if goes_on else hashlib.sha256()
        for each in self._messages[self._through if goes_on else self._start : end]:
            digest.update(_hashed((each.entry_id, each.message.role, each.message.content)))
            digest.update(b"\n")
        key = digest.hexdigest()
        if end <= self._settled:
            self._key_by_end[end] = key
            if goes_on:
                self._digest, self._through = digest, end
        return key


def longest_summary(
    summaries: Sequence[StoredSummary],
    messages: Sequence[ContextMessage],
    start: int,
    end: int,
    keys: RangeKeys | None = None,
) -> tuple[StoredSummary, int] | None:
    """Find the summary that covers the most messages beginning at `start` and ending at or before `end`.

    Args:
        summaries: The stored summaries.
        messages: The messages of a context.
        start: The position at which the range begins.
        end: The position at which it ends at the latest.
        keys: The keys of the ranges that begin there, if some were computed before.

    Returns:
        The summary, the later of two for the same range, and the position where its range ends.
    """
    keys = keys or RangeKeys(messages, start, end)
    by_end: dict[str, list[StoredSummary]] = {}
    for each in summaries:
        if start < len(messages) and each.start_id == messages[start].entry_id:
            by_end.setdefault(each.end_id, []).append(each)
    stop = end  # where a range ends, including placeholder results for its last calls
    for place in reversed(range(start, end)):
        if not by_end:
            break
        entry_id = messages[place].entry_id
        for each in reversed(by_end.pop(entry_id, ())):
            if keys.key(stop) == each.key:
                return each, stop
        if entry_id:
            stop = place
    return None


def summarizer_id(summarizer: object) -> str:
    """Return the name under which a summarizer's summaries are stored: its `summarizer_id`, or the name of its code."""
    own_id = getattr(summarizer, "summarizer_id", None)
    if isinstance(own_id, str):
        return own_id
    code = summarizer if hasattr(summarizer, "__qualname__") else type(summarizer)
    return f"{getattr(code, '__module__', '')}.{getattr(code, '__qualname__', '')}"


MAX_TOKENS_MARGIN = 100
"""The number of tokens by which a summary may exceed its target."""

MAX_INPUT_TOKENS = 100_000
"""The default limit on the conversation text in a request."""

MAX_ATTEMPTS = 6
"""The default number of attempts, each with half of the text that was too long before."""

SUMMARY_PROMPT = """\
You write the summary that will take the place of the older part of a coding conversation, so that the assistant can \
go on with the work without having seen that part.

PRESERVE:
- The task or goal that the user asked for in the beginning
- Important technical decisions, with the reasons for them
- Which files were created, modified or deleted
- How the work stands: what is done and what is still to do
- Errors that came up, and how they were resolved
- Constraints and preferences that the user stated

DO NOT include:
- Greetings, courtesies or filler
- Whole contents of files: naming the files is enough
- Tool outputs in detail: their outcome is enough
- Anything that is said twice

Write one concise narrative in prose, without bullet points."""
"""The default instructions for a summarizer."""


class SummaryRequest(Struct, frozen=True):
    """A request to a summarizer.

    Attributes:
        messages: The request, ready for a model: the instructions as system message, the conversation as user message.
        target_tokens: The approximate length of the summary.
        max_tokens: The maximum length of the answer.
        conversation: The original messages, unshortened, for a summarizer that builds its own request.
    """

    messages: tuple[Message, ...]
    target_tokens: int
    max_tokens: int
    conversation: tuple[Message, ...]


Summary: TypeAlias = str | Message | Sequence[Message]
"""What a summarizer may return; messages contribute their text and their usage."""

Summarizer: TypeAlias = Callable[[SummaryRequest], Awaitable[Summary]]
"""An async function that makes a summary."""


class SummarizerOptions(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The options of a request to a summarizer.

    Attributes:
        instructions: The system message.
        max_input_tokens: The maximum number of tokens of conversation text.
        attempts: The maximum number of attempts if the text was too long.
        too_much: The errors that mean that the text was too long.
        tag: If the answer has a tag of this name, its content is the summary; None takes the whole answer.
    """

    instructions: str = SUMMARY_PROMPT
    max_input_tokens: int = MAX_INPUT_TOKENS
    attempts: int = MAX_ATTEMPTS
    too_much: tuple[type[Exception], ...] = (ContextOverflow,)
    tag: str | None = "summary"


DEFAULT_SUMMARIZER_OPTIONS = SummarizerOptions()
"""The default options of a request to a summarizer."""


class GeneratedSummary(Struct, frozen=True):
    """A newly made summary.

    Attributes:
        content: The summary.
        tokens: Its tokens.
        usage: The usage that making it took, if the summarizer reported it.
        attempts: The number of attempts.
    """

    content: str
    tokens: int
    usage: Usage | None
    attempts: int


def checked_summarizer(summarizer: Summarizer) -> Summarizer:
    """Return the argument as a summarizer.

    Raises:
        InvalidInput: It is not callable.
    """
    if not callable(summarizer):
        raise InvalidInput(
            f"an object of type `{type(summarizer).__name__}` is not a summarizer: pass an async function, or "
            "`summarizer_of(model)`"
        )
    return summarizer


async def generate_summary(
    messages: Sequence[Message],
    target_tokens: int,
    summarizer: Summarizer,
    *,
    tokenizer: Tokenizer | None = None,
    options: SummarizerOptions = DEFAULT_SUMMARIZER_OPTIONS,
) -> GeneratedSummary:
    """Summarize messages with a summarizer.

    Args:
        messages: The messages, oldest first.
        target_tokens: The approximate length of the summary.
        summarizer: Makes the summary.
        tokenizer: Counts the tokens; by default they are estimated from bytes.
        options: The options of the request.

    Raises:
        SummaryRefused: The summarizer returned no text, or a refusal.
        InvalidInput: The summarizer is not async, or returned neither text nor messages.
        ContextOverflow: The text was still too long in the last attempt.
    """
    checked_summarizer(summarizer)
    check_count("target_tokens", target_tokens)
    if not isinstance(options, SummarizerOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the options are of type `{type(options).__name__}`: give `SummarizerOptions(...)`")
    tokenizer = tokenizer_of(tokenizer)
    parts = transcript(messages, calls=True)
    limit = options.max_input_tokens
    attempt = 0
    while True:
        attempt += 1
        conversation = bounded(parts, limit, tokenizer)
        question = (
            f"Target length: approximately {target_tokens} tokens.\n\nCONVERSATION TO SUMMARIZE:\n\n{conversation}"
        )
        prompt = (Message("system", (text(options.instructions),)), Message("user", (text(question),)))
        request = SummaryRequest(prompt, target_tokens, target_tokens + MAX_TOKENS_MARGIN, tuple(messages))
        try:
            answer = await _call(summarizer, request)
        except options.too_much:
            if attempt >= options.attempts:
                raise
            limit = min(limit, tokenizer.count(conversation)) // 2
            continue
        content, usage = _read(answer, options.tag)
        if not content:
            raise SummaryRefused("the summarizer returned no text: nothing was written, try again")
        return GeneratedSummary(content, tokenizer.count(content), usage, attempt)


async def _call(summarizer: Summarizer, request: SummaryRequest) -> Summary:
    """Call a summarizer.

    Raises:
        InvalidInput: It is not async.
    """
    pending = cast("object", summarizer(request))  # the declared type is not checked at run time
    if not isinstance(pending, Awaitable):
        raise InvalidInput(
            f"the summarizer returned `{type(pending).__name__}`, not an awaitable: write it as `async def`"
        )
    return await cast("Awaitable[Summary]", pending)


def format_messages_for_summary(messages: Sequence[Message]) -> str:
    """Return messages as text for a summarizer, each under its role, with tool results cut to 200 characters."""
    return "\n\n".join(transcript(messages))


def tagged(content: str, tag: str) -> str:
    """Return the content of the last tag of this name in a text, or the whole text if it has none."""
    matches = re.findall(rf"<{re.escape(tag)}>(.*?)</{re.escape(tag)}>", content, re.DOTALL)
    return str(matches[-1]) if matches else content


def _read(answer: Summary, tag: str | None) -> tuple[str, Usage | None]:
    if isinstance(answer, str):
        summary, usage = answer, None
    else:
        messages = (answer,) if isinstance(answer, Message) else answer
        if not isinstance(messages, Sequence) or not all(isinstance(each, Message) for each in messages):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"the summarizer returned `{type(answer).__name__}`: return text, or messages")
        if any(each.stop_reason == "refusal" for each in messages):
            raise SummaryRefused("the summarizer refused to summarize the conversation: nothing was written")
        summary = "\n\n".join(filter(None, (plain_text(each.content) for each in messages)))
        usages = [each.usage for each in messages if each.usage is not None]
        usage = sum(usages, Usage()) if usages else None
    return (tagged(summary, tag) if tag else summary).strip(), usage
