"""The library's own suites with PostgreSQL as the store: sessions, subscriptions, catalog, search, and so on."""

from pathlib import Path
from zlib import crc32

import pytest
from tests.stores.over_stores import ROOMS
from tests.stores.suites import run_suites

import treering.stores.postgres

from .conftest import programs

PARTS = 4
PASSED_MIN = 320
WHOLE_S = 1800


@pytest.fixture(autouse=True)
def _installed() -> None:
    programs()


def turn() -> tuple[str, str]:
    """Return whose turn it is, a room and a part of it: each state of the store's code has one of its own."""
    folder = Path(treering.stores.postgres.__file__).parent
    number = crc32(b"".join(each.read_bytes() for each in sorted(folder.rglob("*.py"))))
    rooms = ROOMS["postgres"]
    return rooms[number % len(rooms)], f"{number // len(rooms) % PARTS}/{PARTS}"


def test_a_part_of_the_suites_passes_over_postgres_each_in_its_turn() -> None:
    room, part = turn()
    assert run_suites("postgres", rooms=[room], part=part)


@pytest.mark.feature("C-2")
@pytest.mark.soak
@pytest.mark.timeout(WHOLE_S)
def test_the_suites_pass_over_postgres() -> None:
    assert run_suites("postgres", "-n", "2", "--dist", "loadfile", within_s=WHOLE_S) > PASSED_MIN
