"""The samples that docs/formats.md lists, for the tests of importing."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[2]
DOC = PROJECT / "docs" / "formats.md"
COLUMNS = ["sample", "format", "sessions", "entries", "messages", "findings"]


class Sample(NamedTuple):
    """A row of the table: a file or folder, and the counts that importing it gives."""

    path: str
    format: str
    sessions: int
    entries: int
    messages: int
    findings: int

    @property
    def is_own(self) -> bool:
        return self.path.startswith("tests/")


def samples() -> list[Sample]:
    """Read the tables in docs/formats.md that have these columns."""
    found: list[Sample] = []
    inside = False
    for line in DOC.read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if cells == COLUMNS:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not set(cells[0]) <= {"-"}:
            path, format, *counts = cells
            found.append(Sample(path, format, *map(int, counts)))
    return found
