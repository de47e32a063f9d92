"""The sessions of programs in a host: as they begin and end, whole when they are opened, and as they grow."""

from functools import partial
from pathlib import Path

import pytest

from treering import SessionHost
from treering.errors import ForeignFormatError, SessionNotFound

from .homes import GROVE, OVEN, Database, Machine, append, claude_line, mirrored, until

RINGS = "0195f0a0-0000-7000-8000-0000000000a3"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "home")
    machine.fill()
    return machine


async def ids_of(host: SessionHost, session_id: str) -> list[str | None]:
    async with await host.load(session_id, read_only=True) as session:
        return [entry.id for entry in await session.entries()]


async def test_a_session_is_read_whole_when_it_is_opened_and_not_before(machine: Machine, tmp_path: Path) -> None:
    (machine.opencode / "storage").rename(tmp_path / "storage")
    database = Database(machine.opencode / "opencode.db")
    for number in range(1, 31):
        database.say("ses_a", number, "user" if number % 2 else "assistant", f"a {number}")
    many = [claude_line(number, f"word {number} " * 100) for number in range(3, 400)]
    append(machine.growing, *many, claude_line(400, "Done.", "assistant"))
    before = machine.state()
    async with mirrored(machine, tmp_path / "root") as mirror, SessionHost(tmp_path / "imported") as imported:
        await imported.import_sessions(machine.home)
        await until(mirror, lambda lines: len(lines) == 6)
        root = tmp_path / "root"
        assert sum(path.stat().st_size for path in root.glob("*.jsonl")) < machine.growing.stat().st_size // 4
        for session_id in (GROVE, OVEN, "ses_a", RINGS, "5a5a5a5a-0000-4000-8000-000000000001"):
            assert not mirror.is_whole(session_id)
            assert len(await ids_of(mirror.host, session_id)) < len(await ids_of(imported, session_id))
            await mirror.open(session_id)
            assert mirror.is_whole(session_id)
            assert await ids_of(mirror.host, session_id) == await ids_of(imported, session_id)
    database.close()
    assert {path: data for path, (data, _) in machine.state().items() if "opencode" not in path} == {
        path: data for path, (data, _) in before.items() if "opencode" not in path
    }


async def test_an_opened_session_grows_for_those_who_follow_it_and_goes_with_its_file(
    machine: Machine, tmp_path: Path
) -> None:
    async with mirrored(machine, tmp_path / "root") as mirror:
        await until(mirror, lambda lines: lines.get(GROVE) == "Planted.")
        await mirror.open(GROVE)
        session = await mirror.host.load(GROVE, read_only=True)
        async with session.subscribe(after=session.cursor) as entries:
            for number in (3, 4):
                append(machine.growing, claude_line(number, f"Row {number}?"))
                assert (await anext(entries)).id == f"u{number}"  # type: ignore[union-attr]  # nothing was replaced
        assert mirror.is_live(session.ref) is False  # the sample is of long ago
        machine.growing.unlink()
        await until(mirror, lambda lines: GROVE not in lines)
        with pytest.raises(SessionNotFound):
            await mirror.host.load(GROVE)


async def test_a_session_that_is_deleted_in_a_database_goes_from_the_listing_and_from_search(
    machine: Machine, tmp_path: Path
) -> None:
    (machine.opencode / "storage").rename(tmp_path / "storage")
    database = Database(machine.opencode / "opencode.db")
    for number, session in enumerate(("ses_a", "ses_b", "ses_c")):
        database.say(session, 1000 * number, "user", f"Walnuts for {session}")

    def lacks(deleted: str, lines: dict[str, str]) -> bool:
        return deleted not in lines

    async def found() -> list[str]:
        return sorted([hit.session_id async for hit in mirror.host.search("walnuts")])

    async with mirrored(machine, tmp_path / "root") as mirror:
        await until(mirror, lambda lines: {"ses_a", "ses_b", "ses_c"} <= lines.keys())
        await mirror.open("ses_b")
        assert await found() == ["ses_a", "ses_b", "ses_c"]
        for deleted, left in (("ses_a", ["ses_b", "ses_c"]), ("ses_b", ["ses_c"])):
            database.delete(deleted)
            await until(mirror, partial(lacks, deleted))
            assert await found() == left
            with pytest.raises(SessionNotFound):
                await mirror.host.load(deleted)
        assert (mirror.row("ses_a"), mirror.is_whole("ses_b")) == (None, False)
    database.close()


async def test_what_is_held_whole_is_bounded(machine: Machine, tmp_path: Path) -> None:
    roles = ("assistant", "user")
    append(machine.growing, *(claude_line(number, "word " * 200, roles[number % 2]) for number in range(3, 200)))
    async with mirrored(machine, tmp_path / "root", whole_max=1) as mirror:
        await until(mirror, lambda lines: {GROVE, OVEN} <= lines.keys())
        whole = machine.growing.stat().st_size
        await mirror.open(GROVE)
        await mirror.open(OVEN)
        assert (mirror.is_whole(GROVE), mirror.is_whole(OVEN)) == (False, True)
        kept = [path for path in (tmp_path / "root").iterdir() if GROVE in path.name]
        assert sum(path.stat().st_size for path in kept) < whole // 4
        await mirror.open(GROVE)
        assert len(await ids_of(mirror.host, GROVE)) == 199


async def test_what_cannot_be_read_says_so_and_the_others_go_on(machine: Machine, tmp_path: Path) -> None:
    async with mirrored(machine, tmp_path / "root") as mirror:
        await until(mirror, lambda lines: {GROVE, OVEN} <= lines.keys())
        machine.rollout.write_bytes(b"torn\n")
        append(machine.growing, claude_line(3, "Still here?"))
        await until(mirror, lambda lines: lines.get(GROVE) == "Still here?")
        async with mirror.host.subscribe_sessions() as changes:
            async for _ in changes:
                row = mirror.row(OVEN)
                if row is not None and row.problem is not None:
                    break
        with pytest.raises(ForeignFormatError, match="not a session of Codex"):
            await mirror.open(OVEN)
        await mirror.open(GROVE)
        assert await ids_of(mirror.host, GROVE) == ["u1", "u2", "u3"]
