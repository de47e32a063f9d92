"""The pairing of calls and results in messages that are sent: providers refuse one without the other.

Adjacent messages of an assistant are one turn. The results of its calls stand right after it, before any other message.
`paired` brings messages into that form, whatever a crash, an aborted turn, an edit or another program left behind; the
log is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, groupby

from msgspec import Struct
from msgspec.structs import replace

from ...events.content import Content, ToolResult, ToolResultPart, ToolUse, ToolUsePart, plain_text, tool_result
from ...events.entries import Message, is_asked
from ...events.providers.common import rendered
from ..context import ContextMessage
from ..tokens import Tokenizer, context_tokens, counts_whole_messages, message_sizes, tokenizer_of

NO_RESULT = "[no result: the turn ended before the tool answered]"
"""The content of the placeholder result for a call without a result."""

_CALLS_AND_RESULTS = frozenset({ToolUsePart, ToolResultPart})


def paired(messages: Sequence[ContextMessage]) -> tuple[ContextMessage, ...]:
    """Return the messages in the form that providers accept, each call with its result and each result with its call.

    Leave out results without a call, second results of a call, messages that become empty, and messages that are never
    sent to a provider. Give a call without a result a placeholder. Move results up to their calls past messages in
    between.
    """
    sendable = (each for each in messages if _is_sendable(each.message))
    result: list[ContextMessage] = []
    turn: list[ContextMessage] = []
    for from_assistant, run in groupby(sendable, _is_assistant):
        if from_assistant:
            turn = list(run)
        else:
            result += _paired_turn(turn, list(run))
            turn = []
    return (*result, *_paired_turn(turn, ()))


def pairing_fault(messages: Sequence[ContextMessage]) -> str | None:
    """Return what is wrong with the calls and results of messages that are about to be sent, or None."""
    waiting: set[str] = set()
    previous = ""
    for each in messages:
        role = each.role
        if role == "assistant" and previous != "assistant" and waiting:
            break
        for part in each.content:
            if isinstance(part, ToolUsePart):
                if role != "assistant" or part.tool_use.id in waiting:
                    return f"call {part.tool_use.id!r} is made twice, or not by an assistant"
                waiting.add(part.tool_use.id)
            elif isinstance(part, ToolResultPart):
                if role == "assistant" or part.tool_result.tool_use_id not in waiting:
                    return f"the result of call {part.tool_result.tool_use_id!r} has no call before it"
                waiting.discard(part.tool_result.tool_use_id)
        previous = role
    return f"call {min(waiting)!r} has no result" if waiting else None


class Unanswered:
    """The calls of the assistant's last turn that have no result, message by message.

    Calls of earlier turns do not count: once the assistant has answered again, providers no longer accept their
    results.
    """

    __slots__ = ("_count", "_previous", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, Message, ToolUse]] = {}
        self._previous = ""
        self._count = 0

    @property
    def calls(self) -> list[tuple[int, Message, ToolUse]]:
        """The calls, each with its message and how many messages came before that."""
        return list(self._waiting.values())

    def add(self, message: Message) -> None:
        """Take in the next message."""
        position = self._count
        self._count += 1
        if rendered(message) is None:
            return
        from_assistant = message.role == "assistant"
        if from_assistant and self._previous != "assistant":
            self._waiting = {}
        for part in message.content:
            if isinstance(part, ToolUsePart) and from_assistant:
                self._waiting.setdefault(part.tool_use.id, (position, message, part.tool_use))
            elif isinstance(part, ToolResultPart) and not from_assistant:
                self._waiting.pop(part.tool_result.tool_use_id, None)
        self._previous = message.role


def last_turn(messages: Sequence[ContextMessage]) -> int:
    """Return the position at which the assistant's last turn begins, or 0 if there is none.

    What comes before it is paired without regard to it: `paired` of both pieces is `paired` of the whole.
    """
    begins = 0
    for position in reversed(range(len(messages))):
        if _is_assistant(messages[position]):
            begins = position
        elif begins and _is_sendable(messages[position].message):
            break
    return begins


def closing(call_id: str, name: str) -> Message:
    """Return the placeholder result that closes a call which will never be answered."""
    return Message("tool", (tool_result(call_id, NO_RESULT, is_error=True),), tool_name=name or None)


def has_results(message: Message) -> bool:
    """Return whether a message has tool results."""
    return ToolResultPart in map(type, message.content)


def is_request(message: Message) -> bool:
    """Return whether a message is a user's request: a user message that only carries tool results is not one."""
    return message.role == "user" and any(not isinstance(part, ToolResultPart) for part in message.content)


def request_at(messages: Sequence[ContextMessage]) -> int:
    """Return the position of the last request that a person wrote, or else of the last request, or -1.

    Programs write messages with the role `user` too: the environment, notices, interruptions.
    """
    requests = (place for place in reversed(range(len(messages))) if is_request(messages[place].message))
    last = next(requests, None)
    if last is None:
        return -1
    return next((place for place in chain((last,), requests) if is_asked(messages[place].message)), last)


def safe_start(messages: Sequence[ContextMessage], position: int) -> int:
    """Return the last position at or before the given one at which the messages of a context can be cut.

    An assistant's turn with all of its calls and results is one unit.

    Args:
        messages: Messages of which each call has its result, such as `ContextSource.messages`.
        position: Where to cut if possible: the index of the first message to keep; below 0 it counts as 0.
    """
    if position >= len(messages):
        return position
    return next((place for place in range(position, 0, -1) if begins_unit(messages, place)), 0)


def starts_from(messages: Sequence[ContextMessage], start: int) -> list[int]:
    """Return a position at which paired messages can be cut, and all later ones."""
    return [start, *(place for place in range(start + 1, len(messages)) if begins_unit(messages, place))]


def begins_unit(messages: Sequence[ContextMessage], position: int) -> bool:
    """Return whether the messages of a context can be cut at a position other than the first."""
    if _is_assistant(messages[position]):
        return not _is_assistant(messages[position - 1])
    return not has_results(messages[position].message)


def _is_sendable(message: Message) -> bool:
    if message.role == "compactionSummary" and not plain_text(message.content):
        return False  # it represents a history that was truncated without a summary
    return rendered(message) is not None


def _is_assistant(each: ContextMessage) -> bool:
    return each.role == "assistant"


def _paired_turn(turn: Sequence[ContextMessage], after: Sequence[ContextMessage]) -> list[ContextMessage]:
    """Return an assistant's turn, paired with the messages that follow it up to the next turn."""
    calls: dict[str, str] = {}
    turn_messages = [_with_new_calls(each, calls) for each in turn]
    answers: list[ContextMessage] = []
    others: list[ContextMessage] = []
    for each in after:
        kept = _with_results_of(each, calls)
        if has_results(kept.message):
            answers.append(kept)
        elif each.role != "tool":
            others.append(kept)
    answers += [ContextMessage("", closing(call_id, name)) for call_id, name in calls.items()]
    return [each for each in (*turn_messages, *answers, *others) if each.content]


def _with_new_calls(each: ContextMessage, calls: dict[str, str]) -> ContextMessage:
    """Return an assistant's message without results and without calls that were made before.

    Args:
        each: The message.
        calls: The names of the calls so far, by id; those of the message are added.
    """
    if _is_free(each):
        return each
    parts: list[Content] = []
    for part in each.content:
        if isinstance(part, ToolUsePart):
            if part.tool_use.id in calls:
                continue
            calls[part.tool_use.id] = part.tool_use.name
        if not isinstance(part, ToolResultPart):
            parts.append(part)
    return _with_content(each, parts)


def _with_results_of(each: ContextMessage, calls: dict[str, str]) -> ContextMessage:
    """Return a message that follows a turn, without calls and without results of other calls.

    Args:
        each: The message.
        calls: The names of the open calls, by id; those that the message answers are removed.
    """
    if _is_free(each):
        return each
    parts: list[Content] = []
    for part in each.content:
        if isinstance(part, ToolResultPart):
            if calls.pop(part.tool_result.tool_use_id, None) is not None:
                parts.append(part)
        elif not isinstance(part, ToolUsePart):
            parts.append(part)
    return _with_content(each, parts)


def _is_free(each: ContextMessage) -> bool:
    """Return whether a message neither makes nor answers calls, as most do."""
    return _CALLS_AND_RESULTS.isdisjoint(map(type, each.message.content))


def _with_content(each: ContextMessage, parts: list[Content]) -> ContextMessage:
    if len(parts) == len(each.content):
        return each
    return ContextMessage(each.entry_id, replace(each.message, content=tuple(parts)))


class PairedMessages(Struct, frozen=True):
    """The paired messages of a context, with their sizes; made by `PairedMessages.of`.

    Both cost a few microseconds per message, so they are made from those of an earlier context as far as it begins
    alike. The result is the same as from scratch: what is reused depends only on the messages that were compared.

    Attributes:
        originals: The messages of the context.
        messages: The same messages as `paired` returns them.
        tokenizer: What counted the tokens.
        sizes: The tokens of each message; empty if the tokenizer only counts messages together.
        tokens: The tokens of all messages together.
        from_entries: How many of the paired messages come from an entry, and are no placeholders.
        original_turn: The position among the originals at which the assistant's last turn begins.
        turn: The position of that turn among the paired messages; what comes before it stays, whatever is appended.
        derived: What strategies have derived from the messages before that turn, under keys of their own. It is passed
            on to later contexts that begin alike, so it may cover more than that of an earlier one.
    """

    originals: tuple[ContextMessage, ...]
    messages: tuple[ContextMessage, ...]
    tokenizer: Tokenizer
    sizes: tuple[int, ...]
    tokens: int
    from_entries: int
    original_turn: int
    turn: int
    derived: dict[object, object]

    @classmethod
    def of(
        cls, originals: tuple[ContextMessage, ...], tokenizer: Tokenizer, earlier: PairedMessages | None = None
    ) -> PairedMessages:
        """Pair and count the messages of a context.

        Args:
            originals: The messages of the context.
            tokenizer: Counts the tokens.
            earlier: The paired messages of another context, probably one that begins alike.
        """
        if earlier is None or not _begins_alike(originals, earlier):
            earlier = _NOTHING
        elif originals == earlier.originals and tokenizer is earlier.tokenizer:
            return earlier
        start = earlier.original_turn
        original_turn = start + last_turn(originals[start:])
        settled = (*earlier.messages[: earlier.turn], *paired(originals[start:original_turn]))
        messages = (*settled, *paired(originals[original_turn:]))
        if counts_whole_messages(tokenizer):
            sizes: tuple[int, ...] = ()
            tokens = context_tokens(messages, tokenizer)
        else:
            known = _alike(earlier, messages) if tokenizer is earlier.tokenizer else 0
            new_sizes = message_sizes([each.message for each in messages[known:]], tokenizer)
            sizes = (*earlier.sizes[:known], *new_sizes)
            tokens = sum(sizes)
        from_entries = earlier.from_entries - _from_entries(earlier.messages[earlier.turn :])
        from_entries += _from_entries(messages[earlier.turn :])
        derived = earlier.derived if start and tokenizer is earlier.tokenizer else {}
        turn = len(settled)
        return cls(originals, messages, tokenizer, sizes, tokens, from_entries, original_turn, turn, derived)


def _begins_alike(originals: tuple[ContextMessage, ...], earlier: PairedMessages) -> bool:
    """Return whether messages begin like earlier ones, up to and including the first message of their last turn."""
    through = earlier.original_turn + 1
    return originals[:through] == earlier.originals[:through]


def _from_entries(messages: Sequence[ContextMessage]) -> int:
    return sum([each.entry_id != "" for each in messages])


def _alike(earlier: PairedMessages, messages: tuple[ContextMessage, ...]) -> int:
    """Return how many messages from the beginning on are the same; those before the earlier one's last turn are."""
    shorter = min(len(earlier.messages), len(messages))
    places = range(earlier.turn, shorter)
    return next((place for place in places if earlier.messages[place] != messages[place]), shorter)


_NOTHING = PairedMessages((), (), tokenizer_of(None), (), 0, 0, 0, 0, {})


def tool_names(messages: Sequence[ContextMessage]) -> Mapping[str, str]:
    """Return the tool names by call id; for two calls with the same id, the later one's."""
    return {
        part.tool_use.id: part.tool_use.name
        for each in messages
        for part in each.content
        if isinstance(part, ToolUsePart)
    }


def with_results(
    each: ContextMessage, names: Mapping[str, str], change: Callable[[ToolResult, str], ToolResult]
) -> ContextMessage:
    """Return a message with its results changed, or the message itself if none changed.

    Args:
        each: The message.
        names: The tool names by call id.
        change: Takes a result and its tool name, and returns a new result, or the same one to keep it.
    """
    changed = False
    parts = list(each.content)
    for place, part in enumerate(parts):
        if isinstance(part, ToolResultPart):
            result = part.tool_result
            name = each.message.tool_name or names.get(result.tool_use_id, "")
            new_result = change(result, name)
            if new_result is not result:
                parts[place] = ToolResultPart(new_result)
                changed = True
    return ContextMessage(each.entry_id, replace(each.message, content=tuple(parts))) if changed else each
