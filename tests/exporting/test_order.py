"""The reading order: the current path from its root down, other branches inserted where they begin."""

from __future__ import annotations

import random

from treering.events.kinds import Kind
from treering.projections.exporting.order import BranchBegins, BranchEnds, Show, Step, reading_order

USER = Kind.USER


def notation(step: Step) -> str:
    match step:
        case Show(seq):
            return str(seq)
        case BranchBegins(seq, count):
            return f"<{seq}:{count}"
        case BranchEnds():
            return ">"


def order_of(parents: list[int], leaf: int, kinds: list[int] | None = None) -> str:
    return " ".join(map(notation, reading_order([0, *parents], [0, *(kinds or [USER] * len(parents))], leaf)))


def test_a_session_without_branches_is_read_from_its_root() -> None:
    assert order_of([0, 1, 2], 3) == "1 2 3"
    assert order_of([], 0) == ""


def test_branches_are_inserted_where_they_leave_the_path() -> None:
    #  1 - 2 - 3 - 4
    #       \- 5 - 6
    #           \- 7
    parents = [0, 1, 2, 3, 2, 5, 5]
    assert order_of(parents, 4) == "1 2 <5:3 5 <6:1 6 > 7 > 3 4"
    assert order_of(parents, 6) == "1 2 <3:2 3 4 > 5 <7:1 7 > 6"
    assert order_of(parents, 2) == "1 2 <3:2 3 4 > 5 <6:1 6 > 7", (
        "below the leaf, the path continues with the newest child"
    )


def test_another_root_is_a_branch_before_the_path() -> None:
    assert order_of([0, 1, 0, 3], 2) == "<3:2 3 4 > 1 2"
    assert order_of([0, 1, 0, 3], 0) == "<1:2 1 2 > 3 4"


def test_hidden_entries_are_left_out_and_their_children_are_kept() -> None:
    kinds = [USER, Kind.ABORTED, USER, Kind.DAMAGED, USER]
    assert order_of([0, 1, 2, 0, 3], 5, kinds) == "1 3 5"


def test_a_branch_is_named_by_its_first_message() -> None:
    kinds = [USER, USER, Kind.LABEL, Kind.MODEL_CHANGE, USER]
    assert order_of([0, 1, 1, 3, 4], 2, kinds) == "1 <5:3 3 4 5 > 2"
    assert order_of([0, 1, 1], 2, [USER, USER, Kind.LABEL]) == "1 <3:1 3 > 2"


def test_every_entry_of_a_random_tree_appears_once_and_every_branch_ends() -> None:
    chance = random.Random(7)
    parents = [chance.randrange(max(0, seq - 5), seq + 1) for seq in range(20_000)]
    steps = reading_order([0, *parents], [0, *[USER] * len(parents)], len(parents))
    assert sorted(step.seq for step in steps if isinstance(step, Show)) == list(range(1, len(parents) + 1))
    depth = 0
    for step in steps:
        depth += isinstance(step, BranchBegins) - isinstance(step, BranchEnds)
        assert depth >= 0
    assert depth == 0
