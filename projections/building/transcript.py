"""A conversation as one text, shortened if it is too long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...events.content import Content, ImagePart, TextPart, ToolResultPart, ToolUsePart
from ...events.entries import Message
from ...events.providers.common import rendered
from ..tokens import Tokenizer

RESULT_CHARS = 200
"""The maximum length of a tool's result, and of a call's arguments, in a transcript."""

LEAST_TOKENS = 40
"""The size in tokens to which messages are shortened before any are left out."""

MARK_TOKENS = 10
"""The approximate size in tokens of the line that says how many messages are left out."""

SHRINK_PARTS = 20
"""A text that came out too long gets at least 1/SHRINK_PARTS less room in the next attempt."""

_ROLES = {"compactionSummary": "SUMMARY OF WHAT CAME BEFORE", "branchSummary": "SUMMARY OF ANOTHER BRANCH"}
_SHORTENED = "\n[... {chars} characters left out ...]\n"
_LEFT_OUT = "[... {count} messages left out ...]"


def transcript(messages: Sequence[Message], *, calls: bool = False) -> list[str]:
    """Return messages as text, one string each.

    Args:
        messages: The messages, oldest first; those that are never sent to a model are left out.
        calls: Include tool calls.
    """
    names: dict[str, str] = {}
    texts: list[str] = []
    for message in messages:
        shown = message if message.role in _ROLES else rendered(message)
        if shown is None:
            continue
        pieces = _pieces(shown.content, message.tool_name, names, calls=calls)
        texts.append(f"{_ROLES.get(shown.role, shown.role.upper())}: " + "\n".join(pieces))
    return texts


def _pieces(content: Sequence[Content], tool_name: str | None, names: dict[str, str], *, calls: bool) -> Iterator[str]:
    """Yield the texts of a message's parts.

    Args:
        content: The parts.
        tool_name: The tool that the message names.
        names: The names of the tools by call id; those of its calls are added.
        calls: Include tool calls.
    """
    for part in content:
        if isinstance(part, TextPart):
            yield part.text.content
        elif isinstance(part, ImagePart):
            yield "[image]"
        elif isinstance(part, ToolResultPart):
            name = tool_name or names.get(part.tool_result.tool_use_id, "")
            yield f"[Tool {name}: {part.tool_result.text[:RESULT_CHARS]}...]"
        elif isinstance(part, ToolUsePart):
            names[part.tool_use.id] = part.tool_use.name
            if calls:
                yield f"[Call of {part.tool_use.name}: {_cut(part.tool_use.input_text)}]"


def bounded(parts: Sequence[str], max_tokens: int, tokenizer: Tokenizer) -> str:
    """Join texts so that they take at most `max_tokens`, shortening the largest ones first; see `fit`.

    If that is not enough, texts in the middle are left out, keeping the first one and the last ones.
    """
    allowed = max_tokens
    while True:
        joined = "\n\n".join(_shortened(parts, allowed, tokenizer))
        count = tokenizer.count(joined)
        if count <= max_tokens or allowed <= 0:
            return joined
        # Marks and separators take tokens too, and an exact tokenizer is not linear in the length.
        allowed -= max(count - max_tokens, allowed // SHRINK_PARTS)


def _shortened(parts: Sequence[str], max_tokens: int, tokenizer: Tokenizer) -> list[str]:
    sizes = [tokenizer.count(part) + 1 for part in parts]
    if sum(sizes) <= max_tokens:
        return list(parts)
    cap = _cap(sizes, max_tokens)
    if cap >= LEAST_TOKENS:
        return [fit(part, size, cap) for part, size in zip(parts, sizes, strict=True)]
    short = [(fit(part, size, LEAST_TOKENS), min(size, LEAST_TOKENS)) for part, size in zip(parts, sizes, strict=True)]
    remaining = max_tokens - short[0][1] - MARK_TOKENS
    first = len(short)
    while short[first - 1][1] <= remaining:  # it ends before the first one, since not all fit
        first -= 1
        remaining -= short[first][1]
    omitted = [_LEFT_OUT.format(count=first - 1)] if first > 1 else []
    return [short[0][0], *omitted, *(part for part, _ in short[first:])]


def _cap(sizes: Sequence[int], total: int) -> int:
    """Return the size to which all larger ones must be reduced so that the sum, which is larger, becomes the total."""
    smaller, rest = iter(sorted(sizes)), total
    for left in range(len(sizes), 1, -1):
        size = next(smaller)
        if size > rest // left:
            return rest // left
        rest -= size
    return rest


def fit(part: str, size: int, cap: int) -> str:
    """Return a text of a size in tokens, shortened to the cap: two thirds from its head, and one from its tail."""
    mark = _SHORTENED.format(chars=len(part))
    keep = max(0, len(part) * cap // size - len(mark))
    if keep + len(mark) >= len(part):
        return part
    tail = keep // 3
    mark = _SHORTENED.format(chars=len(part) - keep)
    return part[: keep - tail] + mark + (part[-tail:] if tail else "")


def _cut(value: str) -> str:
    return value if len(value) <= RESULT_CHARS else value[:RESULT_CHARS] + "..."
