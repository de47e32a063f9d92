"""What a session is doing: the table of rules, the view, and the rows of the listing, which must never disagree."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from treering import Limits, Session, SessionHost
from treering.entries import BranchSummary, Custom, Payload, Provider, SessionInfo, ToolExecution, Usage, message
from treering.events.content import text, thinking, tool_result, tool_use
from treering.events.entries import Entry, Header, entry_of
from treering.events.index import LogIndex
from treering.events.json_values import raw_json
from treering.projections.session_state import CalledTool, SessionState, StateFold, Word, argument_of, last_line
from treering.projections.views import Snapshot
from treering.testing.clocks import ManualClock

from ..catalog.sessions import CountingDisk

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(id="s", version=1, timestamp=START)


def at(seq: int) -> datetime:
    return START + timedelta(seconds=seq)


def state_after(*payloads: Payload) -> SessionState:
    index, fold = LogIndex(HEADER), StateFold(START)
    for seq, payload in enumerate(payloads, 1):
        above = f"e{seq - 1}" if seq > 1 else None
        entry: Entry = entry_of(payload, id=f"e{seq}", parent_id=above, timestamp=at(seq), seq=seq)
        index.fold(entry)
        fold.add(entry)
    return fold.state(index)


ASK = message("user", "Fix it")
BASH = message("assistant", [text("I run it."), tool_use("c1", "bash", {"command": "pytest -q"})])
TWO = message("assistant", [tool_use("c1", "bash"), tool_use("c2", "read", {"path": "a.py"})])
DONE = message("tool", tool_result("c1", "212 lines\n"), tool_name="bash")
FAILED = message("tool", tool_result("c1", "Traceback\nValueError: no\n---\n", is_error=True), tool_name="bash")
RUN = CalledTool("c1", "bash", "pytest -q")


def suspended(reason: str) -> Custom:
    calls: list[dict[str, object]] = [{"id": "c1", "name": "bash", "input": {}, "reason": reason}]
    return Custom("treering.suspended", raw_json({"calls": calls}))


def state_at(number: int, state: Word, line: str = "", **more: Any) -> SessionState:  # noqa: ANN401
    """The state since the entry of this number."""
    return SessionState(state=state, since=at(number), entry=f"e{number}", line=line, **more)


@pytest.mark.parametrize(
    ("payloads", "expected"),
    [
        ((), SessionState(state="idle", since=START)),
        ((ASK,), state_at(1, "working", "Fix it")),
        ((ASK, message("assistant", "Done.\n```\n")), state_at(2, "idle", "Done.")),
        ((ASK, BASH), state_at(2, "working", "I run it.", tool=RUN, open=1)),
        ((ASK, BASH, DONE), state_at(3, "working", "212 lines")),
        (
            (ASK, BASH, message("tool", tool_result("c1", " \n"), tool_name="bash")),  # without a word
            state_at(3, "working", "I run it."),
        ),
        (
            (ASK, TWO, message("user", [text(" \n"), tool_result("c1", "2 lines")])),  # words would end the other call
            state_at(3, "working", "2 lines", tool=CalledTool("c2", "read", "a.py"), open=1),
        ),
        ((ASK, BASH, FAILED), state_at(3, "error", "ValueError: no", tool=RUN, error="ValueError: no")),
        (
            (ASK, BASH, FAILED, ToolExecution("c1", "bash", success=False, exit_code=2)),
            state_at(3, "error", "ValueError: no", tool=RUN, error="exit code 2"),
        ),
        (
            (ASK, TWO, FAILED),  # the other call still runs
            state_at(3, "working", "ValueError: no", tool=CalledTool("c2", "read", "a.py"), open=1),
        ),
        (
            (ASK, message("assistant", "Half", error="429: slow down", stop_reason="error")),
            state_at(2, "error", "Half", error="429: slow down"),
        ),
        ((ASK, BASH, FAILED, message("assistant", "No.")), state_at(4, "idle", "No.")),
        ((ASK, BASH, suspended("May I?")), state_at(3, "waits", "May I?", tool=RUN, open=1)),
        (
            (ASK, message("assistant", tool_use("c1", "AskUserQuestion", {"question": "Which?"}))),
            state_at(2, "waits", tool=CalledTool("c1", "AskUserQuestion", "Which?"), open=1),
        ),
        ((ASK, BASH, suspended("May I?"), ASK), state_at(4, "working", "Fix it")),
        (
            (ASK, message("assistant", [text("Stop"), tool_use("c1", "bash")], stop_reason="aborted")),
            state_at(2, "idle", "Stop"),
        ),
        ((ASK, BASH, BranchSummary("left it", "e1")), state_at(3, "idle", "left it")),
        (
            (message("assistant", "Done."), SessionInfo(status="done"), SessionInfo(name="x")),
            state_at(2, "done", "Done."),
        ),
        ((SessionInfo(status="done"), ASK), state_at(2, "working", "Fix it")),
        ((ASK, SessionInfo(archived=True)), state_at(2, "done", "Fix it")),
        (
            (
                SessionInfo(provider=Provider("openai", context_window=200_000)),
                message("assistant", "Hi", usage=Usage(100, 20, 1000, 50)),
            ),
            state_at(2, "idle", "Hi", tokens=1170, window=200_000),
        ),
    ],
)
def test_the_table_of_rules(payloads: Sequence[Payload], expected: SessionState) -> None:
    assert state_after(*payloads) == expected


def test_what_is_shown_of_a_call_and_of_a_text_is_one_short_line() -> None:
    def argument(arguments: dict[str, object]) -> str:
        return argument_of(tool_use("c", "t", arguments).tool_use)

    assert argument({"content": "text", "file_path": "src/a.py"}) == "src/a.py"
    assert argument({"n": 1, "why": "first\ntext"}) == "first text"
    assert argument({"n": 1}) == argument({}) == ""
    assert argument({"path": "p", "content": "x" * 100_000}) == ""  # too large to be decoded for one line
    assert len(argument({"command": "x" * 1000})) <= 80
    assert last_line("a\n" + "b" * 1000 + "\n---\n").startswith("bbb")
    assert len(last_line("b" * 1000)) <= 160
    assert last_line("***") == "***"


def random_payload(rng: random.Random, calls: list[str]) -> Payload:
    match rng.randrange(9):
        case 0 | 1:
            return message("user", f"words {rng.random()}")
        case 2 | 3:
            ids = [f"c{rng.random()}" for _ in range(rng.randrange(3))]
            calls[:] = ids
            used = [tool_use(each, "bash", {"command": each}) for each in ids]
            return message(
                "assistant",
                [f"answer {rng.random()}", *used],
                stop_reason=rng.choice([None, "stop", "aborted", "error"]),
            )
        case 4 | 5 if calls:
            call_id = calls.pop(0)
            return message("tool", tool_result(call_id, call_id, is_error=rng.random() < 0.3))
        case 6:
            return (
                SessionInfo(status=rng.choice(["done", "active"])) if rng.random() < 0.3 else Custom("x", raw_json(1))
            )
        case 7 if calls:
            return Custom(
                "treering.suspended", raw_json({"calls": [{"id": calls[0], "name": "bash", "reason": "ok?"}]})
            )
        case _:
            return message("assistant", thinking("hm"))


async def build(session: Session, rng: random.Random) -> None:
    calls: list[str] = []
    for _ in range(rng.randrange(1, 25)):
        await session.append(random_payload(rng, calls))
        if rng.random() < 0.15:
            await session.branch(rng.choice([entry.id or "" for entry in await session.entries()]))


@pytest.mark.parametrize("seed", range(12))
async def test_the_view_the_handle_and_the_rows_say_the_same(root: Path, seed: int) -> None:
    rng = random.Random(seed)
    async with SessionHost(root, clock=ManualClock(step=timedelta(seconds=1))) as host:
        session = await host.create("one")
        await session.append_message("user", "begin")
        async with session.subscribe("session_state") as changes:
            first = await anext(changes)
            assert isinstance(first, Snapshot)
            await build(session, rng)
            now = await session.state()
            replica = first.value
            while replica != now:  # a view that disagreed would never get there
                item = await anext(changes)
                replica = item.value if isinstance(item, Snapshot) else item.change
        (row,) = await host.list_sessions()
        assert row.state == now
    async with SessionHost(root) as host:
        (row,) = await host.list_sessions()
        assert row.state == now == await (await host.load("one")).state()
    (root / ".treering" / "index.jsonl").unlink()
    async with SessionHost(root) as host:
        (row,) = await host.list_sessions()
        assert row.state == now


async def test_the_states_of_a_listing_are_kept_and_read_no_log(root: Path) -> None:
    async with SessionHost(root) as host:
        for number in range(30):
            session = await host.create(f"s{number}")
            await session.append_message("user", f"task {number}")
    disk = CountingDisk()
    async with SessionHost(root, disk=disk) as host:
        rows = await host.list_sessions()
        assert {row.state.line for row in rows if row.state is not None} == {f"task {number}" for number in range(30)}
        assert disk.opened == []
    lines = (root / ".treering" / "index.jsonl").read_bytes().splitlines(keepends=True)
    assert all(b'"state":' in line for line in lines[1:])


async def test_the_row_of_a_session_whose_last_entries_left_the_cache_is_whole(root: Path) -> None:
    async with SessionHost(root, limits=Limits(cache_bytes_max=2000)) as host:
        one = await host.create("one")
        await one.append_message("user", "x" * 5000 + "\nlast")
        (row,) = await host.list_sessions()
        assert row.state is not None
        assert (row.state.line, row.state.state) == ("last", "working")
