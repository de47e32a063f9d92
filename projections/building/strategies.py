"""The strategies: the conversation whole, with old tool results shortened, or after a summary; or the state alone.

- `FullHistory` sends the conversation unchanged.
- `PrunedTools` shortens the results of old tool calls: it keeps both ends of a file or of a command's output, the first
  hits of a search, and the beginning of anything else. `masking` clears them.
- `RecentPlusSummary` sends a summary of the older messages, and the last messages unchanged.
- `MinimalState` sends only the state of the work, the last user message, and the end of a turn that is not over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from ...events.content import ToolResult, ToolResultPart, text
from ...events.entries import Message
from ...events.errors import ContextOverflow
from ...events.providers.common import images_of
from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens
from .pairing import has_results, safe_start, starts_from, tool_names, with_results
from .state_of_work import SessionState, as_entries, extract_session_state, format_state_context, shortened
from .strategy import ContextSource, NeededSummary, StrategyResult
from .summaries import RangeKeys, StoredSummary, longest_summary


class FullHistory:
    """Send everything."""

    name = "full-history"
    priority = 1
    min_tokens = 0
    needs_path = False
    keeps_pairs = True

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return all messages; see `ContextStrategy.build`."""
        return StrategyResult(source.messages, source.originals(source.messages), tokens=source.tokens(tokenizer))


RECENT_MESSAGE_COUNT = 6
"""The number of messages at the end that are not changed."""

FILE_END_LINES = 10
"""The number of lines kept at each end of a file."""

OUTPUT_MAX_CHARS = 1000
"""The length up to which a command's output is kept whole."""

OUTPUT_END_CHARS = 400
"""The number of characters kept at each end of a longer output."""

RESULT_MAX_CHARS = 800
"""The length up to which the result of any other tool is kept whole."""

RESULT_START_CHARS = 600
"""The number of characters kept at the beginning of a longer result."""


class PrunedTools:
    """Shorten tool results, except those of the last messages.

    Args:
        recent_count: The number of messages at the end that are not changed; more, to keep an assistant's turn whole.
    """

    name = "pruned-tools"
    priority = 2
    min_tokens = 2000
    needs_path = False

    def __init__(self, recent_count: int = RECENT_MESSAGE_COUNT) -> None:
        self.recent_count = recent_count

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return all messages, old results shortened; see `ContextStrategy.build`."""
        messages = source.messages
        recent = safe_start(messages, len(messages) - self.recent_count)
        names = tool_names(messages)
        old = [with_results(each, names, _pruned) for each in messages[:recent]]
        masked = sum(one is not other for one, other in zip(old, messages, strict=False))
        return StrategyResult((*old, *messages[recent:]), source.originals(messages), masked_count=masked)


def prune_tool_result(content: str, tool_name: str | None = None) -> str:
    """Shorten the result of a tool by the rule for that tool."""
    chars = len(content)
    if tool_name in ("Read", "read_file"):
        lines = content.split("\n")
        omitted = len(lines) - 2 * FILE_END_LINES
        if omitted <= 0:
            return content
        mark = f"\n... [{omitted} lines omitted] ...\n"
        return "\n".join([f"[File: {len(lines)} lines]", *lines[:FILE_END_LINES], mark, *lines[-FILE_END_LINES:]])
    if tool_name in ("Bash", "execute_bash"):
        if chars <= OUTPUT_MAX_CHARS:
            return content
        head, tail = content[:OUTPUT_END_CHARS], content[-OUTPUT_END_CHARS:]
        return f"[Command output: {chars} chars]\n{head}\n...\n{tail}"
    if chars <= RESULT_MAX_CHARS:
        return content
    if tool_name in ("Grep", "search"):
        return f"[Search: {content.count(chr(10)) + 1} results]\n{content[:RESULT_START_CHARS]}..."
    return f"[Tool output: {chars} chars]\n{content[:RESULT_START_CHARS]}..."


def _pruned(result: ToolResult, name: str) -> ToolResult:
    images = len(images_of(result))
    content = result.text
    pruned = prune_tool_result(content, name)
    if images:
        pruned += f"\n[{images} images omitted]" if images > 1 else "\n[image omitted]"
    return result if pruned == content else replace(result, content=pruned)


SUMMARY_TARGET_RATIO = 0.3
"""The share of the budget that a summary should take."""

SUMMARY_BUDGET_SHARE = 0.9
"""The share of the budget left by the last messages that a summary may take."""

LEAST_SUMMARY_TOKENS = 64
"""The least room for a summary; with less, fewer of the last messages are kept."""


class RecentPlusSummary:
    """Send a summary of the older messages, and the last messages unchanged.

    It makes no summary itself. It uses the stored summary that covers the most of the older messages, and keeps it
    while everything after it fits, so that requests begin alike from turn to turn. When no stored summary fits any
    more, it says which one is needed; that one is made from the stored summary and the messages after it.

    Args:
        recent_count: The number of messages at the end that are kept unchanged; more, to keep an assistant's turn
            whole; fewer, if they would leave no room for a summary.
        target_ratio: The share of the budget that a summary should take.
    """

    name = "recent-plus-summary"
    priority = 3
    min_tokens = 1500
    needs_path = False

    def __init__(self, recent_count: int = RECENT_MESSAGE_COUNT, target_ratio: float = SUMMARY_TARGET_RATIO) -> None:
        self.recent_count = recent_count
        self.target_ratio = target_ratio

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult | NeededSummary:
        """Return a summary and the last messages, or the summary that is needed; see `ContextStrategy.build`."""
        messages, opening = source.messages, source.opening
        recent = safe_start(messages, len(messages) - self.recent_count)
        if recent <= opening:
            return StrategyResult(messages, source.originals(messages))
        recent, room = _with_room(source, recent, budget_tokens, tokenizer)
        kept = source.counted_by(tokenizer)
        keys = None if kept is None else RangeKeys.kept_in(kept, opening)
        stored = longest_summary(source.summaries, messages, opening, recent, keys)
        if stored is not None:
            result = _summarized(source, *stored)
            if stored[1] == recent or context_tokens(result.messages, tokenizer) <= budget_tokens:
                return result
        if not room:
            raise ContextOverflow("the last messages leave no room for a summary: use a larger budget")
        covered = older = messages[opening:recent]
        if stored is not None:
            summary = Message("compactionSummary", (text(stored[0].content),))
            older = (ContextMessage("", summary), *messages[stored[1] : recent])
        ids = [each.entry_id for each in covered if each.entry_id]
        tokens = sum(source.sizes(tokenizer)[opening:recent])
        target = min(room, int(budget_tokens * self.target_ratio))
        return NeededSummary(ids[0], ids[-1], len(covered), tokens, room, target, older, covered)


def summary_message(summary: str) -> Message:
    """Return the system message that holds a summary."""
    return Message("system", (text(f"## Prior Conversation Summary\n\n{summary}\n\n---\n\n## Recent Messages Follow"),))


def summary_budget(budget_tokens: int, recent_tokens: int) -> int:
    """Return how many tokens a summary may take beside the last messages; 0 if they leave no room."""
    return max(0, int((budget_tokens - recent_tokens) * SUMMARY_BUDGET_SHARE))


def _with_room(source: ContextSource, recent: int, budget_tokens: int, tokenizer: Tokenizer) -> tuple[int, int]:
    """Return where the last messages must begin to leave room for a summary, and how much room they leave."""
    messages, room = source.messages, 0
    frame = ContextMessage("", summary_message(""))
    for start in starts_from(messages, recent):
        kept = (*messages[: source.opening], *_request(source, start), *messages[start:])
        recent, room = start, summary_budget(budget_tokens, context_tokens([frame, *kept], tokenizer))
        if room >= LEAST_SUMMARY_TOKENS:
            break
    return recent, room


def _request(source: ContextSource, start: int) -> tuple[ContextMessage, ...]:
    """Return the last user message if it precedes the position, since a request must not be replaced by a summary."""
    return (source.messages[source.request],) if 0 <= source.request < start else ()


def _summarized(source: ContextSource, stored: StoredSummary, end: int) -> StrategyResult:
    messages, opening = source.messages, source.opening
    request = _request(source, end)
    kept = (*messages[:opening], *request, *messages[end:])
    summary = ContextMessage("", summary_message(stored.content))
    sent = (*messages[:opening], summary, *request, *messages[end:])
    summarized = source.originals(messages[opening:end]) - source.originals(request)
    return StrategyResult(sent, source.originals(kept), summarized)


_STEPS = ((100, 4000), (40, 1000), (15, 400), (5, 150))
"""Smaller and smaller limits on the lines of a list and the characters of task and status, tried until one fits."""


class MinimalState:
    """Send the state of the work and the last user message.

    If the conversation ends with results, the model gets the calls that they answer too, with as many of the turn's
    steps before them as fit: it would make the same calls again. What does not fit is given in less and less detail.
    """

    name = "minimal-state"
    priority = 4
    min_tokens = 400
    needs_path = False
    needs_state = True

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return the state, the last user message and the end of its turn; see `ContextStrategy.build`.

        Raises:
            ContextOverflow: Not even the shortest state fits beside the last user message.
        """
        state = source.state
        if state is None:
            entries = source.entries or as_entries(source.messages)
            state = extract_session_state(entries, project_path=source.project_path)
        begin, request, whole = source.messages[: source.opening], last_request(source), _state_message(state)
        room = budget_tokens - context_tokens((*begin, whole, request), tokenizer)
        for turn in _ends_of_turn(source, room, tokenizer):
            for shown in chain((whole,), (_state_message(_reduced(state, *step)) for step in _STEPS)):
                messages = (*begin, shown, request, *turn)
                tokens = context_tokens(messages, tokenizer) if turn or shown is not whole else budget_tokens - room
                if tokens <= budget_tokens:
                    ends = zip(reversed(turn), reversed(source.messages), strict=False)
                    return result_of(source, messages, tokens, sum(one is not other for one, other in ends))
        raise ContextOverflow(f"the state of the work and the last user message do not fit into {budget_tokens} tokens")


def _ends_of_turn(source: ContextSource, room: int, tokenizer: Tokenizer) -> Iterator[Sequence[ContextMessage]]:
    """Yield what to send of a turn that is not over: the steps that have room, then less and less, and then nothing."""
    messages = source.messages
    if messages and has_results(messages[-1].message):
        last = start = safe_start(messages, len(messages) - 1)
        sizes, names = source.sizes(tokenizer), tool_names(messages[last:])
        while start and (step := safe_start(messages, start - 1)) > source.request and sum(sizes[step:]) <= room:
            start = step
        if last > source.request:
            yield messages[start:]
            yield messages[last:]
            for change in (_pruned, _mentioned):
                yield [with_results(each, names, change) for each in messages[last:]]
    yield ()


def _state_message(state: SessionState) -> ContextMessage:
    return ContextMessage("", Message("system", (text(format_state_context(state)),)))


def _mentioned(result: ToolResult, _: str) -> ToolResult:
    return replace(result, content=shortened(result.text, _STEPS[-1][1]))


def last_request(source: ContextSource) -> ContextMessage:
    """Return the last user message without tool results; an empty one if there is none."""
    if source.request < 0:
        return ContextMessage("", Message("user", (text(""),)))
    request = source.messages[source.request]
    content = tuple(part for part in request.content if not isinstance(part, ToolResultPart))
    if len(content) == len(request.content):
        return request
    return ContextMessage(request.entry_id, replace(request.message, content=content))


def result_of(
    source: ContextSource, messages: tuple[ContextMessage, ...], tokens: int | None = None, masked: int = 0
) -> StrategyResult:
    """Return a result with these messages, in which the state represents all others; with their tokens, if counted."""
    included = source.originals(messages)
    return StrategyResult(messages, included, source.originals(source.messages) - included, masked, tokens)


def _reduced(state: SessionState, lines: int, chars: int) -> SessionState:
    return replace(
        state,
        original_task=shortened(state.original_task, chars),
        current_status=shortened(state.current_status, chars),
        modified_files=state.modified_files[-lines:],
        blockers=state.blockers[-lines:],
        key_decisions=state.key_decisions[-lines:],
    )
