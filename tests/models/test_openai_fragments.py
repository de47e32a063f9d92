"""The calls of an answer, however a server splits and numbers their fragments."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pytest

from treering import ToolCallStarted
from treering.events.content import ToolUsePart
from treering.models.openai_answer import OpenAIAnswer, decode_chunk

Fragment: TypeAlias = dict[str, Any]


def fragment(name: str | None = None, arguments: str | None = None, **which: object) -> Fragment:
    function = {"name": name, "arguments": arguments}
    return {**which, "function": {key: value for key, value in function.items() if value is not None}}


def calls(*chunks: list[Fragment]) -> list[tuple[str, Any]]:
    """Return the names and arguments of an answer's calls, and check that each was reported when it began."""
    answer = OpenAIAnswer()
    reported: list[tuple[str, str]] = []
    for fragments in chunks:
        chunk = {"choices": [{"delta": {"tool_calls": fragments}}]}
        for event in answer.take(decode_chunk(json.dumps(chunk).encode())):
            assert isinstance(event, ToolCallStarted)
            reported.append((event.call_id, event.name))
    list(answer.take(decode_chunk(b'{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}')))
    assembled = [part.tool_use for part in answer.message("p", "m").content if isinstance(part, ToolUsePart)]
    assert reported == [(each.id, each.name) for each in assembled]
    assert len({each.id for each in assembled}) == len(assembled)
    return [(each.name, each.input) for each in assembled]


TWO = [("a", {"x": 1}), ("b", {"y": 2})]


@pytest.mark.parametrize("number", [{"index": 0}, {}], ids=["all-0", "none"])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("ids", [True, False])
def test_calls_with_the_same_index_are_distinguished_by_their_names(
    number: dict[str, object], together: bool, ids: bool
) -> None:
    fragments = [
        fragment(name, json.dumps(arguments), **number, **({"id": f"c_{name}"} if ids else {}))
        for name, arguments in TWO
    ]
    assert calls(*([fragments] if together else [[each] for each in fragments])) == TWO


def test_two_calls_of_one_tool_without_ids_stay_separate() -> None:
    assert calls([fragment("a", '{"x": 1}')], [fragment("a", '{"x":')], [fragment(None, " 2}")]) == [
        ("a", {"x": 1}),
        ("a", {"x": 2}),
    ]


def test_a_name_may_follow_the_id_and_the_arguments() -> None:
    assert calls([{"index": 0, "id": "c1"}], [fragment("a", "{}", index=0)]) == [("a", {})]
    assert calls([fragment("", "", index=0, id="c1")], [fragment("a", "{}", index=0, id="c1")]) == [("a", {})]
    begun = [fragment(None, '{"x"', index=0, id="c1")]
    assert calls(begun, [fragment("a", ": 1}", index=0)]) == [("a", {"x": 1})]


@pytest.mark.parametrize("which", [{}, {"index": 0}, {"index": 0, "id": "c1"}], ids=["nothing", "number", "id"])
def test_a_name_repeated_in_every_fragment_is_one_call(which: dict[str, object]) -> None:
    pieces = ["", '{"x"', ": 1", "}", ""]
    assert calls(*([fragment("a", piece, **which)] for piece in pieces)) == [("a", {"x": 1})]


def test_parallel_calls_keep_their_own_fragments() -> None:
    assert (
        calls(
            [fragment("a", '{"x"', index=0, id="c1"), fragment("b", '{"y"', index=1, id="c2")],
            [fragment(None, ": 1}", index=0), fragment(None, ": 2}", index=1)],
        )
        == TWO
    )
