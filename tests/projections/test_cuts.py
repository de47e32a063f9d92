"""Safe cuts keep a call and its results together."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from treering.entries import BranchSummary, MessageEntry, ThinkingLevel, ToolExecution
from treering.events.content import Content, ToolResultPart, ToolUsePart, text, tool_result, tool_use
from treering.events.entries import Compaction, Custom, Entry, Header, ModelChange, Payload, entry_of, message
from treering.events.index import LogIndex
from treering.projections.context import Context, boundary, build, plan
from treering.projections.cuts import find_safe_cut, safe_cuts, stable_cuts, unsafe_reason

START = datetime(2026, 1, 1, tzinfo=UTC)

USER = message("user", "go on")
ANSWER = message("assistant", "done")
EVENT = ModelChange("maker", "m")


def calls(*call_ids: str) -> Payload:
    return message("assistant", [text("let me see"), *(tool_use(each, "read") for each in call_ids)])


def results(*call_ids: str, role: str = "tool") -> Payload:
    return message(role, [tool_result(each, "here") for each in call_ids])


def entry_at(seq: int, payload: Payload, parent_id: str | None) -> Entry:
    return entry_of(payload, id=f"e{seq}", parent_id=parent_id, timestamp=START, seq=seq)


def path(*payloads: Payload) -> list[Entry]:
    return [entry_at(seq, payload, f"e{seq - 1}" if seq > 1 else None) for seq, payload in enumerate(payloads, 1)]


def one(entry: Entry) -> int:
    return 1


@pytest.mark.feature("G-111", "G-113")
def test_a_path_can_be_cut_before_user_messages_and_entries_that_are_not_messages() -> None:
    entries = path(EVENT, USER, ThinkingLevel("low"), ANSWER, Custom("x"), message("system", "rules"), USER)
    assert safe_cuts(entries) == stable_cuts(entries) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.feature("G-112")
def test_a_cut_before_an_assistant_message_with_calls_moves_to_the_next_stable_cut() -> None:
    entries = path(USER, ANSWER, USER, calls("a"), results("a"), ANSWER, USER)
    assert stable_cuts(entries) == [0, 1, 2, 5, 6]
    assert find_safe_cut(entries, 4, one) == "e6"
    assert [find_safe_cut(entries, keep, one) for keep in (1, 2, 3, 5)] == ["e7", "e6", "e6", "e3"]


def test_a_turn_is_split_only_if_nothing_else_fits() -> None:
    entries = path(USER, calls("a"), results("a"), calls("b"), results("b"), calls("c"), results("c"))
    assert (stable_cuts(entries), safe_cuts(entries)) == ([0], [0, 1, 3, 5])
    assert [find_safe_cut(entries, keep, one) for keep in (2, 3, 4, 5, 6)] == ["e6", "e6", "e4", "e4", "e2"]


@pytest.mark.feature("U-9")
def test_parallel_calls_are_kept_together_or_not_at_all() -> None:
    entries = path(
        USER, calls("a", "b", "c"), results("b"), EVENT, results("a"), ToolExecution("a", "read"), results("c"), USER
    )
    assert safe_cuts(entries) == [0, 1, 7]
    assert [find_safe_cut(entries, keep, one) for keep in range(1, 8)] == ["e8"] * 7
    for position in range(2, 7):
        assert "without the call" in (unsafe_reason(entries, position) or "")
        assert unsafe_reason(entries[position:]) is not None
    assert unsafe_reason(entries[1:]) is unsafe_reason(entries[7:]) is None


def test_no_cut_is_safe_while_a_call_has_no_result() -> None:
    for tail in ([calls("a")], [calls("a", "b"), results("a")], [calls("a"), EVENT], [calls("a"), USER]):
        entries = path(USER, ANSWER, USER, *tail)
        assert safe_cuts(entries) == []
        assert find_safe_cut(entries, 1, one) is None
        assert "still waits" in (unsafe_reason(entries) or "")
        assert "still waits" in (unsafe_reason(entries, len(entries)) or "")


def test_a_call_that_never_got_a_result_blocks_cuts_only_in_its_turn() -> None:
    entries = path(USER, calls("lost", "a"), results("a"), USER, ANSWER, USER)
    assert safe_cuts(entries) == [0, 3, 4, 5]
    late = path(USER, calls("lost"), USER, ANSWER, results("lost"), USER)
    assert safe_cuts(late) == [0, 1, 5]


def test_a_result_without_a_call_is_never_kept() -> None:
    entries = path(USER, results("stray"), USER, message("tool", "unnamed"), USER)
    assert safe_cuts(entries) == [2, 4]
    assert find_safe_cut(entries, 2, one) == "e5"
    assert "'stray'" in (unsafe_reason(entries) or "")


@pytest.mark.feature("G-114")
def test_find_safe_cut_keeps_about_the_requested_amount_or_returns_none() -> None:
    entries = path(*[USER, ANSWER] * 10)
    assert find_safe_cut(entries, 5, one) == "e16"
    assert find_safe_cut(entries, 20, one) is None
    assert find_safe_cut(entries, 0, one) == "e20"
    assert find_safe_cut([], 5, one) is None
    assert find_safe_cut(path(USER, calls("a"), results("a")), 1, one) == "e2"
    assert find_safe_cut(path(calls("a"), results("a")), 1, one) is None
    for keep in range(25):
        chosen = find_safe_cut(entries, keep, one)
        assert chosen is None or unsafe_reason(entries, [entry.id for entry in entries].index(chosen)) is None


def test_the_kept_entries_take_at_most_the_requested_tokens() -> None:
    entries = path(*[USER] * 6)
    for keep in range(23):
        first = next(start for start in range(7) if sum(range(start + 1, 7)) <= keep)
        expected = f"e{min(first + 1, 6)}" if first else None
        assert find_safe_cut(entries, keep, lambda entry: entry.seq) == expected


def random_payload(rng: random.Random, waiting: list[str]) -> Payload:
    """Continue a conversation at random: with results of open calls, or with something else."""
    if waiting:
        if rng.random() < 0.3:
            beside: list[Payload] = [EVENT, Custom("x"), ToolExecution(waiting[0], "read")]
            return rng.choice(beside)
        now = rng.sample(waiting, rng.randint(1, len(waiting)))
        for each in now:
            waiting.remove(each)
        return results(*now, role=rng.choice(["tool", "user"]))
    if rng.random() < 0.4:
        waiting.extend(rng.sample(["a", "b", "c", "d"], rng.randint(1, 4)))
        return calls(*waiting)
    unnamed = message("tool", "the result of a call that some program did not name")
    others: list[Payload] = [USER, ANSWER, EVENT, BranchSummary("side", "e1"), message("system", "rules"), unnamed]
    return rng.choice(others)


def pairs_are_complete(parts: Sequence[Content]) -> bool:
    open_calls: list[str] = []
    for part in parts:
        if isinstance(part, ToolUsePart):
            open_calls.append(part.tool_use.id)
        elif isinstance(part, ToolResultPart):
            if part.tool_result.tool_use_id not in open_calls:
                return False
            open_calls.remove(part.tool_result.tool_use_id)
    return not open_calls


def parts_of(entries: Sequence[Entry]) -> list[Content]:
    return [part for entry in entries if isinstance(entry, MessageEntry) for part in entry.message.content]


def test_a_cut_is_safe_exactly_where_it_separates_no_pair() -> None:
    for seed in range(300):
        rng, waiting = random.Random(seed), list[str]()
        entries = path(*(random_payload(rng, waiting) for _ in range(rng.randint(1, 30))))
        cuts = safe_cuts(entries)
        for position, entry in enumerate(entries):
            whole = pairs_are_complete(parts_of(entries[position:])) and not waiting
            assert (unsafe_reason(entries, position) is None) == whole, (seed, position)
            is_tool = isinstance(entry, MessageEntry) and entry.message.role == "tool"
            assert (position in cuts) == (whole and not is_tool), (seed, position)


def context_of(index: LogIndex, entries: dict[int, Entry]) -> Context:
    end = boundary(index, index.leaf)
    chosen = plan(index, index.leaf, entries.get(end))
    return build(index, chosen, entries)


@pytest.mark.feature("G-110")
def test_contexts_after_safe_cuts_contain_only_complete_pairs() -> None:
    compacted = 0
    for seed in range(300):
        rng, index = random.Random(seed), LogIndex(Header(id="s", version=1, timestamp=START))
        entries: dict[int, Entry] = {}
        waiting: list[str] = []
        for seq in range(1, 80):
            way = [entries[each] for each in index.path(index.leaf)]
            kept = find_safe_cut(way, rng.randint(0, 12), one) if rng.random() < 0.2 else None
            payload = Compaction("sum", kept, 9) if kept else random_payload(rng, waiting)
            entries[seq] = entry_at(seq, payload, index.leaf_id)
            index.fold(entries[seq])
            if not waiting:
                shown = context_of(index, entries)
                assert pairs_are_complete([part for each in shown.messages for part in each.content]), (seed, seq)
                compacted += bool(kept)
                if rng.random() < 0.1:
                    index.move_leaf(rng.choice(branch_points(index, entries)))
    assert compacted > 1_000


def branch_points(index: LogIndex, entries: dict[int, Entry]) -> list[int]:
    """The entries after which no call waits for its result."""
    paths = {seq: [entries[each] for each in index.path(seq)] for seq in range(index.head + 1)}
    return [seq for seq, way in paths.items() if pairs_are_complete(parts_of(way))]
