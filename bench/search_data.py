"""The sessions to search: many small native logs, written straight to disk, identical for identical arguments.

Their words are composed of syllables, a few more frequent than others, so that most trigrams occur in most sessions, as
they do in real text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

from .workspace import HEADER, LINE

RARE = "serendipity"
"""Occurs in 20 entries in all, fewer than the limit of a search: a scan has to read everything."""

COMMON = "session"
"""Occurs in about every second entry: a search finds its 50 hits early."""

RARE_HITS = 20
COMMON_HITS = 50
"""The default limit of a search."""

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
        root: The folder to create.
        sessions: The number of sessions.
        entries: The number of messages in each of them.
    """
    root.mkdir()
    texts = _texts(sessions * entries)
    for session in range(sessions):
        lines = [HEADER.replace('"bench"', f'"s{session}"')]
        for seq in range(1, entries + 1):
            parent = "null" if seq == 1 else f'"s{session}-{seq - 1}"'
            role = ("assistant", "user")[seq % 2]
            lines.append(LINE.format(id=f"s{session}-{seq}", parent=parent, seq=seq, role=role, text=next(texts)))
        (root / f"s{session}.jsonl").write_text("".join(lines))


def _texts(count: int) -> Iterator[str]:
    random = Random(0)
    words = ["".join(random.choices(_SYLLABLES, k=random.randint(1, 4))) for _ in range(5_000)] + [COMMON] * 50
    rare = set(range(0, count, max(1, count // RARE_HITS))[:RARE_HITS])
    for number in range(count):
        text = " ".join(random.choices(words, k=_WORDS))
        yield f"{text} {RARE}" if number in rare else text
