"""The strategy that shortens tool results, except those of the last messages.

How a result is shortened depends on the tool: it keeps both ends of a file or of a command's output, the first hits of
a search, and the beginning of anything else.
"""

from __future__ import annotations

from msgspec.structs import replace

from ...events.content import ImagePart, ToolResult
from ..tokens import Tokenizer
from .pairing import safe_start, tool_names, with_results
from .strategy import ContextSource, StrategyResult

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
    """Shorten old results.

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
    images = 0 if isinstance(result.content, str) else sum(isinstance(part, ImagePart) for part in result.content)
    content = result.text
    pruned = prune_tool_result(content, name)
    if images:
        pruned += f"\n[{images} images omitted]" if images > 1 else "\n[image omitted]"
    return result if pruned == content else replace(result, content=pruned)
