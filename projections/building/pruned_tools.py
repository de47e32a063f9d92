"""The strategy that shortens the results of tools, but for those of the last messages.

What is left of a result depends on the tool: the ends of a file, the ends of a command's output, the first hits of a
search, the beginning of anything else.
"""

from __future__ import annotations

from msgspec.structs import replace

from ...events.content import ImagePart, ToolResult
from ..tokens import Tokenizer
from .pairing import safe_start
from .source import ContextSource
from .strategy import StrategyResult
from .tool_results import tool_names, with_results

RECENT_MESSAGE_COUNT = 6
"""How many messages at the end stay as they are."""

FILE_END_LINES = 10
"""How many lines stay of a file at each of its ends."""

OUTPUT_MAX_CHARS = 1000
"""Up to which length a command's output stays whole."""

OUTPUT_END_CHARS = 400
"""How much stays of a longer output at each of its ends."""

RESULT_MAX_CHARS = 800
"""Up to which length the result of any other tool stays whole."""

RESULT_START_CHARS = 600
"""How much stays of the beginning of a longer result."""


class PrunedTools:
    """Shorten old results.

    Args:
        recent_count: How many messages at the end stay as they are; more, where an assistant's turn would be parted.
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
        recent = safe_start(messages, max(0, len(messages) - self.recent_count))
        names = tool_names(messages)
        old = [with_results(each, names, _pruned) for each in messages[:recent]]
        masked = sum(one is not other for one, other in zip(old, messages, strict=False))
        return StrategyResult((*old, *messages[recent:]), source.originals(messages), masked_count=masked)


def prune_tool_result(content: str, tool_name: str | None = None) -> str:
    """Shorten what a tool answered, as befits the tool."""
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
        begins, ends = content[:OUTPUT_END_CHARS], content[-OUTPUT_END_CHARS:]
        return f"[Command output: {chars} chars]\n{begins}\n...\n{ends}"
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
