"""Pairing: whatever a log holds, each sent call has a result and each result a call, in the order providers require."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import BashExecution, Context, ContextMessage, Message, image, message, text, tool_result, tool_use
from treering.projections.building.pairing import (
    NO_RESULT,
    last_turn,
    next_start,
    paired,
    pairing_fault,
    safe_start,
    unanswered,
)
from treering.testing import strategies

USER = message("user", "go on")
ANSWER = message("assistant", "done")


def calls(*ids: str) -> Message:
    return message("assistant", [text("let me see"), *(tool_use(each, "read") for each in ids)])


def results(*ids: str, role: str = "tool") -> Message:
    return message(role, [tool_result(each, "here") for each in ids])


def shape(messages: tuple[ContextMessage, ...]) -> list[str]:
    return [each.entry_id or f"inserted:{each.role}" for each in messages]


def test_messages_that_are_paired_are_returned_as_the_same_objects(context_of: Callable[..., Context]) -> None:
    context = context_of(USER, calls("a", "b"), results("a"), results("b"), ANSWER, USER)
    repaired = paired(context.messages)
    assert all(one is other for one, other in zip(repaired, context.messages, strict=True))
    assert pairing_fault(repaired) is None


@given(st.lists(strategies.messages() | st.sampled_from([USER, ANSWER, calls("a"), results("a"), calls("b", "a")])))
def test_the_last_turn_is_paired_independently_of_what_comes_before_it(drawn: list[Message]) -> None:
    messages = [ContextMessage(f"e{place}", each) for place, each in enumerate(drawn)]
    turn = last_turn(messages)
    assert paired(messages) == (*paired(messages[:turn]), *paired(messages[turn:]))
    open_calls = [(turn + place, call) for place, call in unanswered(drawn[turn:])]
    assert unanswered(drawn) == open_calls


def test_the_last_turn_begins_with_the_first_of_adjacent_answers(context_of: Callable[..., Context]) -> None:
    hidden = Message("unknown", (text("x"),))
    messages = context_of(USER, ANSWER, USER, calls("a"), hidden, ANSWER, results("a"), USER).messages
    assert last_turn(messages) == 3
    assert last_turn(messages[:3]) == 1
    assert last_turn(messages[:1]) == last_turn(()) == 0


@pytest.mark.timeout(15)
def test_pairing_200000_messages_does_not_take_quadratic_time(context_of: Callable[..., Context]) -> None:
    context = context_of(*(each for _ in range(100_000) for each in (USER, ANSWER)))
    assert len(paired(context.messages)) == 200_000


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((USER, results("x"), ANSWER), ["e0", "e2"]),
        ((USER, calls("a"), USER), ["e0", "e1", "inserted:tool", "e2"]),
        ((USER, calls("a", "b"), results("b"), ANSWER), ["e0", "e1", "e2", "inserted:tool", "e3"]),
        ((USER, calls("a"), results("a"), results("a")), ["e0", "e1", "e2"]),
        ((USER, calls("a"), USER, results("a"), ANSWER), ["e0", "e1", "e3", "e2", "e4"]),
        ((USER, calls("a"), ANSWER, USER, results("a")), ["e0", "e1", "e2", "e4", "e3"]),
        ((USER, calls("a"), USER, ANSWER, results("a")), ["e0", "e1", "inserted:tool", "e2", "e3"]),
        ((USER, calls("a"), calls("a"), results("a")), ["e0", "e1", "e2", "e3"]),
        ((USER, calls("a"), results("a", role="user")), ["e0", "e1", "e2"]),
        ((USER, Message("assistant"), USER), ["e0", "e2"]),
        ((USER, message("user", tool_use("a", "read")), ANSWER), ["e0", "e2"]),
        ((USER, message("assistant", [text("x"), tool_result("a", "y")])), ["e0", "e1"]),
        ((message("tool", "no result"), USER), ["e1"]),
        ((Message("bashExecution", bash=BashExecution("ls", exclude_from_context=True)), USER), ["e1"]),
        ((Message("unknown", (text("x"),)), USER), ["e1"]),
    ],
)
def test_messages_that_are_not_paired_are_repaired(
    context_of: Callable[..., Context], messages: tuple[Message, ...], expected: list[str]
) -> None:
    repaired = paired(context_of(*messages).messages)
    assert shape(repaired) == expected
    assert pairing_fault(repaired) is None
    assert paired(repaired) == repaired


def test_an_unanswered_call_is_closed_by_an_error(context_of: Callable[..., Context]) -> None:
    repaired = paired(context_of(USER, calls("a")).messages)
    assert repaired[-1].message == Message("tool", (tool_result("a", NO_RESULT, is_error=True),), tool_name="read")


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ((calls("a"),), "call 'a' has no result"),
        ((calls("a"), USER, ANSWER, results("a")), "call 'a' has no result"),
        ((results("a"),), "no call before it"),
        ((calls("a", "a"), results("a")), "made twice"),
        ((message("assistant", tool_result("a", "x")),), "no call before it"),
    ],
)
def test_a_pairing_fault_names_the_call(
    context_of: Callable[..., Context], messages: tuple[Message, ...], fault: str
) -> None:
    assert fault in (pairing_fault(context_of(*messages).messages) or "")


def test_a_batch_of_parallel_calls_is_one_unit(context_of: Callable[..., Context]) -> None:
    messages = paired(
        context_of(
            USER, calls("a", "b"), results("a"), results("b"), ANSWER, message("user", image("", "image/png"))
        ).messages
    )
    assert [safe_start(messages, place) for place in range(7)] == [0, 1, 1, 1, 4, 5, 6]
    assert [next_start(messages, place) for place in range(6)] == [1, 4, 4, 4, 5, 6]
    run = paired(context_of(USER, calls("a"), calls("b"), results("a", "b"), ANSWER).messages)
    assert [safe_start(run, place) for place in range(5)] == [0, 1, 1, 1, 4]
