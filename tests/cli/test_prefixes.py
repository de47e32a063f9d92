"""Ids in lists: shortened to unambiguous prefixes, and never left out."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from treering import SessionHost
from treering.cli.columns import aligned
from treering.cli.rows import Prefixes

FIRST, SECOND, LATER = (
    "019a2f4c-7d10-7c31-9d2e-000000000001",
    "019a2f4c-7d19-7c31-9d2e-000000000002",
    "019b0000-0000-7c31-9d2e-000000000003",
)
NOW = datetime.now(UTC)

from .conftest import Cli


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ([FIRST], ["019a2f4c"]),
        ([FIRST, SECOND, LATER], ["019a2f4c-7d10", "019a2f4c-7d19", "019b0000"]),
        ([FIRST, "019a2f4c-8"], ["019a2f4c-7", "019a2f4c-8"]),
        ([LATER, "019b0000"], ["019b0000-0", "019b0000"]),
        ([FIRST, FIRST], [FIRST, FIRST]),
        (["telegram_123456789", "telegram_1"], ["telegram_123456789", "telegram_1"]),
        ([FIRST.upper()], ["019A2F4C"]),
        (["a\x1bb"], ["a\ufffdb"]),
    ],
)
def test_a_uuid_is_shortened_to_an_unambiguous_prefix(ids: list[str], shown: list[str]) -> None:
    prefixes = Prefixes(ids)
    assert [prefixes.of(each) for each in ids] == shown


def test_an_id_that_is_too_long_is_shortened_to_an_unambiguous_prefix() -> None:
    ids = ["rollout-2026-01-02-one", "rollout-2026-01-02-two", "telegram_1", FIRST]
    assert [Prefixes(ids, longest=12).of(each) for each in ids] == [
        "rollout-2026-01-02-o",
        "rollout-2026-01-02-t",
        "telegram_1",
        "019a2f4c",
    ]
    assert [Prefixes(ids[1:], longest=12).of(each) for each in ids[1:]] == ["rollout-2026", "telegram_1", "019a2f4c"]


def test_one_column_is_shortened_before_others_are_dropped_in_order() -> None:
    row = ["a name of some length", "Today", "2 messages", "019a2f4c", "/home/somebody/work/shop"]

    def cells(width: int) -> list[str]:
        return [each.strip() for each in aligned([row], width, droppable=(2, 1), shortened=4)[0]]

    assert cells(100) == row
    assert cells(70)[1:4] == row[1:4]
    assert cells(70)[4].startswith("…")
    assert cells(70)[4].endswith("work/shop")
    assert cells(56)[1:3] == ["Today", "019a2f4c"]
    assert cells(45)[1] == "019a2f4c"
    assert cells(20)[1] == "019a2f4c"
    for width in (100, 70, 56, 45):
        assert sum(map(len, aligned([row], width, droppable=(2, 1), shortened=4)[0])) <= width


def test_a_narrow_terminal_shows_unambiguous_ids(cli: Cli, tmp_path: Path) -> None:
    cwd = tmp_path / "a folder with a long name" / "and another one below it"
    for session_id in (FIRST, SECOND, LATER):
        cli.create("How do we make the importer of the old archive faster?", session_id=session_id, cwd=cwd)
    terminal = cli.terminal("sessions", "--all", columns=80)
    terminal.until("019b0000")
    terminal.wait()
    shown = [line for line in terminal.lines if line.strip()]
    assert len(shown) == 3
    for line, session_id in zip(shown, (LATER, SECOND, FIRST), strict=True):
        assert "below it" in line
        assert "How do we make" in line
        (word,) = [word for word in line.split() if word.startswith("019")]
        assert session_id.startswith(word)
        assert cli("info", word).exit_code == 0


def test_a_file_with_a_long_name_that_cannot_be_read_leaves_room_for_the_other_sessions(cli: Cli) -> None:
    cli.create("How do we make it faster?", session_id=LATER)
    name = "rollout-2026-01-02T10-00-00-019b0000-0000-7000-8000-000000000001"
    (cli.root / f"{name}.jsonl").write_text("noise\n")
    terminal = cli.terminal("sessions", "--all", columns=80)
    terminal.until("019b0000")
    terminal.wait()
    broken, intact = sorted((line for line in terminal.lines if line.strip()), key=lambda line: "faster" in line)
    assert "How do we make it faster?" in intact
    assert broken.split()[0].startswith("rollout-2026")
    assert broken.split()[-1] == "corrupted"
    (word,) = [word for word in broken.split()[1:] if word.startswith("rollout")]
    assert f"{name}.jsonl" in cli("info", word).stderr


def test_sessions_are_listed_by_the_time_shown_and_last_is_the_first_of_them(cli: Cli) -> None:
    old = cli.create("The old one", at=NOW - timedelta(days=400))
    new = cli.create("The new one", at=NOW - timedelta(days=2))

    async def load() -> None:
        async with SessionHost(cli.root) as host:
            await host.load(old)

    assert cli.lines("sessions")[0].split()[:3] == ["The", "new", "one"]
    assert new in cli("info", "last", "--json").stdout
    anyio.run(load)
    first, second = cli.lines("sessions")
    assert ("The old one" in first, "Today" in first) == (True, True)
    assert "The new one" in second
    assert old in cli("info", "last", "--json").stdout
