"""The samples of each program, and what importing them gives: `tests/data/<program>/counts.txt` lists both."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).resolve().parents[1] / "data"
REAL = "fixtures/"
"""The beginning of the paths of files that programs wrote, which are not part of the project."""


class Sample(NamedTuple):
    """A file or folder, and the counts that importing it gives, over all of its sessions."""

    path: str
    format: str
    sessions: int
    entries: int
    messages: int
    findings: int

    @property
    def is_own(self) -> bool:
        return not self.path.startswith(REAL)

    def where(self, fixtures: Path = DATA) -> Path:
        """Return the place of the sample; the one that a program wrote is below `fixtures`."""
        return DATA / self.folder / self.path if self.is_own else fixtures / self.path.removeprefix(REAL)

    @property
    def folder(self) -> str:
        return self.format.replace("-", "_")


def samples() -> Iterator[Sample]:
    """Yield what the files list."""
    for file in sorted(DATA.glob("*/counts.txt")):
        _, *lines = file.read_text().splitlines()
        for path, *counts in map(str.split, lines):
            yield Sample(path, file.parent.name.replace("_", "-"), *map(int, counts))
