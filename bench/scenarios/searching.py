"""Searching many sessions: with the index brought up to date already, and by reading the logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import anyio

from ..peer import Peer
from ..scenario import Goal, Scale, Scenario, Side, millis
from ..timing import Sample, timed
from ..workspace import HEADER, LINE, Workspace

ENTRIES = 50
WORDS = 60
RARE = "serendipity"
COMMON = "session"
_SYLLABLES = (
    "ses",
    "sion",
    "ta",
    "ble",
    "in",
    "dex",
    "que",
    "ry",
    "lo",
    "ad",
    "er",
    "ror",
    "pa",
    "th",
    "no",
    "de",
    "un",
)


def _fill(sessions: int, folder: Path) -> None:
    """Write sessions of 50 entries, of words that are more or less frequent; one entry of a thousand says the rare one."""
    random = Random(0)
    words = ["".join(random.choices(_SYLLABLES, k=random.randint(1, 4))) for _ in range(5_000)] + [COMMON] * 50
    numbers = count(1)
    (folder / "sessions").mkdir()
    for session in range(sessions):
        lines = [HEADER.replace('"bench"', f'"s{session}"')]
        for seq in range(1, ENTRIES + 1):
            number = next(numbers)
            said = " ".join(random.choices(words, k=WORDS)) + (f" {RARE}" if number % 1000 == 0 else "")
            role, parent = ("assistant", "user")[seq % 2], f'"e{number - 1}"' if seq > 1 else "null"
            lines.append(LINE.format(id=f"e{number}", parent=parent, seq=seq, role=role, text=said))
        (folder / "sessions" / f"s{session}.jsonl").write_text("".join(lines))


def _search(sessions: int, query: str, index: bool, space: Workspace) -> Sample:
    from treering import SessionHost

    root = space.kept(f"searched-{sessions}", partial(_fill, sessions)) / "sessions"

    async def run() -> Sample:
        sample = Sample()
        async with SessionHost(root) as host:
            async for _ in host.search(query, index=index):
                pass  # whoever searches once, searches again
            with timed(sample):
                found = [hit async for hit in host.search(query, index=index)]
            assert found or sessions * ENTRIES < 1000
        return sample

    return anyio.run(run)


def _sides(query: str) -> Callable[[Sequence[Peer], Scale], list[Side]]:
    def sides(_: Sequence[Peer], scale: Scale) -> list[Side]:
        return [
            Side(name, partial(_search, scale.held, query, index)) for name, index in (("index", True), ("scan", False))
        ]

    return sides


_NOTE = "The first 50 hits, in a host that searched before. The index looks at every file to see what has changed."

SCENARIOS = [
    Scenario(
        "search-rare",
        "search 10,000 sessions of 50 entries for a rare word",
        "ms",
        millis,
        _sides(RARE),
        (Goal("index", "figure", 50),),
        rounds_max=3,
        note=_NOTE,
    ),
    Scenario(
        "search-common",
        "search 10,000 sessions of 50 entries for a common word",
        "ms",
        millis,
        _sides(COMMON),
        (Goal("index", "figure", 50),),
        rounds_max=3,
        note=_NOTE,
    ),
]
