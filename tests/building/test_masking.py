"""Masking old results in steps, so that most requests begin with the bytes of the previous one."""

from __future__ import annotations

import msgspec
import pytest

from treering import Message, ToolResultPart, message, tool_result, tool_use
from treering.projections.building.builder import ContextBuilder
from treering.projections.building.masking import MaskedTools
from treering.projections.building.pairing import pairing_fault
from treering.projections.tokens import ByteEstimator, count_messages, message_tokens

from .making import budget, context_of, source_of, words

BODY = "result " * 100


def turn(number: int, tool: str = "read_file", calls: int = 1) -> list[Message]:
    ids = [f"c{number}.{each}" for each in range(calls)]
    return [
        message("user", f"question {number}"),
        message("assistant", [tool_use(each, tool, {"path": each}) for each in ids]),
        *(message("tool", tool_result(each, BODY)) for each in ids),
        message("assistant", f"answer {number}"),
    ]


def turns(count: int) -> list[Message]:
    return [each for number in range(count) for each in turn(number)]


def masked_places(messages: tuple[object, ...]) -> list[int]:
    return [
        place
        for place, each in enumerate(messages)
        for part in getattr(each, "content", ())
        if isinstance(part, ToolResultPart) and part.tool_result.text.startswith("[Old result")
    ]


def test_all_results_but_the_last_few_are_masked() -> None:
    source = source_of(*turns(10))
    result = MaskedTools(keep_last=3).build(source, 1500, ByteEstimator())
    assert count_messages([each.message for each in result.messages], ByteEstimator()) <= 1500
    assert masked_places(result.messages) == [2, 6, 10, 14, 18]
    assert result.masked_count == 5
    assert result.included_count == 40
    assert pairing_fault(result.messages) is None
    assert result.messages[2].content == (
        tool_result("c0.0", f"[Old result of read_file cleared: {len(BODY)} characters]"),
    )


@pytest.mark.timeout(15)
def test_masking_20000_results_does_not_take_quadratic_time() -> None:
    many = [message("tool", tool_result(f"c{each}", BODY)) for each in range(20_000)]
    calls = message("assistant", [tool_use(f"c{each}", "read_file") for each in range(20_000)])
    talk = [message(role, "and on") for _ in range(20_000) for role in ("assistant", "user")]
    source = source_of(message("user", "go on"), calls, *many, *talk)
    result = MaskedTools(keep_last=50_000).build(source, 1500, ByteEstimator())
    assert masked_places(result.messages) == []
    result = MaskedTools(keep_last=1).build(source, 1500, ByteEstimator())
    assert masked_places(result.messages) == []  # they are one batch of parallel calls


def test_results_of_protected_tools_and_small_results_are_not_masked() -> None:
    small = [message("assistant", tool_use("s", "ls")), message("tool", tool_result("s", "a"))]
    source = source_of(*turn(0, "skill"), *small, *turn(1), *turn(2), *turn(3))
    result = MaskedTools(keep_last=1, protected=["skill"], min_gain=0).build(source, 300, ByteEstimator())
    assert masked_places(result.messages) == [8, 12]


def test_masking_begins_beyond_the_limit_and_frees_min_gain() -> None:
    source = source_of(*turn(0), message("user", "go on"))
    sizes = [message_tokens(each.message, words) for each in source.messages]
    gain = 100 - len(f"[Old result of read_file cleared: {len(BODY)} characters]".split())
    for spare, least, places in ((0, 0, []), (-1, 0, [2]), (-1, gain, [2]), (-1, gain + 1, [])):
        limit = sum(sizes) + spare
        strategy = MaskedTools(keep_last=0, min_gain=(least + 0.01) / limit)
        assert masked_places(strategy.build(source, limit, words).messages) == places
    batch = message("assistant", [tool_use("x", "read"), tool_use("y", "read")])
    answers = [message("tool", tool_result("x", BODY)), message("tool", tool_result("y", "ok"))]
    source = source_of(*turn(0), *turn(1), message("user", "both"), batch, *answers)
    limit = sum(message_tokens(each.message, words) for each in source.messages[:-1]) - 1
    # A step is taken when a request ends, and none between the results of parallel calls.
    assert masked_places(MaskedTools(keep_last=2, min_gain=0).build(source, limit, words).messages) == [2, 6]
    same = source_of(message("assistant", tool_use("c", "read")), message("tool", tool_result("c", "1234567 " * 7)))
    assert masked_places(MaskedTools(keep_last=0, min_gain=0).build(same, 1, words).messages) == []


def test_results_are_not_masked_if_the_gain_is_below_min_gain() -> None:
    source = source_of(*turn(0), message("user", "long " * 2000), *turn(1), *turn(2), *turn(3))
    assert masked_places(MaskedTools(keep_last=1).build(source, 2400, ByteEstimator()).messages) != []
    assert masked_places(MaskedTools(keep_last=1, min_gain=0.9).build(source, 2400, ByteEstimator()).messages) == []


def test_the_results_of_parallel_calls_are_masked_together_or_not_at_all() -> None:
    source = source_of(*turn(0, calls=3), *turn(1, calls=3), message("user", "go on"))
    result = MaskedTools(keep_last=1, min_gain=0).build(source, 1000, ByteEstimator())
    assert masked_places(result.messages) == [2, 3, 4]
    everything = MaskedTools(keep_last=0, min_gain=0).build(source, 600, ByteEstimator())
    assert set(masked_places(everything.messages)) >= {2, 3, 4}


@pytest.mark.feature("U-13")
def test_between_masking_steps_each_request_begins_with_the_previous_one() -> None:
    builder = ContextBuilder(strategies=[MaskedTools(min_gain=0.2)])
    messages = turns(40)
    before: list[bytes] = []
    steps = requests = 0
    masked = 0
    for end in range(1, len(messages) + 1):
        if messages[end - 1].role == "assistant":
            continue
        result = builder.build(context_of(*messages[:end]), budget(3000))
        assert result.tokens_used <= 3000
        sent = [msgspec.json.encode(each) for each in result.messages]
        requests += 1
        whole = count_messages(messages[:end]) <= 3000
        assert result.strategy == ("full-history" if whole else "masked-tools")
        if sent[: len(before)] != before:
            steps += 1
            assert not whole
            assert result.masked_message_count > masked
        else:
            assert result.masked_message_count == masked
        before, masked = sent, result.masked_message_count
    assert requests == 80
    assert 0 < steps <= 5
