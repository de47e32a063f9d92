"""Usage over all branches and of one path, by model, with nothing counted twice."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from treering import Header, Message, Usage
from treering.events.entries import Batch, BranchSummary, Compaction, Custom, Entry, Payload, UsageRecord, entry_of
from treering.events.index import LogIndex
from treering.projections.base import replay
from treering.projections.usage import ModelUsage, UsageProjection, UsageTotals, apply_change, usage_of, usage_totals

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(id="s", version=1, timestamp=START)


def entry(seq: int, payload: Payload, parent_id: str | None = None, batch: Batch | None = None) -> Entry:
    return entry_of(payload, id=f"e{seq}", parent_id=parent_id, timestamp=START, seq=seq, batch=batch)


def answer(tokens: int, model: str = "m", cost: float = 0.0) -> Message:
    usage = Usage(tokens, 2 * tokens, total_tokens=3 * tokens, cost=cost)
    return Message("assistant", provider="p", model=model, usage=usage)


BRANCHED = (
    entry(1, Message("user")),
    entry(2, answer(10, cost=0.5), "e1"),
    entry(3, answer(100, "other", cost=0.25), "e1"),
    entry(4, Compaction("s", None, 9, usage=Usage(1)), "e3"),
    entry(5, BranchSummary("s", "e2", usage=Usage(2)), "e4"),
    entry(6, UsageRecord("cache_warm", Usage(cache_read_tokens=7), "p", "m"), "e5"),
    entry(7, Custom("x"), "e6"),
    entry(8, answer(1000), "e7"),
)


@pytest.mark.feature("D-25")
def test_totals_cover_all_branches_and_totals_of_a_path_only_the_path() -> None:
    everything = usage_totals(BRANCHED)
    assert everything.total == Usage(1113, 2220, 7, 0, 3330, 0.75)
    assert everything.by_model == (
        ModelUsage("p", "m", Usage(1010, 2020, 7, 0, 3030, 0.5)),
        ModelUsage("p", "other", Usage(100, 200, 0, 0, 300, 0.25)),
        ModelUsage(None, None, Usage(3)),
    )
    index = LogIndex(HEADER)
    for each in BRANCHED:
        index.fold(each)
    assert usage_totals(BRANCHED[seq - 1] for seq in index.path(2)).total == Usage(10, 20, 0, 0, 30, 0.5)
    assert usage_totals(BRANCHED[seq - 1] for seq in index.path(8)).total == Usage(1103, 2200, 7, 0, 3300, 0.25)
    assert usage_totals([]) == UsageTotals()
    at_once = LogIndex(HEADER)
    at_once.fold_all([*BRANCHED])
    restored = LogIndex.restore(at_once.dump(), HEADER)
    assert restored is not None
    assert index.usage == at_once.usage == restored.usage == everything.total


def test_usage_can_be_read_for_one_model() -> None:
    totals = usage_totals([*BRANCHED, entry(9, Message("assistant", provider="q", model="m", usage=Usage(5)))])
    assert totals.of("m") == Usage(1015, 2020, 7, 0, 3030, 0.5)
    assert totals.of("m", "q") == Usage(5)
    assert totals.of("unknown") == Usage()


def batch(*payloads: Payload) -> list[Entry]:
    return [entry(seq, each, batch=Batch("s", "b", seq - 1, len(payloads))) for seq, each in enumerate(payloads, 1)]


@pytest.mark.parametrize(
    ("entries", "total"),
    [
        (batch(Message("user"), Message("assistant"), UsageRecord("turn", Usage(30), messages=2)), 30),
        (batch(answer(10), answer(15), UsageRecord("turn", Usage(25, 50, total_tokens=75), messages=2)), 25),
        (batch(answer(10), Message("tool"), UsageRecord("turn", Usage(25), messages=2)), 25),
        (batch(answer(10), UsageRecord("turn", Usage(4), messages=1)), 10),
        ([*batch(answer(10)), entry(2, UsageRecord("turn", Usage(30), messages=1))], 40),
        (batch(answer(10), UsageRecord("cache_warm", Usage(30))), 40),
    ],
)
def test_a_turns_record_counts_only_what_its_messages_lack(entries: Sequence[Entry], total: int) -> None:
    assert usage_totals(entries).total.input_tokens == total
    index = LogIndex(HEADER)
    for each in entries:
        index.fold(each)
    assert index.usage.input_tokens == total


def test_changes_add_up_to_the_totals_and_a_loaded_checkpoint_continues() -> None:
    projection = UsageProjection()
    value = replica = projection.initial(HEADER)
    entries = [*BRANCHED, *batch(answer(10), answer(15), UsageRecord("turn", Usage(99), messages=2))]
    for each in entries:
        before = value
        value, change = projection.apply(projection.load(projection.dump(value)), each)
        assert (change is None) == (before.total == value.total)
        replica = apply_change(replica, change) if change else replica
        assert (replica.total, replica.by_model) == (value.total, value.by_model)
    assert value == replay(projection, HEADER, entries)


def test_entries_without_usage_have_none() -> None:
    assert usage_of(BRANCHED[0]) is None
    assert usage_of(BRANCHED[6]) is None
    assert usage_of(entry(1, Compaction("s", None, 9))) is None
    assert usage_of(entry(1, BranchSummary("s", "e2"))) is None
