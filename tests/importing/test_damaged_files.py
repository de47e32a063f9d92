"""Importing a damaged file gives sessions or a typed error: it raises no other error, and always ends."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TypeVar, TypeVarTuple

import pytest

from treering import SessionHost, UnsupportedVersion
from treering.errors import ForeignFormatError
from treering.sessions import ImportReport

from .samples import Sample, samples

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

KEPT = {"native", "pi", "omp"}
"""Formats whose lines are kept as they are, including damaged ones and repeated ids."""

CUTS = 4
FLIPS = 4
SHORT = 8
"""One of so many damaged copies of a sample is imported by `make test`, and each by `make soak`."""
SIZE_MAX = 48 * 1024
"""Longer files are first truncated to this size: their many lines are alike."""


def damaged_copies(data: bytes, random: Random) -> Iterator[tuple[str, bytes]]:
    """Yield copies of a file, each with different damage."""
    lines = data.splitlines(keepends=True)
    ends = {0, 1, len(data) - 1, *(random.randrange(len(data)) for _ in range(CUTS))}
    for end in sorted(ends):
        yield f"cut at {end}", data[:end]
        yield f"begins at {end}", data[end:]
    for _ in range(FLIPS):
        broken = bytearray(data)
        for _ in range(random.choice((1, 1, 40))):
            broken[random.randrange(len(data))] ^= 1 << random.randrange(8)
        yield "bits flipped", bytes(broken)
    places = [place for place, byte in enumerate(data) if byte == ord(":")]
    for odd in (b"null", b"-1", b'"x"', b"[7]", b"{}", b"true", b"1e400", b"[[]]"):
        start = random.choice(places) + 1 if places else 0
        yield f"{odd!r} at {start}", data[:start] + odd + data[start + random.choice((1, 4, 12, 40)) :]
    for _ in range(4):
        first, second = random.randrange(len(lines)), random.randrange(len(lines))
        swapped = list(lines)
        swapped[first], swapped[second] = swapped[second], swapped[first]
        yield f"lines {first} and {second} swapped", b"".join(swapped)
        yield f"line {first} dropped", b"".join(lines[:first] + lines[first + 1 :])
        yield f"line {first} twice", b"".join(lines[: first + 1] + lines[first:])
        yield f"line {first} joined to the next", b"".join(lines)[:-1].replace(lines[first], lines[first][:-1])
        yield f"zeros in line {first}", b"".join([*lines[:first], b"\0" * 4096, *lines[first:]])
    yield "lines shuffled", b"".join(random.sample(lines, len(lines)))
    for old, new in (
        (b'"', b"'"),
        (b"{", b"["),
        (b"null", b"7"),
        (b":[", b":{"),
        (b'":"', b'":["'),
        (b"[", b"[" * 3000),
    ):
        yield f"{old!r} for {new[:9]!r}", data.replace(old, new)
        yield f"one {old!r} for {new[:9]!r}", data.replace(old, new, 1)


async def run_inline(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Run blocking work inline: for so many imports, threads would take longer than the work itself."""
    return fn(*args)


async def import_damaged_copies(sample: Path, root: Path, every: int) -> None:
    """Import one of so many copies of a sample, each with one damaged file."""
    source = root / sample.name
    copy(sample, source)
    files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    taken = refused = 0
    async with SessionHost(offload=run_inline) as host:
        for at, file in enumerate(files):
            whole = file.read_bytes()
            for number, (what, data) in enumerate(damaged_copies(whole[:SIZE_MAX], Random(file.name))):
                if (number - at) % max(every, len(files)) == 0:
                    file.write_bytes(data)
                    reports = await outcome(host, source, f"{file.name}: {what}")
                    taken += len(reports) > 0
                    refused += not reports
            file.write_bytes(whole)
    assert taken > 0
    assert refused > 0 or source.is_dir()


def copy(sample: Path, target: Path) -> None:
    """Copy a sample, with the files beside it that belong to it."""
    target.parent.mkdir(parents=True)
    if sample.is_dir():
        shutil.copytree(sample, target)
        return
    for beside in sample.parent.glob(f"{sample.stem}*"):
        if beside.is_dir():
            shutil.copytree(beside, target.parent / beside.name)
        else:
            shutil.copy(beside, target.parent)


async def outcome(host: SessionHost, source: Path, what: str) -> list[ImportReport]:
    try:
        reports = await host.import_sessions(source)
    except (ForeignFormatError, UnsupportedVersion):
        return []
    assert reports, what
    for report in reports:
        session = await host.load(report.ref)
        entries = await session.entries()
        assert len({entry.id for entry in entries}) == len(entries) or report.format in KEPT, what
        assert report.added == len([entry for entry in entries if entry.id]), what
        await host.delete(session)
    return reports


EVERY = [SHORT, pytest.param(1, marks=pytest.mark.soak)]


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("sample", [each for each in samples() if each.is_own], ids=lambda each: str(each.path))
async def test_damaged_own_samples_are_imported_or_refused(sample: Sample, every: int, tmp_path: Path) -> None:
    await import_damaged_copies(sample.where(), tmp_path / "copy", every)


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("sample", [each for each in samples() if not each.is_own], ids=lambda each: str(each.path))
async def test_damaged_real_files_are_imported_or_refused(
    sample: Sample, every: int, tmp_path: Path, shared_fixtures: Path
) -> None:
    await import_damaged_copies(sample.where(shared_fixtures), tmp_path / "copy", every)
