"""Any commands in any order, through crashes and restarts: replaying the log gives the live state.

A session gets random commands. After each step it is compared with a fold over its file, and with a model that is
only a list of lines. A move of the leaf is not in the file, so the model records it separately.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Literal, TypeVar, TypeVarTuple
from uuid import UUID

import anyio
import hypothesis
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from treering import CommandConflict, InvalidInput, Limits, Message, Session, SessionHost
from treering.entries import BranchSummary, Compaction, ContextEdit, Custom, Label, Payload, SessionInfo, ToolExecution
from treering.errors import LeafMoved
from treering.events.columns import ROOT
from treering.events.dialects.native import NativeDialect
from treering.events.index import LogIndex
from treering.events.kinds import Kind
from treering.testing.disks import MemoryDisk
from treering.testing.strategies import payloads

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LOOPS: dict[str, tuple[str, dict[str, Any]]] = {
    "asyncio": ("asyncio", {}),
    "uvloop": ("asyncio", {"use_uvloop": True}),
    "trio": ("trio", {}),
}
LOG = "/sessions/s.jsonl"


async def run_inline(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run blocking work on the spot: an offload that uses no threads."""
    return fn(*args)


class Line:
    """A line in the model. `batch` is its position in its atomic append, and how many lines that has."""

    def __init__(self, entry_id: str, parent: int, payload: Payload, batch: tuple[int, int], *, aside: bool) -> None:
        self.entry_id = entry_id
        self.parent = parent
        self.payload = payload
        self.batch = batch
        self.aside = aside


class Model:
    """A session as a list of lines; everything else is computed from the list.

    Attributes:
        lines: The lines, in order.
        moved: Where the leaf was last moved to, until an entry becomes the leaf; None if it was not moved since.
        record: The lines at the time of the last move of the leaf, and where it was moved to.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.moved: int | None = None
        self.record: tuple[list[Line], int] | None = None

    @property
    def torn(self) -> set[int]:
        """The ordinals of the lines of incomplete batches."""
        torn: set[int] = set()
        for seq, line in enumerate(self.lines, 1):
            i, n = line.batch
            batch = [each.batch for each in self.lines[seq - 1 - i : seq - 1 - i + n]]
            if batch != [(position, n) for position in range(n)]:
                torn.add(seq)
        return torn

    @property
    def visible(self) -> int:
        """The ordinal of the last line that the session shows: it hides a torn batch at the end."""
        last = len(self.lines)
        return last - self.lines[-1].batch[0] - 1 if last in self.torn else last

    @property
    def tip(self) -> int:
        """The ordinal of the last visible line that was neither appended aside nor part of a torn batch."""
        whole = set(range(1, self.visible + 1)) - self.torn
        return max((seq for seq in whole if not self.lines[seq - 1].aside), default=0)

    @property
    def leaf(self) -> int:
        return self.tip if self.moved is None else self.moved

    def find(self, entry_id: str) -> int:
        """The ordinal of the latest visible line with this id."""
        return max((seq for seq in range(1, self.visible + 1) if self.lines[seq - 1].entry_id == entry_id), default=0)

    def ids(self) -> list[str]:
        return [line.entry_id for line in self.lines[: self.visible]]

    def id_at(self, seq: int) -> str | None:
        return self.lines[seq - 1].entry_id if seq else None

    def path(self) -> list[str]:
        found: list[str] = []
        seq = self.leaf
        while seq:
            found.append(self.lines[seq - 1].entry_id)
            seq = self.lines[seq - 1].parent
        return found[::-1]

    def payloads_of_whole_batches(self) -> list[Payload]:
        """The payloads of the visible lines, without those of torn batches."""
        torn = self.torn
        return [line.payload for seq, line in enumerate(self.lines[: self.visible], 1) if seq not in torn]

    def labels(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for payload in self.payloads_of_whole_batches():
            if isinstance(payload, Label):
                found.pop(payload.target_id, None)
                if payload.label:
                    found[payload.target_id] = payload.label
        return found

    def name(self) -> str | None:
        names = [
            each.name
            for each in self.payloads_of_whole_batches()
            if isinstance(each, SessionInfo) and each.name is not None
        ]
        return names[-1] or None if names else None

    def append(self, entry_ids: Sequence[str], sent: Sequence[Payload], parent: int, *, aside: bool = False) -> None:
        parent_id = self.id_at(parent)
        if parent_id is not None:  # the latest line with this id, even if it is in a torn batch that was hidden so far
            parent = max(seq for seq, line in enumerate(self.lines, 1) if line.entry_id == parent_id)
        for i, (entry_id, payload) in enumerate(zip(entry_ids, sent, strict=True)):
            self.lines.append(Line(entry_id, parent, payload, (i, len(entry_ids)), aside=aside))
            parent = len(self.lines)
        if not aside:
            self.moved = None

    def move(self, seq: int) -> None:
        self.moved = seq
        self.record = self.lines[:], seq

    def cut(self, count: int) -> None:
        """Keep the first lines. The last move of the leaf holds again if no later line outside aside remains."""
        del self.lines[count:]
        self.moved = None
        if self.record is not None:
            lines, leaf = self.record
            if self.lines[: len(lines)] == lines and self.tip <= len(lines):
                self.moved = self.find(self.id_at(leaf) or "")  # that id's latest line, which may show now


class Sessions(RuleBasedStateMachine):
    """One session on one disk: commands, restarts of its host, and crashes that cut its file."""

    loop = "asyncio"

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.time = datetime(2026, 1, 1, microsecond=1000, tzinfo=UTC)
        self.ids = count(1)
        self.numbers = count(1)
        self.model = Model()
        self.commands: dict[str, list[Payload]] = {}
        self.writes: Literal["inline", "thread"] = "inline"
        self.stack = ExitStack()
        backend, options = LOOPS[self.loop]
        self.portal = self.stack.enter_context(start_blocking_portal(backend, options))
        self.hosting = ExitStack()

    # -- hosting the session

    def open(self) -> None:
        limits = Limits(snapshot_after_lines=3)
        host = SessionHost(
            "/sessions",
            disk=self.disk,
            offload=run_inline,
            writes=self.writes,
            limits=limits,
            clock=self.clock,
            new_id=lambda: str(UUID(int=next(self.ids), version=4)),
        )
        self.host = self.hosting.enter_context(self.portal.wrap_async_context_manager(host))
        self.session: Session = self.portal.call(self.host.open, "s")

    def clock(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time

    def close(self) -> None:
        self.hosting.close()

    def teardown(self) -> None:
        self.close()
        self.stack.close()

    def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: object, **options: object) -> T:
        async def run() -> T:
            return await function(*args, **options)

        return self.portal.call(run)

    def data(self) -> bytes:
        return self.disk.files().get(LOG, b"")

    def with_known_targets(self, payload: Payload, draw: st.DataObject, base: int) -> Payload:
        """Make a drawn payload refer to entries that exist."""
        ids = self.model.ids()
        if isinstance(payload, Label):
            return replace(payload, target_id=draw.draw(st.sampled_from(ids))) if ids else Custom("no label", None)
        if isinstance(payload, ContextEdit):
            return replace(payload, target_id=draw.draw(st.sampled_from(ids))) if ids else Custom("no edit", None)
        if isinstance(payload, Compaction):
            path = [*self.path_from(base)]
            kept = draw.draw(st.none() | st.sampled_from(path)) if path else None
            return replace(payload, first_kept_entry_id=kept)
        if isinstance(payload, ToolExecution):
            return replace(payload, message_id=draw.draw(st.none() | st.sampled_from(ids)) if ids else None)
        return payload

    def path_from(self, seq: int) -> list[str]:
        found: list[str] = []
        while seq:
            found.append(self.model.lines[seq - 1].entry_id)
            seq = self.model.lines[seq - 1].parent
        return found

    # -- commands

    @initialize(writes=st.sampled_from(["inline", "thread"]))
    def begin(self, writes: Literal["inline", "thread"]) -> None:
        self.writes = writes
        self.open()

    @rule(
        draw=st.data(),
        drawn=st.lists(payloads(), min_size=1, max_size=3),
        place=st.sampled_from(["leaf", "root", "entry", "aside"]),
        named=st.booleans(),
    )
    def append(self, draw: st.DataObject, drawn: Sequence[Payload], place: str, named: bool) -> None:
        model = self.model
        options: dict[str, Any] = {}
        base = model.leaf
        if place != "leaf":
            base = draw.draw(st.integers(0, model.visible)) if place != "root" else 0
            base = model.find(model.id_at(base) or "")
            options["below"] = model.id_at(base)
        aside = place == "aside"
        if aside:
            options["aside"] = True
        sent = [self.with_known_targets(each, draw, base) for each in drawn]
        if named:
            options["command_id"] = f"command-{next(self.numbers)}"
        before = self.data()
        try:
            entry_ids = self.call(self.session.append_many, sent, **options)
        except InvalidInput:
            assert any(isinstance(each, (Compaction, ContextEdit)) for each in sent)
            assert self.data() == before
            return
        if named:
            self.commands[options["command_id"]] = sent
        left = model.id_at(model.leaf) or "root"
        kept = [replace(e, from_id=left) if isinstance(e, BranchSummary) and not e.from_id else e for e in sent]
        model.append(entry_ids, kept, base, aside=aside)

    @rule(callers=st.integers(2, 6))
    def append_concurrently(self, callers: int) -> None:
        """Several callers append at the same time; each entry goes below the one before it."""
        appended: dict[str, Payload] = {}

        async def append_one(caller: int) -> None:
            payload = SessionInfo(f"name {caller}")
            appended[await self.session.append(payload)] = payload

        async def append_all() -> list[str]:
            async with anyio.create_task_group() as tasks:
                for caller in range(callers):
                    tasks.start_soon(append_one, caller)
            index = (await self.session.log()).index
            return sorted(appended, key=index.find)

        for entry_id in self.call(append_all):
            self.model.append([entry_id], [appended[entry_id]], self.model.leaf)

    @precondition(lambda self: self.commands)
    @rule(draw=st.data())
    def repeat(self, draw: st.DataObject) -> None:
        """Repeat a command: it returns the same ids, or is carried out again if a crash lost its lines."""
        name = draw.draw(st.sampled_from(sorted(self.commands)))
        sent = self.commands[name]
        before, base = self.data(), self.model.leaf
        try:
            entry_ids = self.call(self.session.append_many, sent, command_id=name)
        except (InvalidInput, LookupError):  # a crash also lost the entry that it refers to
            assert self.data() == before
            return
        if self.data() == before:
            assert self.model.ids()[self.model.find(entry_ids[0]) - 1 :][: len(entry_ids)] == entry_ids
            return
        assert not any(self.model.find(each) and self.model.find(each) not in self.model.torn for each in entry_ids)
        left = self.model.id_at(base) or "root"
        kept = [replace(e, from_id=left) if isinstance(e, BranchSummary) and not e.from_id else e for e in sent]
        self.model.append(entry_ids, kept, base)

    @precondition(lambda self: self.commands)
    @rule(draw=st.data())
    def contradict(self, draw: st.DataObject) -> None:
        """Send another payload under a used command id, and an expectation that does not hold."""
        before = self.data()
        name = draw.draw(st.sampled_from(sorted(self.commands)))
        try:
            entry_id = self.call(self.session.append, Custom("another", None), command_id=name)
        except CommandConflict:
            assert self.data() == before
        else:
            del self.commands[name]  # a crash lost its lines
            self.model.append([entry_id], [Custom("another", None)], self.model.leaf)
        before = self.data()
        with pytest.raises(LeafMoved):
            self.call(self.session.append, Custom("late", None), expected_leaf="another")
        assert self.data() == before

    @rule(draw=st.data())
    def move_leaf(self, draw: st.DataObject) -> None:
        before = self.data()
        seq = self.model.find(self.model.id_at(draw.draw(st.integers(0, self.model.visible))) or "")
        entry_id = self.model.id_at(seq)
        self.call(self.session.reset_leaf) if entry_id is None else self.call(self.session.branch, entry_id)
        self.model.move(seq)
        assert self.data() == before

    @rule(draw=st.data(), summary=st.text(max_size=5))
    def branch_with_summary(self, draw: st.DataObject, summary: str) -> None:
        base = self.model.find(self.model.id_at(draw.draw(st.integers(0, self.model.visible))) or "")
        left = self.model.id_at(self.model.leaf) or "root"
        entry_id = self.call(self.session.branch_with_summary, self.model.id_at(base), summary)
        self.model.append([entry_id], [BranchSummary(summary, left)], base)

    # -- passivation, restarts and crashes

    @rule()
    def passivate(self) -> None:
        self.portal.call(self.host.passivate_idle)

    @rule()
    def restart(self) -> None:
        self.close()
        self.open()

    @precondition(lambda self: self.model.lines)
    @rule(draw=st.data())
    def crash(self, draw: st.DataObject) -> None:
        """End the process, and cut the end of the file at any byte."""
        self.close()
        data = self.data()
        header = data.index(b"\n") + 1
        lost = draw.draw(st.integers(0, min(len(data) - header, 2000)))
        left = data[: len(data) - lost]
        fd = self.disk.open(LOG, os.O_RDWR)
        self.disk.truncate(fd, len(left))
        self.disk.close(fd)
        whole = left[header:].count(b"\n")
        ends = [end for end in range(len(data)) if data[end] == 10]
        self.model.cut(whole + (len(left) in ends[1:]))  # a whole line that lacks its newline gets one
        self.open()

    # -- invariants

    @invariant()
    def replay_equals_live_state(self) -> None:
        """Folding the file gives the live index, and the model is right before and after the session is activated."""
        if not hasattr(self, "session"):
            return
        self.check_model()
        live = self.call(self.session.log).index
        self.check_model()
        replayed = LogIndex(live.header)
        decode = NativeDialect().decode
        for seq, line in enumerate(self.data().splitlines()[1:], 1):
            entry = decode(line, seq)
            assert entry is not None
            assert entry.seq == seq
            assert entry.timestamp >= replayed.last_time
            replayed.fold(entry)
        assert replayed == live
        assert replayed.leaf == self.model.tip

    def check_model(self) -> None:
        model, session = self.model, self.session

        async def look() -> tuple[object, ...]:
            return (
                session.leaf_id,
                session.path(),
                session.name,
                session.message_count,
                dict(session.labels()),
                session.cursor.seq,
            )

        assert self.portal.call(look) == (
            model.id_at(model.leaf),
            model.path(),
            model.name(),
            sum(isinstance(each, Message) for each in model.payloads_of_whole_batches()),
            model.labels(),
            model.visible,
        )

    @invariant()
    def the_tree_equals_the_model(self) -> None:
        if not hasattr(self, "session"):
            return
        index, model = self.call(self.session.log).index, self.model
        assert [index.ids[seq] for seq in range(1, index.head + 1)] == model.ids()
        assert [max(index.parents[seq], ROOT) for seq in range(1, index.head + 1)] == [
            line.parent for line in model.lines[: model.visible]
        ]
        torn = model.torn
        assert [index.kinds[seq] == Kind.ABORTED for seq in range(1, index.head + 1)] == [
            seq in torn for seq in range(1, index.head + 1)
        ]


def drive(loop: str, *, examples: int, steps: int, seed: int | None = None) -> None:
    machine = type(f"SessionsOn{loop.capitalize()}", (Sessions,), {"loop": loop})
    if seed is not None:
        machine = hypothesis.seed(seed)(machine)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=seed is None,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.feature("X-12")
@pytest.mark.parametrize("loop", LOOPS)
def test_replay_equals_the_live_state_after_every_step(loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    drive(loop, examples=12, steps=15)


def prove_seed(seed: int, tally: Counter[str]) -> None:
    """Check ten programs of fifty steps."""
    drive(list(LOOPS)[seed % len(LOOPS)], examples=10, steps=50, seed=seed)
    tally["programs of 50 steps"] += 10
