"""Paired and counted messages: made from earlier ones, they equal those made from scratch, and cost less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import Context, ContextMessage, ContextSource, Message, message, text, tool_result, tool_use
from treering.projections.building.budget import ContextBudget
from treering.projections.building.builder import ContextBuilder
from treering.projections.building.masking import MaskedTools
from treering.projections.building.paired_messages import PairedMessages
from treering.projections.building.pairing import paired
from treering.projections.tokens import ByteEstimator, context_tokens, message_tokens
from treering.testing import strategies

USER = message("user", "go on")
CALL = message("assistant", tool_use("a", "read"))
RESULT = message("tool", tool_result("a", "here it is"))
ANSWER = message("assistant", "done")


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


def test_only_new_messages_are_counted() -> None:
    tokenizer = RecordingTokenizer()
    originals = shown([message("user", "one"), message("assistant", "two")])
    before = PairedMessages.of(originals, tokenizer)
    assert tokenizer.texts == ["one", "two"]
    after = PairedMessages.of((*originals, *shown([message("user", "three")], 2)), tokenizer, before)
    assert tokenizer.texts == ["one", "two", "three"]
    assert PairedMessages.of(after.originals, tokenizer, after) is after
    PairedMessages.of(after.originals, RecordingTokenizer(), after)
    assert len(tokenizer.texts) == 3


def test_a_call_that_is_answered_later_is_paired_again(context_of: Callable[..., Context]) -> None:
    tokenizer = ByteEstimator()
    before = PairedMessages.of(context_of(USER, ANSWER, USER, CALL, USER).messages, tokenizer)
    assert [each.entry_id for each in before.messages] == ["e0", "e1", "e2", "e3", "", "e4"]
    after = PairedMessages.of(context_of(USER, ANSWER, USER, CALL, USER, RESULT).messages, tokenizer, before)
    assert [each.entry_id for each in after.messages] == ["e0", "e1", "e2", "e3", "e5", "e4"]
    assert after == PairedMessages.of(after.originals, tokenizer)


@pytest.mark.parametrize("window", [200, 90, 60, 25])
@pytest.mark.parametrize("tokenizer", [RecordingTokenizer(), FramingTokenizer()])
def test_a_source_that_was_counted_before_gives_the_same_context(
    context_of: Callable[..., Context], window: int, tokenizer: RecordingTokenizer
) -> None:
    turn = [USER, CALL, message("tool", tool_result("a", "word " * 40)), message("assistant", tool_use("a", "read"))]
    context = context_of(*turn, RESULT, ANSWER, USER)
    counted = PairedMessages.of(context.messages, tokenizer)
    budget = ContextBudget(window, 0, 0, 0, window)
    builder = ContextBuilder(tokenizer, [MaskedTools(keep_last=1, min_gain=0.0)])
    result = builder.build(ContextSource.of(context, counted=counted), budget)
    assert result == builder.build(ContextSource.of(context), budget)
    assert result.tokens_used == context_tokens(result.messages, tokenizer)


def test_known_sizes_are_used_for_these_messages_and_this_tokenizer_only(context_of: Callable[..., Context]) -> None:
    tokenizer, other = RecordingTokenizer(), RecordingTokenizer()
    context = context_of(USER, ANSWER)
    counted = PairedMessages.of(context.messages, tokenizer)
    tokenizer.texts.clear()
    source = ContextSource.of(context, counted=counted)
    assert (source.tokens(tokenizer), [*source.sizes(tokenizer)]) == (4 + 2 + 4 + 1, [6, 5])
    new = ContextMessage("e2", Message("user", (text("a new one"),)))
    assert source.tokens(tokenizer, (new, *source.messages[1:])) == 4 + 3 + 5
    assert tokenizer.texts == ["a new one"]
    assert source.tokens(other) == 11
    assert other.texts == ["go on", "done"]
    request = ContextMessage("e9", message("user", "please"))
    source = ContextSource.of(
        context_of(ANSWER), request=request, counted=PairedMessages.of(shown([ANSWER]), tokenizer)
    )
    assert source.tokens(tokenizer) == context_tokens(source.messages, tokenizer) == 10
