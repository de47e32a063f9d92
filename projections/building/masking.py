"""The strategy that clears the results of old tool calls, in steps, and shortens the last ones if they do not fit.

A provider's prompt cache is valid while each request begins with the previous one. So nothing is cleared below the
limit; when the limit is exceeded, all results but the last few are cleared at once, and the beginning then stays
unchanged until the limit is exceeded again. The steps are not stored: they are found by walking the messages from the
first one on, in the order in which they were sent. A walk goes on where that of an earlier context ended.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from operator import is_not

from msgspec import Struct
from msgspec.structs import replace

from ...events.content import ToolResult, ToolResultPart, ToolUsePart, text
from ...events.errors import ContextOverflow
from ...events.providers.common import images_of
from ..context import ContextMessage
from ..tokens import Tokenizer, counts_whole_messages, message_tokens
from .pairing import PairedMessages, begins_unit, has_results, starts_from, tool_names, with_results
from .strategy import ContextSource, StrategyResult
from .transcript import fit

KEEP_LAST = 3
"""The number of results that are kept when the others are cleared."""

MIN_GAIN_SHARE = 0.1
"""The smallest share of the limit that clearing must free to be worth a broken prompt cache."""

MASK = "[Old result of {name} cleared: {chars} characters]"
"""The replacement for a cleared result."""


class MaskedTools:
    """Clear the results of old tool calls, in steps.

    If a turn with one of the last results does not fit alone, these are shortened: no summary can help there, and a
    model that is shown nothing of a result only calls the tool again.

    Args:
        keep_last: The number of results to keep; more, to keep a batch of parallel calls whole.
        protected: The names of tools whose results are never cleared.
        min_gain: The smallest share of the budget that a step must free.
        trigger: The share of the budget at which a step is taken.
    """

    name = "masked-tools"
    priority = 2
    min_tokens = 0
    needs_path = False
    keeps_pairs = True

    def __init__(
        self,
        keep_last: int = KEEP_LAST,
        *,
        protected: Collection[str] = (),
        min_gain: float = MIN_GAIN_SHARE,
        trigger: float = 1.0,
    ) -> None:
        self.keep_last = keep_last
        self.protected = frozenset(protected)
        self.min_gain = min_gain
        self.trigger = trigger

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return all messages, old results cleared; see `ContextStrategy.build`.

        Raises:
            ContextOverflow: The messages without results alone do not fit.
        """
        messages, sizes = source.messages, source.sizes(tokenizer)
        limit = int(budget_tokens * self.trigger)
        adds_up = not counts_whole_messages(tokenizer)
        kept = source.counted_by(tokenizer)
        walk = self._kept_walk(kept, limit) or MaskingWalk(self, limit, tokenizer)
        if adds_up and not walk.masked and _bare_tokens(messages, sizes, kept) > budget_tokens:
            raise _too_large_error(budget_tokens)
        if kept is not None:  # what comes after a message decides whether a request ended with it
            walk.go_on(messages, sizes, min(kept.turn, len(messages) - 1))
            kept.derived[self._key] = walk
            walk = walk.copy()
        walk.go_on(messages, sizes, len(messages))
        if adds_up and walk.bare > budget_tokens:
            raise _too_large_error(budget_tokens)
        through = walk.through
        shown = (*walk.masked[:through], *messages[through:])
        tokens = walk.total - walk.freed[through] if adds_up else source.tokens(tokenizer, shown)
        if tokens > budget_tokens and _largest_turn(messages, sizes, through) > budget_tokens:
            shown = (*walk.masked[:through], *self._shortened(messages[through:], budget_tokens, tokenizer))
            tokens = source.tokens(tokenizer, shown)
        masked = sum(map(is_not, shown, messages))
        return StrategyResult(shown, source.originals(messages), masked_count=masked, tokens=tokens)

    def _shortened(
        self, messages: Sequence[ContextMessage], budget_tokens: int, tokenizer: Tokenizer
    ) -> list[ContextMessage]:
        """Return the messages with results that together take about half of the budget at most."""
        count = sum(isinstance(part, ToolResultPart) for each in messages for part in each.content)
        share = budget_tokens // (2 * max(self.keep_last, count, 1))

        def shorten(result: ToolResult, name: str) -> ToolResult:
            tokens = tokenizer.count(result.text)
            if name in self.protected or tokens <= share:
                return result
            short, images = fit(result.text, tokens, share), images_of(result)
            return replace(result, content=(text(short), *images) if images else short)

        names = tool_names(messages)
        return [with_results(each, names, shorten) for each in messages]

    def mask(self, result: ToolResult, name: str) -> ToolResult:
        """Return a result with its content cleared, or the same one if it is protected or not longer than the mask."""
        if name in self.protected:
            return result
        mask = MASK.format(name=name or "a tool", chars=len(result.text))
        if isinstance(result.content, str) and len(result.content) <= len(mask):
            return result
        return replace(result, content=mask)

    def _kept_walk(self, kept: PairedMessages | None, limit: int) -> MaskingWalk | None:
        """Return the walk over the first messages of an earlier context, if it can go on here."""
        walk = None if kept is None else kept.derived.get(self._key)
        if kept is None or not isinstance(walk, MaskingWalk) or walk.limit != limit or len(walk.masked) > kept.turn:
            return None
        return walk

    @property
    def _key(self) -> object:
        return type(self), self.keep_last, self.protected, self.min_gain


class MaskingWalk:
    """A walk over messages in the order in which they were sent, which finds how far old results are cleared.

    Args:
        strategy: Clears results, and says when.
        limit: The size of a request at which a step is taken, in tokens.
        tokenizer: Counts the tokens of cleared messages.

    Attributes:
        limit: See above.
        masked: The messages so far, each with its results cleared.
        freed: The tokens that clearing the first so many messages frees, from none to all of them.
        bare: The tokens of the messages without results, which clearing does not make smaller.
        total: The tokens of the messages so far.
        through: The position before which results are cleared.
    """

    __slots__ = (
        *("_keep_last", "_min_gain", "_names", "_strategy", "_tokenizer", "_unit", "_units"),
        *("bare", "freed", "limit", "masked", "through", "total"),
    )

    def __init__(self, strategy: MaskedTools, limit: int, tokenizer: Tokenizer) -> None:
        self._strategy = strategy
        self._tokenizer = tokenizer
        self._keep_last = strategy.keep_last
        self._min_gain = max(int(limit * strategy.min_gain), 1)
        self._names: dict[str, str] = {}  # of tools, by call
        self._unit = 0  # where the calls and results begin that belong together
        self._units: list[int] = []  # the same for each result so far
        self.limit = limit
        self.masked: list[ContextMessage] = []
        self.freed = [0]
        self.bare = 0
        self.total = 0
        self.through = 0

    def copy(self) -> MaskingWalk:
        """Return a walk that goes on from here on its own."""
        copied = MaskingWalk(self._strategy, self.limit, self._tokenizer)
        copied._names = self._names.copy()
        copied._unit, copied._units = self._unit, self._units.copy()
        copied.masked, copied.freed = self.masked.copy(), self.freed.copy()
        copied.bare, copied.total, copied.through = self.bare, self.total, self.through
        return copied

    def go_on(self, messages: Sequence[ContextMessage], sizes: Sequence[int], end: int) -> None:
        """Walk on.

        Args:
            messages: All messages, those that were visited before included.
            sizes: The tokens of each.
            end: The position to stop at.
        """
        for place in range(len(self.masked), end):
            self._visit(messages, place, sizes[place])

    def _visit(self, messages: Sequence[ContextMessage], place: int, size: int) -> None:
        each = messages[place]
        if not place or begins_unit(messages, place):
            self._unit = place
        gain, masked, results = 0, each, 0
        for part in each.message.content:
            if isinstance(part, ToolUsePart):
                self._names[part.tool_use.id] = part.tool_use.name
            elif isinstance(part, ToolResultPart):
                results += 1
        if results:
            self._units += [self._unit] * results
            masked = with_results(each, self._names, self._strategy.mask)
            if masked is not each:
                gain = size - message_tokens(masked.message, self._tokenizer)
        else:
            self.bare += size
        self.masked.append(masked)
        self.freed.append(self.freed[-1] + gain)
        self.total += size
        if self.total - self.freed[self.through] > self.limit and _ends_request(messages, place):
            self._take_step(place)

    def _take_step(self, place: int) -> None:
        """Clear all results but the last few, if that frees enough."""
        keep = self._keep_last
        start = place + 1 if keep <= 0 else self._units[-keep] if keep <= len(self._units) else 0
        if self.freed[max(start, self.through)] - self.freed[self.through] >= self._min_gain:
            self.through = start


def _too_large_error(available: int) -> ContextOverflow:
    return ContextOverflow(f"the messages without tool results take more than {available} tokens")


def _largest_turn(messages: Sequence[ContextMessage], sizes: Sequence[int], begin: int) -> int:
    """Return the tokens of the largest turn from a position on."""
    turns = pairwise((*starts_from(messages, begin), len(messages)))
    return max(sum(sizes[start:end]) for start, end in turns)


def _ends_request(messages: Sequence[ContextMessage], place: int) -> bool:
    """Return whether a request to the model ended, or now ends, with this message."""
    if place + 1 == len(messages):
        return True
    return messages[place].role != "assistant" and messages[place + 1].role == "assistant"


def _bare_tokens(messages: Sequence[ContextMessage], sizes: Sequence[int], kept: PairedMessages | None) -> int:
    """Return the tokens of the messages without results, going on where an earlier context ended."""
    begin, tokens = 0, 0
    if kept is not None:
        known = kept.derived.get(_bare_tokens)
        if isinstance(known, _BareTokens) and known.through <= kept.turn:
            begin, tokens = known.through, known.tokens
        tokens += _without_results(messages, sizes, begin, kept.turn)
        begin = kept.turn
        kept.derived[_bare_tokens] = _BareTokens(begin, tokens)
    return tokens + _without_results(messages, sizes, begin, len(messages))


class _BareTokens(Struct, frozen=True, gc=False):
    """The tokens of those of the first so many messages that have no results."""

    through: int
    tokens: int


def _without_results(messages: Sequence[ContextMessage], sizes: Sequence[int], begin: int, end: int) -> int:
    return sum(sizes[place] for place in range(begin, end) if not has_results(messages[place].message))
