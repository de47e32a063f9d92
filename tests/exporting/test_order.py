"""The order of reading: the path straight down, other branches folded in where they begin."""

from __future__ import annotations

import random

from treering.events.kinds import Kind
from treering.projections.exporting.order import BranchBegins, BranchEnds, Show, Step, reading_order

USER = Kind.USER


def sign(step: Step) -> str:
    match step:
        case Show(seq):
            return str(seq)
        case BranchBegins(seq, count):
            return f"<{seq}:{count}"
        case BranchEnds():
            return ">"


def drawn(parents: list[int], leaf: int, kinds: list[int] | None = None) -> str:
    return " ".join(map(sign, reading_order([0, *parents], [0, *(kinds or [USER] * len(parents))], leaf)))


def test_a_line_is_read_from_its_root() -> None:
    assert drawn([0, 1, 2], 3) == "1 2 3"
    assert drawn([], 0) == ""


def test_the_path_goes_straight_down_and_branches_stand_where_they_begin() -> None:
    #  1 - 2 - 3 - 4
    #       \- 5 - 6
    #           \- 7
    parents = [0, 1, 2, 3, 2, 5, 5]
    assert drawn(parents, 4) == "1 2 <5:3 5 <6:1 6 > 7 > 3 4"
    assert drawn(parents, 6) == "1 2 <3:2 3 4 > 5 <7:1 7 > 6"
    assert drawn(parents, 2) == "1 2 <3:2 3 4 > 5 <6:1 6 > 7", "below the leaf, the child that came last"


def test_several_beginnings() -> None:
    assert drawn([0, 1, 0, 3], 2) == "<3:2 3 4 > 1 2"
    assert drawn([0, 1, 0, 3], 0) == "<1:2 1 2 > 3 4"


def test_what_does_not_count_is_left_out_and_its_children_stay() -> None:
    kinds = [USER, Kind.ABORTED, USER, Kind.DAMAGED, USER]
    assert drawn([0, 1, 2, 0, 3], 5, kinds) == "1 3 5"


def test_a_branch_is_told_by_its_first_message() -> None:
    kinds = [USER, USER, Kind.LABEL, Kind.MODEL_CHANGE, USER]
    assert drawn([0, 1, 1, 3, 4], 2, kinds) == "1 <5:3 3 4 5 > 2"
    assert drawn([0, 1, 1], 2, [USER, USER, Kind.LABEL]) == "1 <3:1 3 > 2"


def test_any_tree_is_read_whole_and_branches_end() -> None:
    chance = random.Random(7)
    parents = [chance.randrange(max(0, seq - 5), seq + 1) for seq in range(20_000)]
    steps = reading_order([0, *parents], [0, *[USER] * len(parents)], len(parents))
    assert sorted(step.seq for step in steps if isinstance(step, Show)) == list(range(1, len(parents) + 1))
    depth = 0
    for step in steps:
        depth += isinstance(step, BranchBegins) - isinstance(step, BranchEnds)
        assert depth >= 0
    assert depth == 0
