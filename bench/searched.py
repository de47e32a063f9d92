"""The sessions that are searched: many small native logs, written straight to disk, the same for the same numbers.

Their words are made of syllables, a few more frequent than others, so that an index of three characters each finds most of
them everywhere, as it does in what people write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from .workspace import HEADER, LINE

RARE = "serendipity"
"""Said by 20 entries in all, fewer than a search gives: whoever scans has to read everything."""

COMMON = "session"
"""Said by every second entry or so: a search has its 50 hits soon."""

RARE_HITS = 20
COMMON_HITS = 50
"""All that a search gives where nobody asks for more."""

_WORDS = 60
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


def write_sessions(root: Path, sessions: int, entries: int) -> None:
    """Write sessions, each a path of messages of about 400 characters.

    Args:
        root: The folder, which is made.
        sessions: How many.
        entries: How many messages each of them has.
    """
    root.mkdir()
    said = _texts(sessions * entries)
    for session in range(sessions):
        lines = [HEADER.replace('"bench"', f'"s{session}"')]
        for seq in range(1, entries + 1):
            parent = "null" if seq == 1 else f'"s{session}-{seq - 1}"'
            role = ("assistant", "user")[seq % 2]
            lines.append(LINE.format(id=f"s{session}-{seq}", parent=parent, seq=seq, role=role, text=next(said)))
        (root / f"s{session}.jsonl").write_text("".join(lines))


def _texts(count: int) -> Iterator[str]:
    random = Random(0)
    words = ["".join(random.choices(_SYLLABLES, k=random.randint(1, 4))) for _ in range(5_000)] + [COMMON] * 50
    rare = set(range(0, count, max(1, count // RARE_HITS))[:RARE_HITS])
    for number in range(count):
        said = " ".join(random.choices(words, k=_WORDS))
        yield f"{said} {RARE}" if number in rare else said
