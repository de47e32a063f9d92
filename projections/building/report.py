"""The report of a build: what became of each message of a path in the context that a model is sent.

Every message of the path that a model could have been shown has one item: it was sent as it is, masked, summarized, or
cut, and why. What an earlier compaction or reset hides is one range, since a context does not read it. The items stand
in the order in which they are sent; those that are absent stand where they would have been.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from ...events.content import Content, ToolResultPart, ToolUsePart
from ...events.entries import CompactionEntry, ContextEdit, Entry, Message, MessageEntry, Usage
from ...events.providers.common import rendered
from ...events.texts import entries_counted, one_line
from ..context import Context, ContextMessage, message_of
from ..context_edits import NO_EDIT
from ..session_state import called, first_words
from ..tokens import Tokenizer, message_tokens
from .budget import ContextBudget
from .builder import ContextBuildResult, StrategyFailure
from .pairing import has_results, is_request
from .strategies import MinimalState, RecentPlusSummary
from .strategy import ContextSource

Fate: TypeAlias = Literal["sent", "masked", "summarized", "cut"]
"""What became of a message: sent as it is, sent in other words, represented by something else, or neither."""

Part: TypeAlias = Literal["system", "summary", "messages", "results"]
"""What a message is in a request."""

_STANDS_FOR = {RecentPlusSummary.name: "a stored summary", MinimalState.name: "the state of the work"}


class ContextItem(Struct, frozen=True):
    """What became of one message.

    Attributes:
        entry_id: Its entry; "" for a message that was made for the request.
        seq: The seq of the entry; 0 for a message that was made.
        role: The role of the message.
        part: What it is in the request.
        fate: What became of it.
        reason: Why, in words; "" if it was sent as it is.
        tokens: The tokens that it takes in the request; 0 if it is absent.
        original_tokens: The tokens of the message as it stands in the log; 0 for a message that was made.
        text: Its beginning on one line: of what was sent, or of the entry if it is absent.
        content: What was sent, where the entry does not say so itself.
    """

    entry_id: str
    seq: int
    role: str
    part: Part
    fate: Fate
    reason: str
    tokens: int
    original_tokens: int
    text: str
    content: tuple[Content, ...] | None = None


class HiddenRange(Struct, frozen=True):
    """The beginning of a path, which a compaction or a reset hides from the context.

    Attributes:
        by: The entry that hides it.
        last_id: The last hidden entry, which ends the hidden part of the path.
        count: How many entries that could have been shown are hidden.
        fate: "summarized" if the compaction has a summary, otherwise "cut".
        reason: Why, in words.
        tokens: The tokens of the context before the compaction, as its writer counted them; 0 if unknown.
    """

    by: str
    last_id: str
    count: int
    fate: Fate
    reason: str
    tokens: int = 0


class PartTokens(Struct, frozen=True):
    """The tokens of each part of a request, which add up to the window if that is known.

    Attributes:
        system: The system prompt, and the system messages of the session.
        tools: The definitions of the tools.
        summary: Summaries, and the state of the work.
        messages: Messages of users and assistants, with their calls.
        results: Results of tools.
        framing: What a tokenizer that counts messages together adds to, or saves of, the sum of the messages.
        reserve: The tokens that are kept free for the answer.
        free: What is left of the window, 0 or more; None if the window is unknown.
        excess: What the request and the reserve exceed the window by; 0 unless the window is too small.
    """

    system: int
    tools: int
    summary: int
    messages: int
    results: int
    framing: int
    reserve: int
    free: int | None
    excess: int = 0


class ContextReport(Struct, frozen=True):
    """What a model saw at an entry, or would be sent there; see `Session.context_report`.

    Attributes:
        entry_id: The entry that the report is about; None in an empty session.
        leaf_id: The end of the path of which the context is made.
        is_answer: Whether the entry is the answer to this context.
        window: The tokens of the model's window; None if it is unknown, and nothing is left out for it.
        strategy: The strategy that made the messages.
        tokens: The tokens of the messages that are sent.
        parts: The tokens of each part.
        hidden: What a compaction or a reset hides from every context; None if nothing is hidden.
        items: The messages that are sent, and in their places those that are absent.
        failures: Why the strategies that were tried before could not be used.
        warnings: Damage on the path.
        usage: What the provider counted for the answer, if the entry is one.
        previous_call: The answer before this entry on its path.
        next_call: The next answer after it on the path to the leaf, or else on the path to the newest entry below it.
    """

    entry_id: str | None
    leaf_id: str | None
    is_answer: bool
    window: int | None
    strategy: str
    tokens: int
    parts: PartTokens
    hidden: HiddenRange | None
    items: tuple[ContextItem, ...]
    failures: tuple[StrategyFailure, ...]
    warnings: tuple[str, ...]
    usage: Usage | None = None
    previous_call: str | None = None
    next_call: str | None = None


class ContextInput(Struct, frozen=True):
    """What a context was built of, and what it was built from.

    Attributes:
        context: The context.
        entries: The entries of its plan as they stand in the log, in path order.
        edits: The last edit of each entry that is edited, by seq.
        source: What the builder was given.
        seq_of: Returns the seq of an entry.
    """

    context: Context
    entries: Sequence[Entry]
    edits: Mapping[int, ContextEdit]
    source: ContextSource
    seq_of: Callable[[str], int]


def items_of(given: ContextInput, result: ContextBuildResult, tokenizer: Tokenizer) -> Iterator[ContextItem]:
    """Yield what became of each message, in the order of the request."""
    return _Account(given, result, tokenizer).items()


def parts_of(items: Iterable[ContextItem], budget: ContextBudget, tokens: int, window: int | None) -> PartTokens:
    """Return the tokens of each part of a request.

    Args:
        items: What became of each message.
        budget: The budget of the build, with the tokens of the system prompt and of the tools.
        tokens: The tokens of the messages together.
        window: The model's window; None if it is unknown.
    """
    taken: dict[Part, int] = dict.fromkeys(("system", "summary", "messages", "results"), 0)
    for item in items:
        taken[item.part] += item.tokens
    overhead = budget.system_prompt_tokens + budget.tool_definition_tokens + budget.reserve_for_response
    left = 0 if window is None else window - overhead - tokens
    return PartTokens(
        system=budget.system_prompt_tokens + taken["system"],
        tools=budget.tool_definition_tokens,
        summary=taken["summary"],
        messages=taken["messages"],
        results=taken["results"],
        framing=tokens - sum(taken.values()),
        reserve=budget.reserve_for_response,
        free=None if window is None else max(0, left),
        excess=max(0, -left),
    )


class _Original(Struct, frozen=True):
    """A message of the path as it stands in the log, and as the context shows it: None if it does not."""

    entry: Entry
    message: Message
    shown: ContextMessage | None


class _Account:
    """Finds out what became of each message of one build."""

    def __init__(self, given: ContextInput, result: ContextBuildResult, tokenizer: Tokenizer) -> None:
        self._given = given
        self._result = result
        self._tokenizer = tokenizer
        self._offered = {_key(each): each for each in given.source.messages if each.entry_id}
        self._originals = list(_originals(given))
        self._summarized_left = result.summarized_message_count

    def items(self) -> Iterator[ContextItem]:
        """Yield the items: each message that is sent, after the absent ones that stood before it."""
        places: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
        for place, original in enumerate(self._originals):
            if original.shown is not None:
                places[_key(original.shown)].append(place)
        sent = [(each, places[_key(each)].popleft() if places[_key(each)] else -1) for each in self._result.messages]
        present = {place for _, place in sent if place >= 0}
        # What was made stands for the absent messages before the next one that is sent.
        nexts = [len(self._originals)]
        for _, place in reversed(sent):
            nexts.append(place if place >= 0 else nexts[-1])
        done = 0
        for (each, place), ahead in zip(sent, reversed(nexts), strict=False):
            for absent in range(done, ahead):
                if absent not in present:
                    yield self._absent(self._originals[absent])
            done = max(done, ahead)
            yield self._sent(each, self._originals[place] if place >= 0 else None)
        for absent in range(done, len(self._originals)):
            if absent not in present:
                yield self._absent(self._originals[absent])

    def _sent(self, each: ContextMessage, original: _Original | None) -> ContextItem:
        message = each.message
        fate, reason = self._fate_of_sent(each, original)
        entry = None if original is None else original.entry
        is_own = original is not None and original.message.content == message.content
        tokens = message_tokens(message, self._tokenizer)
        return ContextItem(
            each.entry_id,
            self._given.seq_of(each.entry_id) if each.entry_id else 0,
            each.role,
            _part(each),
            fate,
            reason,
            tokens,
            self._tokens_of(original, message, tokens),
            words_of(message),
            None if is_own and not isinstance(entry, CompactionEntry) else message.content,
        )

    def _tokens_of(self, original: _Original | None, message: Message, tokens: int) -> int:
        if original is None:
            return 0
        return tokens if original.message is message else message_tokens(original.message, self._tokenizer)

    def _fate_of_sent(self, each: ContextMessage, original: _Original | None) -> tuple[Fate, str]:
        if not each.entry_id:
            if has_results(each.message):
                return "sent", "made for the request: the call has no result in the log"
            return "sent", f"made by {self._result.strategy} for what is left out"
        if original is None:
            return "sent", "the last request: a compaction hides it, and it is sent all the same"
        offered = self._offered.get(_key(each))
        if offered is not None and offered.content != each.content:
            return "masked", f"{self._result.strategy} replaced results to make room"
        if self._edit(original) is not NO_EDIT:
            return "masked", "rewritten by an edit"
        if original.shown is not None and original.shown.content != each.content:
            return "masked", "sent without calls and results that have no counterpart"
        return "sent", ""

    def _absent(self, original: _Original) -> ContextItem:
        entry = original.entry
        fate, reason = self._fate_of_absent(original)
        each = ContextMessage(entry.id or "", original.message)
        return ContextItem(
            each.entry_id,
            entry.seq,
            each.role,
            _part(each),
            fate,
            reason,
            0,
            message_tokens(original.message, self._tokenizer),
            words_of(original.message),
        )

    def _fate_of_absent(self, original: _Original) -> tuple[Fate, str]:
        shown = original.shown
        if shown is None:
            if self._edit(original) is not NO_EDIT:
                return "cut", "left out by an edit"
            return "summarized", "the compaction's own system message repeats it"
        if rendered(shown.message) is None:
            what = "the command" if shown.message.bash is not None else f"a message of the role {shown.role!r}"
            return "cut", f"{what} is never sent to a model"
        if _key(shown) not in self._offered:
            if has_results(shown.message):
                return "cut", "a result without its call"
            return "cut", "nothing is left of it: it is empty, or its calls were made before"
        if self._summarized_left > 0:
            self._summarized_left -= 1
            return "summarized", f"{_STANDS_FOR.get(self._result.strategy, 'something else')} stands for it"
        return "cut", f"left out by {self._result.strategy} to make room"

    def _edit(self, original: _Original) -> ContextEdit:
        return self._given.edits.get(original.entry.seq, NO_EDIT)


def _originals(given: ContextInput) -> Iterator[_Original]:
    """Yield the messages of the path from the first shown entry on: the context's, and those that it leaves out."""
    shown: defaultdict[str, deque[ContextMessage]] = defaultdict(deque)
    entries = {entry.id or "": entry for entry in given.entries}
    leading = [each for each in given.context.messages if isinstance(entries.get(each.entry_id), CompactionEntry)]
    for each in leading:  # a compaction begins a context, though its entry comes after those that it keeps
        yield _Original(entries[each.entry_id], each.message, each)
    for each in given.context.messages[len(leading) :]:
        shown[each.entry_id].append(each)
    for entry in given.entries:
        message = message_of(entry)
        if message is not None:
            waiting = shown[entry.id or ""]
            yield _Original(entry, message, waiting.popleft() if waiting else None)


def hidden_range(boundary_entry: Entry, last_id: str, count: int, *, cleared: bool) -> HiddenRange:
    """Return the range that a compaction or a reset hides.

    Args:
        boundary_entry: The compaction or the reset.
        last_id: The last hidden entry.
        count: How many hidden entries could have been shown.
        cleared: Whether no summary stands for them.
    """
    tokens = boundary_entry.compaction.tokens_before if isinstance(boundary_entry, CompactionEntry) else 0
    entries = entries_counted(count)
    reason = f"{entries} cut: no summary was made" if cleared else f"a compaction's summary stands for {entries}"
    return HiddenRange(boundary_entry.id or "", last_id, count, "cut" if cleared else "summarized", reason, tokens)


def _key(each: ContextMessage) -> tuple[str, str]:
    """Return what identifies a message of a context: a compaction contributes two, of different roles."""
    return each.entry_id, each.role


def _part(each: ContextMessage) -> Part:
    message = each.message
    if has_results(message) and not is_request(message):
        return "results"
    if message.role in ("compactionSummary", "branchSummary") or (message.role == "system" and not each.entry_id):
        return "summary"
    return "system" if message.role in ("system", "developer") else "messages"


def words_of(message: Message) -> str:
    """Return how a message begins, on one line: its text, or else its calls, its results, its thinking."""
    said = first_words(message.content)
    if said:
        return said
    calls = [called(part.tool_use) for part in message.content if isinstance(part, ToolUsePart)]
    results = [part.tool_result.text for part in message.content if isinstance(part, ToolResultPart)]
    shown = [f"{call.name} {call.argument}".strip() for call in calls] or [one_line(each) for each in results if each]
    return one_line(", ".join(shown) or message.preview(lambda _: ""))


def is_answer(entry: Entry) -> bool:
    """Return whether an entry is the answer of a model."""
    return isinstance(entry, MessageEntry) and entry.message.role == "assistant"
