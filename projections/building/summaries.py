"""Asking for summaries: what a summarizer is given, and what is taken from it.

A summarizer is any async callable. It gets a `SummaryRequest` and returns text, or messages::

    async def summarizer(request: SummaryRequest) -> str:
        answer = await client.chat(request.messages, max_tokens=request.max_tokens)
        return answer.text

What it is given never exceeds a bound: the largest messages are shortened first, and when it raises `ContextOverflow` it
is asked again with half as much. Any other error is its caller's.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

from msgspec import Struct

from ...events.content import plain_text, text
from ...events.counts import check_count
from ...events.entries import Message, Usage
from ...events.errors import ContextOverflow, InvalidInput, SummaryRefused
from ..tokens import Tokenizer, tokenizer_of
from .transcript import bounded, transcript

MAX_TOKENS_MARGIN = 100
"""How many tokens a summarizer may go beyond its target."""

MAX_INPUT_TOKENS = 100_000
"""How much a summarizer is given at most, unless its caller says otherwise."""

MAX_ATTEMPTS = 6
"""How often a summarizer is asked, each time with half of what was too much for it."""

SUMMARY_PROMPT = """\
You write the summary that will take the place of the older part of a coding conversation, so that the assistant can go \
on with the work without having seen that part.

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
    """What a summarizer is asked.

    Attributes:
        messages: The request, ready for a model: the instructions as a system message, the conversation as a user's text.
        target_tokens: About how long the summary should be.
        max_tokens: How long the answer may be.
        conversation: The messages themselves, unbounded, for a summarizer that makes its own request of them.
    """

    messages: tuple[Message, ...]
    target_tokens: int
    max_tokens: int
    conversation: tuple[Message, ...]


Summary: TypeAlias = str | Message | Sequence[Message]
"""What a summarizer may return; of messages, their text counts, and the usage that they tell of."""

Summarizer: TypeAlias = Callable[[SummaryRequest], Awaitable[Summary]]
"""Makes a summary."""


class SummarizerOptions(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """How a summarizer is asked.

    Attributes:
        instructions: The system message.
        max_input_tokens: How many tokens of conversation it is given at most.
        attempts: How often it is asked, when what it was given was too much.
        too_much: The errors by which it says so.
        tag: Where the answer has something in a tag of this name, that is the summary; None takes all of it.
    """

    instructions: str = SUMMARY_PROMPT
    max_input_tokens: int = MAX_INPUT_TOKENS
    attempts: int = MAX_ATTEMPTS
    too_much: tuple[type[Exception], ...] = (ContextOverflow,)
    tag: str | None = "summary"


DEFAULT_SUMMARIZER_OPTIONS = SummarizerOptions()
"""How a summarizer is asked unless its caller says otherwise."""


class GeneratedSummary(Struct, frozen=True):
    """A summary that was just made.

    Attributes:
        content: The summary.
        tokens: How many tokens it takes.
        usage: What making it took, where the summarizer said so.
        attempts: How often the summarizer was asked.
    """

    content: str
    tokens: int
    usage: Usage | None
    attempts: int


def checked_summarizer(summarizer: Summarizer) -> Summarizer:
    """Return what is given as a summarizer.

    Raises:
        InvalidInput: It cannot be called.
    """
    if not callable(summarizer):
        raise InvalidInput(
            f"an object of type `{type(summarizer).__name__}` is no summarizer: give an async function, or "
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
    """Have messages summarized.

    Args:
        messages: What to summarize, oldest first.
        target_tokens: About how long the summary should be.
        summarizer: Makes it.
        tokenizer: What counts tokens; an estimate by bytes where none is given.
        options: How the summarizer is asked.

    Raises:
        SummaryRefused: The summarizer returned nothing.
        InvalidInput: The summarizer is not async, or returned neither text nor messages.
        ContextOverflow: Even the least that it was given was too much for it.
    """
    checked_summarizer(summarizer)
    check_count("target_tokens", target_tokens)
    if not isinstance(options, SummarizerOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the options are of type `{type(options).__name__}`: give `SummarizerOptions(...)`")
    tokenizer = tokenizer_of(tokenizer)
    parts = transcript(messages, calls=True)
    bound = options.max_input_tokens
    attempt = 0
    while True:
        attempt += 1
        told = bounded(parts, bound, tokenizer)
        question = f"Target length: approximately {target_tokens} tokens.\n\nCONVERSATION TO SUMMARIZE:\n\n{told}"
        asked = (Message("system", (text(options.instructions),)), Message("user", (text(question),)))
        request = SummaryRequest(asked, target_tokens, target_tokens + MAX_TOKENS_MARGIN, tuple(messages))
        try:
            answering = cast("object", summarizer(request))  # whatever it is declared to be
            if not isinstance(answering, Awaitable):
                raise InvalidInput(
                    f"the summarizer returned `{type(answering).__name__}` and nothing to wait for: write it as `async def`"
                )
            answer = await cast("Awaitable[Summary]", answering)
        except options.too_much:
            if attempt >= options.attempts:
                raise
            bound = min(bound, tokenizer.count(told)) // 2
            continue
        content, usage = _read(answer, options.tag)
        if not content:
            raise SummaryRefused("the summarizer returned no text: nothing was written, ask it again")
        return GeneratedSummary(content, tokenizer.count(content), usage, attempt)


def format_messages_for_summary(messages: Sequence[Message]) -> str:
    """Write messages down for a summarizer, each under its role, results of tools cut to 200 characters."""
    return "\n\n".join(transcript(messages))


def tagged(content: str, tag: str) -> str:
    """Return what a text has in its last tag of a name, or all of it where it has none."""
    found = re.findall(rf"<{re.escape(tag)}>(.*?)</{re.escape(tag)}>", content, re.DOTALL)
    return str(found[-1]) if found else content


def _read(answer: Summary, tag: str | None) -> tuple[str, Usage | None]:
    if isinstance(answer, str):
        told, usage = answer, None
    else:
        messages = (answer,) if isinstance(answer, Message) else answer
        if not isinstance(messages, Sequence) or not all(isinstance(each, Message) for each in messages):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(f"the summarizer returned `{type(answer).__name__}`: return text, or messages")
        told = "\n\n".join(filter(None, (plain_text(each.content) for each in messages)))
        counted = [each.usage for each in messages if each.usage is not None]
        usage = sum(counted, Usage()) if counted else None
    return (tagged(told, tag) if tag else told).strip(), usage
