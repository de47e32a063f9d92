"""Budgets, and how messages are counted against them."""

from collections.abc import Sequence
from typing import Any

import pytest

from treering import Context, InvalidInput, Message, Usage, image, message, text, tool_result, tool_use
from treering.contexts import ByteEstimator
from treering.entries import BashExecution
from treering.projections.building.budget import ContextBudget, UsedTokens, calculate_budget, last_measured, used_since
from treering.projections.tokens import IMAGE_TOKENS, MESSAGE_TOKENS, Tokenizer, count_messages, message_tokens

from .making import context_of, words


@pytest.mark.feature("N-59", "N-60", "N-61", "N-62", "N-64")
@pytest.mark.parametrize(
    ("window", "system", "tools", "expected"),
    [
        (8192, "", "", ContextBudget(8192, 0, 0, 2048, 6144)),
        (8192, "one two three", "four five", ContextBudget(8192, 3, 2, 2048, 6139)),
        (4095, "", "", ContextBudget(4095, 0, 0, 1023, 3072)),
        (100, "word " * 75, "", ContextBudget(100, 75, 0, 25, 0)),
        (100, "word " * 500, "word", ContextBudget(100, 500, 1, 25, 0)),
        (0, "", "", ContextBudget(0, 0, 0, 0, 0)),
    ],
)
def test_the_prompt_the_tools_and_the_reserve_are_taken_off_the_window(
    window: int, system: str, tools: str, expected: ContextBudget
) -> None:
    assert calculate_budget(window, system, tools, words) == expected


def test_a_budget_needs_only_a_window_and_its_reserve_can_be_given() -> None:
    assert calculate_budget(400) == ContextBudget(400, 0, 0, 100, 300)
    assert calculate_budget(400, "word " * 20).system_prompt_tokens > 0
    assert calculate_budget(1000, "", "", words, reserve_for_response=100).available_tokens == 900
    with pytest.raises(InvalidInput, match="reserve_for_response is -1"):
        calculate_budget(8192, reserve_for_response=-1)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((None,), "model_context_window is None: give a whole number of 0 or more"),
        ((-1,), "model_context_window is -1"),
        ((8192.0,), "model_context_window is 8192.0"),
        ((8192, None), "`system_prompt` must be a string, not `NoneType`"),
        ((8192, "", ["read_file"]), "`tool_definitions` must be a string, not `list`"),
        ((8192, "", "", 5), "`int` is not a tokenizer"),
    ],
)
def test_arguments_of_wrong_types_are_refused(arguments: tuple[Any, ...], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        calculate_budget(*arguments)


def test_used_sets_the_conversation_tokens_and_the_utilization() -> None:
    budget = calculate_budget(400, "", "", words)
    assert (budget.current_conversation_tokens, budget.utilization_percent) == (0, 0.0)
    assert budget.used(150).current_conversation_tokens == 150
    assert budget.used(150).utilization_percent == 50.0
    full = calculate_budget(0, "", "", words)
    assert (full.used(0).utilization_percent, full.used(1).utilization_percent) == (0.0, 100.0)


@pytest.mark.feature("N-76")
def test_calls_and_arguments_are_counted_and_images_have_a_fixed_size() -> None:
    frame = MESSAGE_TOKENS
    assert message_tokens(message("user", "one two"), words) == frame + 2
    assert message_tokens(message("assistant", tool_use("c", "read", {"path": "a b c"})), words) == frame + 1 + 3
    assert message_tokens(message("tool", tool_result("c", "four words are here")), words) == frame + 4
    small, large = image("QUJD", "image/png"), image("QUJD" * 100_000, "image/png")
    assert message_tokens(message("user", small), words) == message_tokens(message("user", large), words)
    assert message_tokens(message("user", [small, large])) == frame + 2 * IMAGE_TOKENS
    assert message_tokens(message("tool", tool_result("c", [text("one"), small])), words) == frame + 1 + IMAGE_TOKENS


def test_messages_are_counted_in_the_form_that_providers_get() -> None:
    summary = Message("compactionSummary", (text("so far"),))
    assert message_tokens(summary, words) > MESSAGE_TOKENS + 2
    hidden = Message("bashExecution", bash=BashExecution("ls", "a b c", exclude_from_context=True))
    assert message_tokens(hidden, words) == 0
    assert count_messages([], words) == 0


@pytest.mark.feature("N-75")
def test_the_tokenizer_can_be_replaced_and_the_default_is_documented_as_an_estimate() -> None:
    class Framing:
        def count(self, text: str) -> int:
            return 1

        def count_messages(self, messages: Sequence[Message]) -> int:
            return 3 + 10 * len(messages)

    class Text:
        def count(self, text: str) -> int:
            return 7

    messages = [message("user", "a"), message("assistant", "b")]
    assert count_messages(messages, Framing()) == 23
    assert count_messages(messages, Text()) == 2 * (MESSAGE_TOKENS + 7)
    assert count_messages(messages) == count_messages(messages, ByteEstimator()) == 2 * (MESSAGE_TOKENS + 1)
    assert "estimate" in (ByteEstimator.__doc__ or "").lower()


def answer(tokens: int, stop_reason: str = "stop") -> Message:
    return message("assistant", "ok", usage=Usage(input_tokens=tokens), stop_reason=stop_reason)


def used(context: Context, tokenizer: Tokenizer) -> UsedTokens:
    return used_since(context.messages, last_measured(context.messages), tokenizer)


def test_the_provider_s_latest_count_is_used_and_later_messages_are_estimated() -> None:
    question = message("user", "one two three")
    counted = context_of(question, answer(500), question, answer(900), question)
    assert used(counted, words) == UsedTokens(900, MESSAGE_TOKENS + 3)
    assert used(context_of(question, answer(500), question, answer(900, "aborted")), words).measured == 500
    uncounted = Message("assistant", (text("ok"),), usage=Usage(-1), stop_reason="stop")
    assert used(context_of(question, answer(500), question, uncounted), words).measured == 500
    assert last_measured(context_of(question, uncounted).messages) == -1
    assert UsedTokens(900, 7).total == 907


@pytest.mark.parametrize(("total", "counted"), [(0, 4321), (321, 321)])
def test_the_parts_of_a_usage_are_added_if_it_has_no_total(total: int, counted: int) -> None:
    answered = message("assistant", "ok", usage=Usage(1, 20, 300, 4000, total_tokens=total))
    assert used(context_of(answered), words).total == counted
