"""Summarizers: the request that a summarizer gets, and the summary taken from its answer.

A summarizer is any async callable. It gets a `SummaryRequest` and returns text, or messages::

    async def summarizer(request: SummaryRequest) -> str:
        answer = await client.chat(request.messages, max_tokens=request.max_tokens)
        return answer.text

The text in a request never exceeds a limit: the largest messages are shortened first, and when the summarizer raises
`ContextOverflow` it is called again with half as much. Any other error propagates to the caller.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

from msgspec import Struct

from ...events.arguments import check_count
from ...events.content import plain_text, text
from ...events.entries import Message, Usage
from ...events.errors import ContextOverflow, InvalidInput, SummaryRefused
from ..tokens import Tokenizer, tokenizer_of
from .transcript import bounded, transcript

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
        SummaryRefused: The summarizer returned no text.
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
        summary = "\n\n".join(filter(None, (plain_text(each.content) for each in messages)))
        usages = [each.usage for each in messages if each.usage is not None]
        usage = sum(usages, Usage()) if usages else None
    return (tagged(summary, tag) if tag else summary).strip(), usage
