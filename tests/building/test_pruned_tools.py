"""Shortening old results, in a way that depends on the tool."""

from __future__ import annotations

import pytest

from treering import ImagePart, Message, TextPart, ToolResultPart, image, message, text, tool_result, tool_use
from treering.projections.building.builder import ContextBuilder
from treering.projections.building.full_history import FullHistory
from treering.projections.building.pairing import pairing_fault
from treering.projections.building.pruned_tools import PrunedTools, prune_tool_result
from treering.projections.tokens import ByteEstimator

from .making import budget, context_of, source_of

LINES = [f"line {number}" for number in range(1, 31)]


@pytest.mark.feature("N-82")
@pytest.mark.parametrize("tool", ["Read", "read_file"])
def test_a_file_keeps_its_first_and_last_ten_lines(tool: str) -> None:
    assert prune_tool_result("\n".join(LINES), tool) == (
        "[File: 30 lines]\n" + "\n".join(LINES[:10]) + "\n\n... [10 lines omitted] ...\n\n" + "\n".join(LINES[-10:])
    )
    assert prune_tool_result("\n".join(LINES[:20]), tool) == "\n".join(LINES[:20])


@pytest.mark.feature("N-83")
@pytest.mark.parametrize("tool", ["Bash", "execute_bash"])
def test_the_output_of_a_command_keeps_its_beginning_and_end(tool: str) -> None:
    output = "a" * 500 + "b" * 501
    assert prune_tool_result(output, tool) == f"[Command output: 1001 chars]\n{'a' * 400}\n...\n{'b' * 400}"
    assert prune_tool_result(output[:1000], tool) == output[:1000]


@pytest.mark.feature("N-84")
@pytest.mark.parametrize("tool", ["Grep", "search"])
def test_a_search_keeps_its_first_hits(tool: str) -> None:
    hits = "\n".join(["hit" * 33] * 10)
    assert len(hits) > 800
    assert prune_tool_result(hits, tool) == f"[Search: 10 results]\n{hits[:600]}..."
    assert prune_tool_result("x" * 800, tool) == "x" * 800


@pytest.mark.feature("N-85")
@pytest.mark.parametrize("tool", ["anything", "", None])
def test_the_result_of_any_other_tool_keeps_its_beginning(tool: str | None) -> None:
    assert prune_tool_result("y" * 801, tool) == f"[Tool output: 801 chars]\n{'y' * 600}..."
    assert prune_tool_result("y" * 800, tool) == "y" * 800


def turn(number: int) -> list[Message]:
    call_id = f"c{number}"
    return [
        message("user", f"question {number}"),
        message("assistant", tool_use(call_id, "read_file", {"path": "a"})),
        message("tool", tool_result(call_id, "\n".join(LINES))),
    ]


@pytest.mark.feature("N-80", "N-81")
def test_results_before_the_last_six_messages_are_shortened() -> None:
    strategy = PrunedTools()
    assert (strategy.name, strategy.priority, strategy.min_tokens) == ("pruned-tools", 2, 2000)
    source = source_of(*(each for number in range(4) for each in turn(number)))
    result = strategy.build(source, 10_000, ByteEstimator())
    assert (result.included_count, result.summarized_count, result.masked_count) == (12, 0, 2)
    assert result.messages[-6:] == source.messages[-6:]
    part = result.messages[2].content[0]
    assert isinstance(part, ToolResultPart)
    assert part.tool_result.text == prune_tool_result("\n".join(LINES), "read_file")
    assert pairing_fault(result.messages) is None
    source = source_of(
        message("assistant", [tool_use(f"c{n}", "read_file") for n in range(8)]),
        *(message("tool", tool_result(f"c{n}", "\n".join(LINES))) for n in range(8)),
    )
    assert strategy.build(source, 10_000, ByteEstimator()).messages == source.messages


def test_images_are_omitted_and_the_error_flag_is_kept() -> None:
    shown: list[TextPart | ImagePart] = [text("seen"), image("QUJD", "image/png")]
    source = source_of(
        message("assistant", tool_use("c", "look")),
        message("tool", tool_result("c", shown, is_error=True)),
        *[message("user", "on")] * 6,
    )
    two = PrunedTools().build(
        source_of(
            message("assistant", tool_use("c", "look")),
            message("tool", tool_result("c", [*shown, shown[1]])),
            *[message("user", "on")] * 6,
        ),
        10_000,
        ByteEstimator(),
    )
    assert two.messages[1].content == (tool_result("c", "seen\n[2 images omitted]"),)
    part = PrunedTools().build(source, 10_000, ByteEstimator()).messages[1].content[0]
    assert part == tool_result("c", "seen\n[image omitted]", is_error=True)


@pytest.mark.feature("N-69", "N-79")
def test_the_full_history_is_sent_if_it_fits() -> None:
    strategy = FullHistory()
    assert (strategy.name, strategy.priority, strategy.min_tokens) == ("full-history", 1, 0)
    messages = [each for number in range(4) for each in turn(number)]
    result = strategy.build(source_of(*messages), 10_000, ByteEstimator())
    assert (result.messages, result.included_count, result.summarized_count) == (context_of(*messages).messages, 12, 0)
    built = ContextBuilder().build(context_of(*messages), budget(10_000))
    assert (built.strategy, built.messages) == ("full-history", context_of(*messages).messages)
