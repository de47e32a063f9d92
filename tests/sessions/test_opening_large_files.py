"""Opening a file streams it: memory depends on the number of entries and the longest line, not on the file's size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import treering

ENTRIES = 100_000
PER_ENTRY = 250
PER_LINE = 2.5

OPEN = """
import resource, sys
import anyio
from treering import SessionHost

def peak():
    try:
        status = open("/proc/self/status").read()
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on systems without /proc
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024  # ru_maxrss would include the parent's peak

async def main():
    small, path, read_only = sys.argv[1], sys.argv[2], sys.argv[3] == "read_only"
    async with SessionHost(small.rpartition("/")[0]) as host:
        await (await host.load(small, read_only=read_only)).context()
        before = peak()
        session = await host.load(path, read_only=read_only)
        grown = peak() - before
        print(grown, session.cursor.seq, session.leaf_id)

anyio.run(main)
"""


def write(path: Path, dialect: str, bodies: list[str]) -> int:
    """Write a session with these messages, and return the length of the longest line."""
    version, parent = (1, "parent_id") if dialect == "native" else (3, "parentId")
    longest = 0
    with path.open("w", encoding="ascii") as file:
        header = {"type": "session", "version": version, "id": path.stem, "timestamp": "2026-01-01T00:00:00.000Z"}
        file.write(json.dumps(header) + "\n")
        before = "null"
        for number, body in enumerate(bodies, 1):
            content = f'[{{"type":"text","text":{{"content":"{body}"}}}}]' if dialect == "native" else f'"{body}"'
            line = (
                f'{{"type":"message","id":"{number:08x}","{parent}":{before},"timestamp":"2026-01-01T00:00:01.000Z",'
                f'"message":{{"role":"user","content":{content}}}}}\n'
            )
            longest = max(longest, file.write(line))
            before = f'"{number:08x}"'
    return longest


def open_in_process(small: Path, path: Path, how: str) -> tuple[int, int, str]:
    """Open a file in another process; return the growth of its peak memory, the head and the leaf."""
    environment = {**os.environ, "PYTHONPATH": str(Path(treering.__file__).parents[1])}
    command = [sys.executable, "-c", OPEN, str(small), str(path), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    grown, head, leaf = done.stdout.split()
    return int(grown), int(head), leaf


@pytest.mark.feature("U-15")
@pytest.mark.skipif(sys.platform == "win32", reason="the resource module, which gives the peak memory, is missing")
@pytest.mark.parametrize(("dialect", "how"), [("native", "write"), ("native", "read_only"), ("pi", "write")])
def test_opening_a_hundred_thousand_entries_uses_bounded_memory_per_entry(
    tmp_path: Path, dialect: str, how: str
) -> None:
    write(tmp_path / "small.jsonl", dialect, ["words"] * 2000)
    longest = write(tmp_path / "large.jsonl", dialect, ["words " * 30] * ENTRIES)
    grown, head, leaf = open_in_process(tmp_path / "small.jsonl", tmp_path / "large.jsonl", how)
    assert (head, leaf) == (ENTRIES, f"{ENTRIES:08x}")
    assert 0 < grown < PER_ENTRY * ENTRIES + PER_LINE * longest


@pytest.mark.feature("U-15")
@pytest.mark.skipif(sys.platform == "win32", reason="the resource module, which gives the peak memory, is missing")
@pytest.mark.parametrize(("dialect", "how"), [("native", "write"), ("pi", "read_only")])
def test_opening_a_line_of_a_hundred_megabytes_uses_a_small_multiple_of_its_length(
    tmp_path: Path, dialect: str, how: str
) -> None:
    write(tmp_path / "small.jsonl", dialect, ["words"] * 2000)
    longest = write(tmp_path / "large.jsonl", dialect, ["before", "x" * 100_000_000, "after"])
    grown, head, leaf = open_in_process(tmp_path / "small.jsonl", tmp_path / "large.jsonl", how)
    assert (head, leaf) == (3, "00000003")
    assert 0 < grown < PER_ENTRY * 3 + PER_LINE * longest
