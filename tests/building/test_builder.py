"""The builder uses the first strategy that fits, then the minimal context, and raises an overflow only after that."""

from collections.abc import Sequence

import msgspec
import pytest

from treering import TreeringError, message, tool_result, tool_use
from treering.contexts import ContextMessage
from treering.events.errors import ContextOverflow
from treering.projections.building.builder import MINIMAL, ContextBuilder, compose
from treering.projections.building.strategy import ContextSource, ContextStrategy, StrategyResult
from treering.projections.tokens import ByteEstimator, Tokenizer, count_messages

from .making import budget, context_of, conversation

LEFT_OUT = "leaves out the last user message"
LONG = conversation(20, 100)


class LastMessages:
    """A strategy that sends the last `keep` messages, and counts its calls."""

    def __init__(self, name: str, priority: int = 5, keep: int = 1, min_tokens: int = 0) -> None:
        self.name = name
        self.priority = priority
        self.min_tokens = min_tokens
        self.keep = keep
        self.calls = 0

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        self.calls += 1
        kept = source.messages[len(source.messages) - self.keep :]
        return StrategyResult(kept, source.originals(kept))


class FailingStrategy(LastMessages):
    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        raise RuntimeError("no idea")


class FixedResult(LastMessages):
    """A strategy that returns any given messages and counts."""

    def __init__(self, messages: Sequence[ContextMessage], included: int, summarized: int) -> None:
        super().__init__("fixed", 1)
        self.result = StrategyResult(tuple(messages), included, summarized)

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        return self.result


ASKED = [*LONG, message("user", "and now?")]


@pytest.mark.feature("N-63", "N-65", "N-66", "N-68")
def test_a_result_has_its_strategy_its_tokens_and_counts_that_add_up() -> None:
    orphan = message("tool", tool_result("no call", "x"))
    messages = [orphan, *ASKED]
    result = ContextBuilder(strategies=[LastMessages("few", keep=3)]).build(context_of(*messages), budget(500))
    assert (result.strategy, result.token_budget) == ("few", 500)
    assert result.tokens_used == count_messages(result.to_messages(), ByteEstimator()) <= 500
    assert (result.original_message_count, result.included_message_count, result.summarized_message_count) == (22, 3, 0)
    assert result.dropped_message_count == 19
    assert [each.entry_id for each in result.messages] == ["e19", "e20", "e21"]
    for available in (90, 200, 500, 3000, 10**6):
        built = ContextBuilder().build(context_of(*messages), budget(available))
        parts = (built.included_message_count, built.summarized_message_count, built.dropped_message_count)
        assert min(parts) >= 0
        assert sum(parts) == built.original_message_count == 22
        assert built.tokens_used == count_messages(built.to_messages(), ByteEstimator()) <= available
    quarter = ContextBuilder().build(context_of(message("user", "x" * 384)), budget(400)).budget
    assert (quarter.current_conversation_tokens, quarter.utilization_percent) == (100, 25.0)


@pytest.mark.feature("N-67", "N-71")
def test_the_fitting_strategy_with_the_lowest_priority_number_is_used() -> None:
    context = context_of(*ASKED)
    for turn in range(3):
        fakes = [LastMessages("large", 1, keep=20), LastMessages("fitting", 2, keep=3), LastMessages("never", 3)]
        builder = ContextBuilder(strategies=[])
        for fake in fakes[turn:] + fakes[:turn]:
            builder.register_strategy(fake)
        assert [each.name for each in builder.strategies] == ["large", "fitting", "never"]
        result = builder.build(context, budget(500))
        assert result.strategy == "fitting"
        assert [fake.calls for fake in fakes] == [1, 1, 0]
        assert [each.strategy for each in result.failures] == ["large"]
        assert "500 are available" in result.failures[0].reason


@pytest.mark.feature("N-70")
def test_a_strategy_is_not_tried_below_its_min_tokens() -> None:
    demanding = LastMessages("demanding", 1, min_tokens=501)
    builder = ContextBuilder(strategies=[demanding, LastMessages("other", 2)])
    assert builder.build(context_of(*ASKED), budget(500)).strategy == "other"
    assert demanding.calls == 0
    assert builder.build(context_of(*ASKED), budget(501)).strategy == "demanding"


@pytest.mark.feature("N-9", "N-73", "N-74")
def test_a_custom_strategy_can_be_registered_and_removed() -> None:
    builder = ContextBuilder()
    context = context_of(*ASKED)
    assert builder.build(context, budget(500)).strategy != "mine"
    mine: ContextStrategy = LastMessages("mine", 0)
    builder.register_strategy(mine)
    result = builder.build(context, budget(500))
    assert (result.strategy, result.included_message_count, result.summarized_message_count) == ("mine", 1, 0)
    assert result.messages == context.messages[-1:]
    builder.remove_strategy("mine")
    assert builder.build(context, budget(500)).strategy != "mine"


@pytest.mark.feature("N-11", "N-72")
def test_if_every_strategy_fails_the_failures_are_listed_and_the_minimal_context_is_built() -> None:
    builder = ContextBuilder(strategies=[FailingStrategy("raising"), LastMessages("large", 6, keep=21)])
    context = context_of(*ASKED)
    result = builder.build(context, budget(500))
    assert result.strategy == MINIMAL
    assert str(result.failures[0]) == "raising: raised RuntimeError: no idea"
    assert [each.strategy for each in result.failures] == ["raising", "large"]
    assert [each.role for each in result.messages] == ["system", "user"]
    assert [each.role for each in builder.build(context, budget(10)).messages] == ["user"]
    with pytest.raises(ContextOverflow, match="larger window") as caught:
        builder.build(context, budget(3))
    assert isinstance(caught.value, TreeringError)
    assert (caught.value.needed, caught.value.available) == (6, 3)
    assert [each.partition(":")[0] for each in caught.value.failures] == ["raising", "large"]


def test_the_result_of_a_strategy_is_checked() -> None:
    asked, first = message("user", "and now?"), ContextMessage("e0", LONG[0])
    last, call = ContextMessage("e20", asked), ContextMessage("x", message("assistant", tool_use("c", "read")))
    done = context_of(*LONG, asked)
    asked_first = context_of(asked, *(message("assistant", "word " * 100) for _ in range(10)))
    for context, messages, included, summarized, reason in (
        (done, [last], 21, 0, None),
        (done, [last], 0, 21, None),
        (done, [first], 1, 0, LEFT_OUT),
        (asked_first, [asked_first.messages[1]], 1, 0, LEFT_OUT),
        (done, [ContextMessage("e20", message("assistant", "no"))], 1, 0, LEFT_OUT),
        (done, [last], 1, 21, "counts more messages than the 21 of the context"),
        (done, [last], -1, 0, "returned a negative message count"),
        (done, [last], 1, -1, "returned a negative message count"),
        (done, [last, call], 1, 0, "call 'c' has no result"),
    ):
        result = ContextBuilder(strategies=[FixedResult(messages, included, summarized)]).build(context, budget(500))
        assert result.strategy == (MINIMAL if reason else "fixed")
        assert [str(each) for each in result.failures] == ([f"fixed: {reason}"] if reason else [])
    exact = count_messages([asked])
    builder = ContextBuilder(strategies=[FixedResult([last], 1, 0)])
    assert builder.build(done, budget(exact)).strategy == "fixed"
    with pytest.raises(ContextOverflow):
        builder.build(done, budget(exact - 1))


def test_a_result_can_be_encoded_as_json() -> None:
    builder = ContextBuilder()
    shown = builder.build(context_of(*ASKED), budget(500)).to_json()
    assert shown["strategy"] == "minimal-state"
    assert shown["counts"] == {"original": 21, "included": 1, "summarized": 20, "dropped": 0, "masked": 0}
    assert isinstance(shown["messages"], list)
    assert msgspec.json.decode(msgspec.json.encode(shown)) == shown


@pytest.mark.feature("P-33")
def test_compose_puts_system_prompt_summary_history_and_input_in_order() -> None:
    history = [message("user", "Hello"), message("assistant", "Hi")]
    assert compose("You help.", history, summary="They greeted.", user="And now?") == [
        message("system", "You help."),
        message("system", "Previous conversation summary: They greeted."),
        *history,
        message("user", "And now?"),
    ]
    assert compose("", history) == history
