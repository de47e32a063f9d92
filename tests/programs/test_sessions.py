"""The rows of the sessions that programs keep: where they are found, and what happens as the programs write."""

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import anyio
import pytest
from structlog.testing import capture_logs
from watchfiles import _rust_notify

from treering.actors.programs import sessions as program_sessions
from treering.actors.programs.files import Search, look_at
from treering.actors.programs.sessions import ProgramChange, ProgramSession, ProgramSessions
from treering.events.disk import notices
from treering.events.offload import ThreadOffload
from treering.formats.glances import HEAD_BYTES, TAIL_BYTES, Excerpt

from .homes import DATA, GROVE, OVEN, Database, Machine, append, claude_line

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RINGS = "0195f0a0-0000-7000-8000-0000000000a3"
WEIGHING = "355300eb-62c2-4c35-beb7-29c00b768b8a"
BREAD = "f11b4c80-ee30-440f-8935-6ef017c91e41"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


class Noting(ThreadOffload):
    """An offload that notes which files were looked at, and how often all folders were searched."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[str] = []
        self.searches = 0
        self.ending: anyio.CancelScope | None = None  # is cancelled when a change is looked up

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        self.searches += fn.__name__ == Search.__name__
        if self.ending is not None and fn.__name__ == "_affected":
            self.ending.cancel()
            self.ending = None
        for each in args:
            if fn.__name__ == look_at.__name__ and isinstance(each, Sequence):
                self.looked_at += [file.path.name for file, _ in each]
        return await super().__call__(fn, *args)


async def started(sessions: ProgramSessions) -> list[ProgramChange]:
    """Wait until all sessions were looked at, and return what was told."""
    told: list[ProgramChange] = []
    while not sessions.is_complete:
        told += await sessions.receive_many()
    return told


async def until(sessions: ProgramSessions, holds: Callable[[], bool]) -> list[ProgramChange]:
    """Wait until something holds, and return what was told meanwhile."""
    told: list[ProgramChange] = []
    while not holds():
        told += await sessions.receive_many()
    return told


def line_of(row: ProgramSession | None) -> str:
    return "" if row is None or row.state is None else row.state.line


async def test_sessions_of_all_programs_are_found_where_each_keeps_them(machine: Machine) -> None:
    machine.fill()
    shutil.copytree(DATA / "copilot" / "weighing", machine.copilot / "weighing")
    machine.fill_qwen()
    before = machine.state()
    with ProgramSessions(machine.environ) as sessions:
        told = await started(sessions)
        now = datetime.now(UTC)
        rows = {(row.program, row.id): (row.title, row.cwd, row.doing(now)) for row in sessions.rows.values()}
        assert (rows.pop(("copilot", WEIGHING))[0] or "").startswith("Ask the weigher.")
        assert rows == {
            ("claude-code", GROVE): ("Plant the pears.", "/home/mara/grove", "idle"),
            ("claude-code", "5d6e8f11-2a3b-4c4d-8e5f-60718293a4b5"): (
                "Have the hedge looked at, and the pond.",
                "/home/mara/orchard",
                "idle",
            ),
            ("codex", OVEN): ("Oven test", "/work/bakery", "idle"),
            ("gemini", "5a5a5a5a-0000-4000-8000-000000000001"): ("List the recipes.", "/work/bakery", "idle"),
            ("opencode", "ses_1"): ("Baking", "/work/bakery", "idle"),
            ("opencode", "ses_2"): ("Empty", "/work/bakery", "idle"),
            ("pi", RINGS): ("Rings", "/work/rings", "idle"),
            ("qwen", BREAD): ("What is in the bread? See @bread.md", "/work/bakery", "error"),
        }
        assert {change.key for change in told} == {*rows, ("copilot", WEIGHING)}
        assert machine.state() == before
        with ProgramSessions(machine.environ, ["codex"]) as only:
            await started(only)
            assert [row.id for row in only.rows.values()] == [OVEN]


async def test_what_programs_write_is_told_and_only_their_files_are_read(machine: Machine) -> None:
    machine.fill()
    noting = Noting()
    with ProgramSessions(machine.environ, offload=noting) as sessions:
        await started(sessions)
        key = ("claude-code", GROVE)
        noting.looked_at.clear()

        append(machine.growing, claude_line(3, "And the quinces?"))
        told = await until(sessions, lambda: line_of(sessions.rows[key]) == "And the quinces?")
        assert {each.key for each in told} == {key}
        append(machine.growing, claude_line(3, "And the quinces, mother?"))
        await until(sessions, lambda: line_of(sessions.rows[key]) == "And the quinces, mother?")
        assert noting.searches == 2, "once before notifications are opened, and once after"
        row = sessions.rows[key]
        assert row.doing(row.updated + timedelta(seconds=60)) == "working"
        assert row.doing(row.updated + timedelta(hours=1)) == "idle"

        half = claude_line(4, "Tomorrow.", "assistant")
        append(machine.growing, half[:50])
        looked = len(noting.looked_at)
        while len(noting.looked_at) == looked:  # it is seen, and says nothing yet
            with anyio.move_on_after(0.05):
                told = await sessions.receive_many()
                raise AssertionError(told)
        append(machine.growing, half[50:])
        await until(sessions, lambda: line_of(sessions.rows[key]) == "Tomorrow.")
        assert set(noting.looked_at) == {machine.growing.name}

        machine.omp.mkdir(parents=True)  # a program that was not there
        written = (machine.pi / "rings.jsonl").read_bytes()
        (machine.pi / "rings.jsonl").unlink()
        (machine.pi / "again.jsonl").write_bytes(written.replace(RINGS.encode(), b"again"))
        await until(sessions, lambda: ("pi", "again") in sessions.rows and ("pi", RINGS) not in sessions.rows)


async def test_damage_in_one_program_is_a_mark_in_its_row_and_others_go_on(machine: Machine) -> None:
    machine.fill()
    whole = machine.rollout.read_bytes()
    (machine.pi / "newer.jsonl").write_bytes(
        b'{"type":"session","version":99,"id":"n","timestamp":"2026-01-01T00:00:00Z"}\n'
    )
    (machine.claude / "notes.jsonl").write_bytes(b"no session at all\n")
    with ProgramSessions(machine.environ) as sessions:
        await started(sessions)
        unread = {row.path: row for row in sessions.rows.values() if row.state is None}
        assert {Path(path).name for path in unread} == {"newer.jsonl", "notes.jsonl"}
        assert "has version 99" in (unread[str(machine.pi / "newer.jsonl")].problem or "")
        machine.rollout.write_bytes(b"\0" * 300 + b"\n")
        oven = ("codex", OVEN)
        await until(sessions, lambda: sessions.rows[oven].state is None)
        row = sessions.rows[oven]
        assert (row.id, row.title, row.cwd, row.doing(row.updated)) == (OVEN, "Oven test", "/work/bakery", "error")
        assert row.problem == "the file is not a session of Codex"
        append(machine.growing, claude_line(3, "Still here?"))
        await until(sessions, lambda: line_of(sessions.rows["claude-code", GROVE]) == "Still here?")
        append(machine.growing, b"{ not json\n", claude_line(4, "Yes.", "assistant"))
        await until(sessions, lambda: line_of(sessions.rows["claude-code", GROVE]) == "Yes.")
        assert "not a JSON object" in (sessions.rows["claude-code", GROVE].problem or "")
        machine.rollout.write_bytes(whole)
        await until(sessions, lambda: line_of(sessions.rows[oven]) == "Thanks.")
        assert sessions.rows[oven].problem is None


async def test_of_a_long_file_only_the_beginning_and_the_end_are_read(machine: Machine) -> None:
    many = b"".join(claude_line(number, f"{number}: {'word ' * 200}") for number in range(2, 4000))
    machine.growing.write_bytes(claude_line(1, "Plant the pears.") + many + claude_line(4000, "At last.", "assistant"))
    assert len(Excerpt.of(machine.growing).data) <= HEAD_BYTES + TAIL_BYTES < machine.growing.stat().st_size // 20
    with ProgramSessions(machine.environ) as sessions:
        await started(sessions)
        (row,) = sessions.rows.values()
        assert (row.title, line_of(row), row.problem) == ("Plant the pears.", "At last.", None)
        append(machine.growing, claude_line(4001, "x" * 3 * TAIL_BYTES), claude_line(4002, "Longer.", "assistant"))
        await until(sessions, lambda: line_of(*sessions.rows.values()) == "Longer.")


async def test_the_rows_are_bounded_and_those_that_changed_last_are_kept(machine: Machine) -> None:
    for number in range(40):
        name = f"{number:08}-0000-4000-8000-000000000000"
        (machine.claude / f"{name}.jsonl").write_bytes(claude_line(number + 1, f"Question {number}", session=name))
    with ProgramSessions(machine.environ, sessions_max=10) as sessions:
        await started(sessions)
        assert len(sessions.rows) == 10
        append(machine.growing, claude_line(500, "The newest."))
        await until(sessions, lambda: ("claude-code", GROVE) in sessions.rows)
        assert len(sessions.rows) == 10


async def test_a_call_that_is_cancelled_loses_nothing(machine: Machine) -> None:
    machine.fill()
    noting = Noting()
    following = ProgramSessions(machine.environ, offload=noting)
    with following as sessions, ProgramSessions(machine.environ) as whole:
        await started(whole)
        calls = 0
        while not sessions.is_complete:
            calls += 1
            with anyio.move_on_after(0.002 * calls):
                await sessions.receive_many()
        assert sessions.rows == whole.rows
        with anyio.move_on_after(0.05) as scope:
            await sessions.receive_many()
        assert scope.cancelled_caught
        append(machine.growing, claude_line(3, "After all."))
        await until(sessions, lambda: line_of(sessions.rows["claude-code", GROVE]) == "After all.")
        noting.ending = scope = anyio.CancelScope()
        append(machine.growing, claude_line(4, "Well then."))
        with scope:
            await until(sessions, lambda: False)
        searches = noting.searches
        await until(sessions, lambda: line_of(sessions.rows["claude-code", GROVE]) == "Well then.")
        assert noting.searches == searches


@pytest.mark.parametrize("why", ["none", "too few", "not UTF-8"])
async def test_where_not_every_change_is_told_all_folders_are_searched_again_and_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(program_sessions, "POLLS_EVERY_S", 0.01)
    if why == "none":
        monkeypatch.setattr(_rust_notify, "RustNotify", refuse)
    elif why == "too few":
        monkeypatch.setattr(notices, "FOLDERS_MAX", 1)
    folder = machine.claude.with_name("caf\udce9" if why == "not UTF-8" else "-home-mara")
    machine.fill()
    with ProgramSessions(machine.environ) as sessions, capture_logs() as logs:
        await started(sessions)
        folder.mkdir()
        (folder / "b.jsonl").write_bytes(claude_line(1, "Found?", session="b"))
        await until(sessions, lambda: ("claude-code", "b") in sessions.rows)
        append(folder / "b.jsonl", claude_line(2, "Found.", "assistant", session="b"))
        await until(sessions, lambda: line_of(sessions.rows["claude-code", "b"]) == "Found.")
    assert len([each for each in logs if each["event"] == "watch_polls"]) == (why == "none")


async def test_sessions_that_are_followed_again_are_as_their_programs_left_them(machine: Machine) -> None:
    machine.fill()
    sessions = ProgramSessions(machine.environ)
    with pytest.raises(RuntimeError, match="inside a `with` block"):
        await sessions.receive_many()
    with sessions:
        await started(sessions)
    append(machine.growing, claude_line(3, "Meanwhile."))
    with sessions:
        await until(sessions, lambda: line_of(sessions.rows["claude-code", GROVE]) == "Meanwhile.")


async def test_a_database_is_followed_without_a_trace_in_its_folder(machine: Machine) -> None:
    database = Database(machine.opencode / "opencode.db")
    for number in range(1, 31):
        database.say("ses_a", number, "user" if number % 2 else "assistant", f"a {number}")
    database.say("ses_b", 31, "user", "b 31")
    before = machine.state()
    with ProgramSessions(machine.environ) as sessions:
        await started(sessions)
        assert {row.id: (row.title, line_of(row)) for row in sessions.rows.values()} == {
            "ses_a": ("About ses_a", "a 30"),
            "ses_b": ("About ses_b", "b 31"),
        }
        assert machine.state() == before
        database.say("ses_b", 200, "assistant", "b 200")
        told = await until(sessions, lambda: line_of(sessions.rows["opencode", "ses_b"]) == "b 200")
        assert {each.key for each in told} == {("opencode", "ses_b")}
        database.close()


async def test_what_is_deleted_in_a_database_is_gone_and_the_rest_is_not_read_again(machine: Machine) -> None:
    database = Database(machine.opencode / "opencode.db")
    for number, session in enumerate(("ses_a", "ses_b", "ses_c")):
        database.say(session, 1000 * number, "user", f"About {session[-1]}")

    def are(left: list[str]) -> bool:
        return sorted(row.id for row in sessions.rows.values()) == left

    with ProgramSessions(machine.environ) as sessions:
        await started(sessions)
        for deleted, left in (("ses_a", ["ses_b", "ses_c"]), ("ses_c", ["ses_b"]), ("ses_b", [])):
            database.delete(deleted)
            told = await until(sessions, partial(are, left))
            assert [each for each in told if each.row is None] == [ProgramChange(("opencode", deleted), None)]
        database.say("ses_a", 5000, "user", "Again")
        await until(sessions, lambda: line_of(sessions.rows.get(("opencode", "ses_a"))) == "Again")
    database.close()
