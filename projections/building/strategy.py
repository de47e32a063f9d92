"""The strategy protocol: one way of making a conversation smaller, what it is given, and what it returns.

A custom strategy needs three attributes and one method, and may be registered at any time::

    class LastWords:
        name = "last-words"
        priority = 2
        min_tokens = 0

        def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
            start = safe_start(source.messages, source.request)
            kept = source.messages[start:]
            return StrategyResult(kept, source.originals(kept))

A strategy that uses only the messages may set `needs_path = False`; a session then does not read its whole path for it.
One that uses the state of the work sets `needs_state = True`: `source.state` then holds it.
One that changes nothing but the content of results may set `keeps_pairs = True`; its messages are then not searched for
calls without results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from ...events.arguments import check_word
from ...events.entries import Entry
from ..context import Context, ContextMessage
from ..tokens import Tokenizer, context_tokens, message_tokens
from .pairing import PairedMessages, is_request, paired, request_at
from .state_of_work import SessionState
from .summaries import StoredSummary, range_key

Part: TypeAlias = Literal["path", "state"]
"""What a strategy may need beside the messages: the entries of the path, the state of the work on it."""

ALL_PARTS: frozenset[Part] = frozenset(("path", "state"))

_entry_id = attrgetter("entry_id")


class SourceUnread(Exception):  # it asks for something, and never reaches a caller of the library
    """A strategy that is to be tried needs what was not read yet.

    Attributes:
        parts: What it needs.
    """

    def __init__(self, parts: frozenset[Part]) -> None:
        super().__init__(f"{' and '.join(sorted(parts))} of the source: not read yet")
        self.parts = parts


class ContextSource(Struct, frozen=True, dict=True):
    """The input of the strategies; made by `ContextSource.of`.

    Attributes:
        messages: The messages that can be sent, oldest first, each call with its result.
        original_messages: The messages of the context.
        entries: The entries of the path with their edits applied, oldest first, for the state of the work; if empty,
            the messages are used.
        project_path: The directory of the project.
        summaries: The stored summaries.
        counted: The messages with their sizes, if the library has counted them before.
        state: The state of the work on the path, if the library has derived it.
        unread: What a strategy may need beside the messages and was not read yet.
    """

    messages: tuple[ContextMessage, ...]
    original_messages: tuple[ContextMessage, ...]
    entries: tuple[Entry, ...] = ()
    project_path: str = ""
    summaries: tuple[StoredSummary, ...] = ()
    counted: PairedMessages | None = None
    state: SessionState | None = None
    unread: frozenset[Part] = frozenset()

    @classmethod
    def of(
        cls,
        context: Context,
        entries: Iterable[Entry] = (),
        *,
        project_path: str = "",
        summaries: Sequence[StoredSummary] = (),
        request: ContextMessage | None = None,
        counted: PairedMessages | None = None,
        unread: frozenset[Part] = frozenset(),
    ) -> ContextSource:
        """Make a source from a context.

        Args:
            context: The context of the leaf.
            entries: The entries of its path, oldest first.
            project_path: The directory of the project.
            summaries: The stored summaries.
            request: The last user message of the path, in case a compaction kept none: it is inserted after the
                compaction's summary, so that the model sees the request.
            counted: The messages of the context, if they were paired and counted before.
            unread: What a strategy may need beside the messages and is not given.
        """
        messages = paired(context.messages) if counted is None else counted.messages
        if request is not None and not any(is_request(each.message) for each in messages):
            place = _opening(messages, ("system", "compactionSummary"))
            messages = (*messages[:place], request, *messages[place:])
        return cls(messages, context.messages, tuple(entries), project_path, tuple(summaries), counted, unread=unread)

    @property
    def original_count(self) -> int:
        """The number of messages in the original context."""
        return len(self.original_messages)

    @cached_property
    def entry_ids(self) -> frozenset[str]:
        """The entries of those messages."""
        return frozenset(map(_entry_id, self.original_messages))

    @property
    def opening(self) -> int:
        """The number of system messages at the beginning; they are always sent."""
        return _opening(self.messages, ("system",))

    @property
    def request(self) -> int:
        """The position of the last request, see `request_at`; -1 if there is none."""
        return request_at(self.messages)

    def tokens(self, tokenizer: Tokenizer, messages: Sequence[ContextMessage] | None = None) -> int:
        """Return the number of tokens of the messages, or of those that a strategy made of them.

        Messages that were counted before are not counted again, unless the tokenizer counts messages together.

        Args:
            tokenizer: Counts the tokens.
            messages: What a strategy made of the messages; by default the messages themselves.
        """
        counted = self.counted_by(tokenizer)
        messages = self.messages if messages is None else messages
        if counted is not None and counted.messages is messages:
            return counted.tokens
        if counted is None or not counted.sizes:
            return context_tokens(messages, tokenizer)
        size_by_id = dict(zip(map(id, counted.messages), counted.sizes, strict=True))
        known_sizes = [size_by_id.get(id(each), 0) for each in messages]
        others = [each for each in messages if id(each) not in size_by_id]
        return sum(known_sizes) + context_tokens(others, tokenizer)

    def sizes(self, tokenizer: Tokenizer) -> Sequence[int]:
        """Return the number of tokens of each message."""
        counted = self.counted_by(tokenizer)
        if counted is not None and counted.sizes:
            return counted.sizes
        return [message_tokens(each.message, tokenizer) for each in self.messages]

    def counted_by(self, tokenizer: Tokenizer) -> PairedMessages | None:
        """Return what is known of the messages from earlier contexts, if this tokenizer counted them."""
        counted = self.counted
        is_valid = counted is not None and counted.messages is self.messages and counted.tokenizer is tokenizer
        return counted if is_valid else None

    def originals(self, messages: Iterable[ContextMessage]) -> int:
        """Count the messages that come from the original context."""
        if self.counted is not None and messages is self.counted.messages:
            return self.counted.from_entries
        return sum(map(self.entry_ids.__contains__, map(_entry_id, messages)))


def _opening(messages: Sequence[ContextMessage], roles: tuple[str, ...]) -> int:
    return next((place for place, each in enumerate(messages) if each.role not in roles), len(messages))


class StrategyResult(Struct, frozen=True):
    """A conversation as a strategy made it smaller.

    Attributes:
        messages: The messages to send, oldest first.
        included_count: How many of the context's messages it contains, whole or shortened.
        summarized_count: How many are represented by a summary or by the state of the work.
        masked_count: How many of the included ones have shortened or cleared tool results.
        tokens: The tokens of the messages, if the strategy has counted them.
    """

    messages: tuple[ContextMessage, ...]
    included_count: int
    summarized_count: int = 0
    masked_count: int = 0
    tokens: int | None = None


class NeededSummary(Struct, frozen=True):
    """A summary that would help, but is not stored.

    Attributes:
        start_id: The entry of the first message that it covers.
        end_id: The entry of the last message that it covers.
        message_count: The number of messages that it covers.
        tokens: The tokens of those messages.
        budget_tokens: The maximum length of the summary.
        target_tokens: The desired length of the summary.
        messages: What to summarize: those messages, or an earlier summary and the messages after it.
        covered: The messages that it covers.
    """

    start_id: str
    end_id: str
    message_count: int
    tokens: int
    budget_tokens: int
    target_tokens: int
    messages: tuple[ContextMessage, ...]
    covered: tuple[ContextMessage, ...]

    @property
    def key(self) -> str:
        """The key under which to store it, see `range_key`: computed for each caller, from all that it covers."""
        return range_key(self.covered)


class ContextStrategy(Protocol):
    """One way of making a conversation smaller."""

    @property
    def name(self) -> str:
        """The name of the strategy in results."""
        ...

    @property
    def priority(self) -> int:
        """The order in which strategies are tried, lowest first."""
        ...

    @property
    def min_tokens(self) -> int:
        """The smallest budget with which the strategy is tried."""
        ...

    def build(
        self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer, /
    ) -> StrategyResult | NeededSummary:
        """Return messages that fit the budget, or the summary that would be needed for that.

        This is a pure function. If its result does not fit, or if it raises, the builder tries the next strategy. It
        must keep calls together with their results, and include the last user message.
        """
        ...


def parts_needed(strategy: ContextStrategy) -> frozenset[Part]:
    """Return what a strategy uses beside the messages.

    That is the path unless it sets `needs_path = False`, and the state of the work if it sets `needs_state = True`.
    """
    parts: set[Part] = set()
    if getattr(strategy, "needs_path", True):
        parts.add("path")
    if getattr(strategy, "needs_state", False):
        parts.add("state")
    return frozenset(parts)


def keeps_pairs(strategy: ContextStrategy) -> bool:
    """Return whether a strategy leaves all calls and results where they are, which no strategy does that is silent."""
    return bool(getattr(strategy, "keeps_pairs", False))


class StrategyRegistry:
    """Strategies in the order in which they are tried: by priority, then by name."""

    def __init__(self, strategies: Iterable[ContextStrategy] = ()) -> None:
        self._strategies: dict[str, ContextStrategy] = {}
        for strategy in strategies:
            self.register(strategy)

    def register(self, strategy: ContextStrategy) -> None:
        """Add a strategy, replacing one of the same name."""
        self._strategies[strategy.name] = strategy

    def remove(self, name: str) -> None:
        """Remove a strategy.

        Raises:
            InvalidInput: There is no strategy of this name.
        """
        check_word("strategy", name, self._strategies)
        del self._strategies[name]

    def __iter__(self) -> Iterator[ContextStrategy]:
        return iter(sorted(self._strategies.values(), key=lambda each: (each.priority, each.name)))
