"""The budget: how many tokens of a window are left for the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from treering import InvalidInput
from treering.projections.building.budget import ContextBudget, calculate_budget
from treering.projections.tokens import Tokenizer


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
    words: Tokenizer, window: int, system: str, tools: str, expected: ContextBudget
) -> None:
    assert calculate_budget(window, system, tools, words) == expected


def test_a_budget_needs_only_a_window() -> None:
    assert calculate_budget(400) == ContextBudget(400, 0, 0, 100, 300)
    assert calculate_budget(400, "word " * 20).system_prompt_tokens > 0


def test_the_reserve_can_be_given(words: Tokenizer) -> None:
    assert calculate_budget(1000, "", "", words, reserve_for_response=100).available_tokens == 900


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


def test_a_negative_reserve_is_refused() -> None:
    with pytest.raises(InvalidInput, match="reserve_for_response is -1"):
        calculate_budget(8192, reserve_for_response=-1)


def test_used_sets_the_conversation_tokens_and_the_utilization(words: Tokenizer) -> None:
    budget = calculate_budget(400, "", "", words)
    assert (budget.current_conversation_tokens, budget.utilization_percent) == (0, 0.0)
    assert budget.used(150).current_conversation_tokens == 150
    assert budget.used(150).utilization_percent == 50.0
    full = calculate_budget(0, "", "", words)
    assert (full.used(0).utilization_percent, full.used(1).utilization_percent) == (0.0, 100.0)
