"""Lone surrogates are replaced by U+FFFD in strings, keys and values of any kind."""

from __future__ import annotations

import pytest

from treering.events.characters import whole, whole_json
from treering.events.content import text, thinking, tool_use
from treering.events.entries import Message, Usage


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("plain é 😀", "plain é 😀"),
        ("caf\udce9", "caf\ufffd"),
        ("\ud83d\ude00\ud83d", "😀\ufffd"),
        (["\ud83d", {"\ude00": ("\ude00", 1, None)}], ["\ufffd", {"\ufffd": ("\ufffd", 1, None)}]),
        (
            Message(
                "assistant", (text("\ud83d"), thinking("a", signature="\ud83d"), tool_use("\ud83d", "b", {"c": 1}))
            ),
            Message(
                "assistant", (text("\ufffd"), thinking("a", signature="\ufffd"), tool_use("\ufffd", "b", {"c": 1}))
            ),
        ),
        (Usage(1), Usage(1)),
    ],
)
def test_lone_surrogates_are_replaced_in_any_value(given: object, expected: object) -> None:
    assert whole(given) == expected


def test_lone_surrogates_in_json_escapes_are_replaced() -> None:
    assert (
        whole_json(rb'{"a": "\ud83d", "b": "\\ud83d \ud83d\ude00"}') == '{"a": "\ufffd", "b": "\\\\ud83d 😀"}'.encode()
    )
    with pytest.raises(ValueError, match="Expecting"):
        whole_json(rb'{"a": ')
