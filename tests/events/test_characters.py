"""Half of a surrogate pair is no character, and becomes U+FFFD wherever it stands."""

from __future__ import annotations

import pytest

from treering.events.characters import whole, whole_json
from treering.events.content import text, thinking, tool_use
from treering.events.entries import Message, Usage


@pytest.mark.parametrize(
    ("given", "made"),
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
def test_halves_are_replaced(given: object, made: object) -> None:
    assert whole(given) == made


def test_json_is_mended_in_its_escapes() -> None:
    assert (
        whole_json(rb'{"a": "\ud83d", "b": "\\ud83d \ud83d\ude00"}') == '{"a": "\ufffd", "b": "\\\\ud83d 😀"}'.encode()
    )
    with pytest.raises(ValueError, match="Expecting"):
        whole_json(rb'{"a": ')
