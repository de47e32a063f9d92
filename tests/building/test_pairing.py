"""Calls and their results are paired, and what was paired before is not paired again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import Message, image, message, text, tool_result, tool_use
from treering.contexts import ContextMessage, ContextSource
from treering.entries import BashExecution
from treering.events.content import ToolUse
from treering.projections.building.pairing import (
    NO_RESULT,
    PairedMessages,
    Unanswered,
    last_turn,
    paired,
    pairing_fault,
    request_at,
    safe_start,
    starts_from,
)
from treering.projections.tokens import context_tokens, message_tokens
from treering.testing import strategies

from .making import context_of

USER = message("user", "go on")
ANSWER = message("assistant", "done")


def calls(*ids: str) -> Message:
    return message("assistant", [text("let me see"), *(tool_use(each, "read") for each in ids)])


def results(*ids: str, role: str = "tool") -> Message:
    return message(role, [tool_result(each, "here") for each in ids])


def unanswered(messages: Sequence[Message]) -> list[tuple[int, ToolUse]]:
    waiting = Unanswered()
    for each in messages:
        waiting.add(each)
    return [(place, call) for place, _, call in waiting.calls]


def test_messages_that_are_paired_are_returned_as_the_same_objects() -> None:
    context = context_of(USER, calls("a", "b"), results("a"), results("b"), ANSWER, USER)
    assert all(one is other for one, other in zip(paired(context.messages), context.messages, strict=True))


@given(st.lists(strategies.messages() | st.sampled_from([USER, ANSWER, calls("a"), results("a"), calls("b", "a")])))
def test_the_last_turn_is_paired_independently_of_what_comes_before_it(drawn: list[Message]) -> None:
    messages = [ContextMessage(f"e{place}", each) for place, each in enumerate(drawn)]
    turn = last_turn(messages)
    assert paired(messages) == (*paired(messages[:turn]), *paired(messages[turn:]))
    assert unanswered(drawn) == [(turn + place, call) for place, call in unanswered(drawn[turn:])]


def test_the_last_turn_begins_with_the_first_of_adjacent_answers() -> None:
    hidden = Message("unknown", (text("x"),))
    messages = context_of(USER, ANSWER, USER, calls("a"), hidden, ANSWER, results("a"), USER).messages
    assert last_turn(messages) == 3
    assert last_turn(messages[:3]) == 1
    assert last_turn(messages[:1]) == last_turn(()) == 0


@pytest.mark.timeout(15)
def test_pairing_200000_messages_does_not_take_quadratic_time() -> None:
    context = context_of(*(each for _ in range(100_000) for each in (USER, ANSWER)))
    assert len(paired(context.messages)) == 200_000


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((USER, results("x"), ANSWER), ["e0", "e2"]),
        ((USER, calls("a"), USER), ["e0", "e1", "", "e2"]),
        ((USER, calls("a", "b"), results("b"), ANSWER), ["e0", "e1", "e2", "", "e3"]),
        ((USER, calls("a"), results("a"), results("a")), ["e0", "e1", "e2"]),
        ((USER, calls("a"), USER, results("a"), ANSWER), ["e0", "e1", "e3", "e2", "e4"]),
        ((USER, calls("a"), ANSWER, USER, results("a")), ["e0", "e1", "e2", "e4", "e3"]),
        ((USER, calls("a"), USER, ANSWER, results("a")), ["e0", "e1", "", "e2", "e3"]),
        ((USER, calls("a"), calls("a"), results("a")), ["e0", "e1", "e2", "e3"]),
        ((USER, calls("a"), results("a", role="user")), ["e0", "e1", "e2"]),
        ((USER, Message("assistant"), USER), ["e0", "e2"]),
        ((USER, message("user", tool_use("a", "read")), ANSWER), ["e0", "e2"]),
        ((USER, message("assistant", [text("x"), tool_result("a", "y")])), ["e0", "e1"]),
        ((message("tool", "no result"), USER), ["e1"]),
        ((message("compactionSummary", ""), message("compactionSummary", "x"), USER), ["e1", "e2"]),
        ((Message("bashExecution", bash=BashExecution("ls", exclude_from_context=True)), USER), ["e1"]),
        ((Message("unknown", (text("x"),)), USER), ["e1"]),
    ],
)
def test_messages_that_are_not_paired_are_repaired(messages: tuple[Message, ...], expected: list[str]) -> None:
    repaired = paired(context_of(*messages).messages)
    assert [each.entry_id for each in repaired] == expected
    assert pairing_fault(repaired) is None
    assert paired(repaired) == repaired
    closing = Message("tool", (tool_result("a", NO_RESULT, is_error=True),), tool_name="read")
    assert all(each.message == closing for each in repaired if not each.entry_id)


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ((calls("b", "a"),), "call 'a' has no result"),
        ((calls("a"), USER, ANSWER, results("a")), "call 'a' has no result"),
        ((results("a"),), "no call before it"),
        ((calls("a", "a"), results("a")), "made twice"),
        ((message("assistant", tool_result("a", "x")),), "no call before it"),
    ],
)
def test_a_pairing_fault_names_the_call(messages: tuple[Message, ...], fault: str) -> None:
    assert fault in (pairing_fault(context_of(*messages).messages) or "")


def test_a_batch_of_parallel_calls_is_one_unit() -> None:
    picture = message("user", image("", "image/png"))
    messages = paired(context_of(USER, calls("a", "b"), results("a"), results("b"), ANSWER, picture).messages)
    assert [safe_start(messages, place) for place in range(-2, 7)] == [0, 0, 0, 1, 1, 1, 4, 5, 6]
    assert [starts_from(messages, place) for place in (0, 2, 4, 5)] == [[0, 1, 4, 5], [2, 4, 5], [4, 5], [5]]
    run = paired(context_of(USER, calls("a"), calls("b"), results("a", "b"), ANSWER).messages)
    assert [safe_start(run, place) for place in range(5)] == [0, 1, 1, 1, 4]


def test_the_last_request_that_a_person_wrote_comes_before_what_programs_wrote() -> None:
    notice = message("user", "[stop]", metadata={"is_meta": True})
    for messages, place in (
        ((), -1),
        ((ANSWER, calls("a"), results("a", role="user")), -1),
        ((USER,), 0),
        ((USER, ANSWER, USER, ANSWER, notice, results("a", role="user")), 2),
        ((USER, notice), 0),
        ((ANSWER, notice, ANSWER, notice, ANSWER), 3),
    ):
        assert request_at(context_of(*messages).messages) == place


CALL = message("assistant", tool_use("a", "read"))
RESULT = message("tool", tool_result("a", "here it is"))


class RecordingTokenizer:
    """Counts words, and records the texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        self.texts.append(text)
        return len(text.split())


class FramingTokenizer(RecordingTokenizer):
    """Counts messages together."""

    def count_messages(self, messages: Sequence[Message]) -> int:
        self.texts += [each.role for each in messages]
        return 3 + 10 * len(messages)


TURNS = [USER, CALL, RESULT, ANSWER]
TOKENIZERS = [RecordingTokenizer(), RecordingTokenizer(), FramingTokenizer()]


def shown(drawn: Sequence[Message], first: int = 0) -> tuple[ContextMessage, ...]:
    return tuple(ContextMessage(f"e{place}", each) for place, each in enumerate(drawn, first))


def check_equal_to_scratch(
    originals: tuple[ContextMessage, ...], tokenizer: RecordingTokenizer, earlier: PairedMessages | None
) -> PairedMessages:
    made = PairedMessages.of(originals, tokenizer, earlier)
    assert made == PairedMessages.of(originals, tokenizer)
    assert made.messages == paired(originals)
    assert made.tokens == context_tokens(made.messages, tokenizer)
    counts_together = isinstance(tokenizer, FramingTokenizer)
    sizes = [message_tokens(each.message, tokenizer) for each in made.messages]
    assert [*made.sizes] == ([] if counts_together else sizes)
    return made


@given(st.data())
def test_messages_paired_with_earlier_ones_equal_those_paired_from_scratch(data: st.DataObject) -> None:
    drawn = st.sampled_from(TURNS) if data.draw(st.booleans()) else strategies.messages()
    originals: tuple[ContextMessage, ...] = ()
    earlier: PairedMessages | None = None
    for step in range(data.draw(st.integers(1, 6))):
        kept = data.draw(st.just(len(originals)) | st.integers(0, len(originals)))  # less after a branch or an edit
        originals = (*originals[:kept], *shown(data.draw(st.lists(drawn, max_size=6)), 100 * step))
        earlier = check_equal_to_scratch(originals, data.draw(st.sampled_from(TOKENIZERS)), earlier)


def test_any_short_conversation_equals_one_from_scratch_after_any_other() -> None:
    tokenizer = RecordingTokenizer()
    conversations = [shown(each) for length in range(5) for each in product(TURNS, repeat=length)]
    rng = Random(1)
    for before in rng.sample(conversations, 40):
        earlier = PairedMessages.of(before, tokenizer)
        for after in conversations:
            check_equal_to_scratch(after, tokenizer, earlier)


def test_known_sizes_are_used_for_these_messages_and_this_tokenizer_only() -> None:
    tokenizer, other, framing = RecordingTokenizer(), RecordingTokenizer(), FramingTokenizer()
    context = context_of(USER, ANSWER)
    source = ContextSource.of(context, counted=PairedMessages.of(context.messages, tokenizer))
    tokenizer.texts.clear()
    assert (source.tokens(tokenizer), [*source.sizes(tokenizer)]) == (4 + 2 + 4 + 1, [6, 5])
    new = ContextMessage("e2", message("user", "a new one"))
    assert source.tokens(tokenizer, (new, *source.messages[1:])) == 4 + 3 + 5
    assert tokenizer.texts == ["a new one"]
    assert (source.tokens(other), other.texts) == (11, ["go on", "done"])
    together = ContextSource.of(context, counted=PairedMessages.of(context.messages, framing))
    framing.texts.clear()
    assert (together.tokens(framing), framing.texts) == (23, [])
    counted, request = PairedMessages.of(shown([ANSWER]), tokenizer), ContextMessage("e9", message("user", "please"))
    source = ContextSource.of(context_of(ANSWER), request=request, counted=counted)
    assert source.tokens(tokenizer) == context_tokens(source.messages, tokenizer) == 10
