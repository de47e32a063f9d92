"""The values that the options of an agent accept."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from treering import AgentOptions, InvalidInput


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: AgentOptions(context_window=0), "`context_window` cannot be 0: give a number of 1 or more"),
        (lambda: AgentOptions(context_window="8k"), "`context_window` cannot be '8k'"),  # type: ignore[arg-type]
        (lambda: AgentOptions(reserve_for_response=-1), "`reserve_for_response` cannot be -1"),
        (lambda: AgentOptions(max_tokens=1.5), "`max_tokens` cannot be 1.5"),  # type: ignore[arg-type]
        (lambda: AgentOptions(requests_max=0), "`requests_max` cannot be 0"),
        (lambda: AgentOptions(requests_max=None), "`requests_max` cannot be None"),  # type: ignore[arg-type]
        (lambda: AgentOptions(parallel_calls_max=0), "`parallel_calls_max` cannot be 0"),
        (lambda: AgentOptions(parallel_calls_max=True), "`parallel_calls_max` cannot be True"),
        (lambda: AgentOptions(tool_timeout_s=-0.5), "`tool_timeout_s` cannot be -0.5"),
        (lambda: AgentOptions(attempts_max=0), "`attempts_max` cannot be 0"),
        (lambda: AgentOptions(backoff_s=float("nan")), "`backoff_s` cannot be nan"),
        (lambda: AgentOptions(backoff_max_s="60"), "`backoff_max_s` cannot be '60'"),  # type: ignore[arg-type]
        (lambda: AgentOptions(stream_events_max=0), "`stream_events_max` cannot be 0"),
    ],
)
def test_option_values_out_of_range_are_refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        make()


def test_the_smallest_option_values_are_accepted() -> None:
    options = AgentOptions(
        context_window=1,
        reserve_for_response=0,
        max_tokens=1,
        requests_max=1,
        parallel_calls_max=1,
        tool_timeout_s=0,
        attempts_max=1,
        backoff_s=0,
        backoff_max_s=0,
        stream_events_max=1,
    )
    assert options.delay_s(1) is None
    assert AgentOptions(tool_timeout_s=None, backoff_s=float("inf")).delay_s(1) == 60
