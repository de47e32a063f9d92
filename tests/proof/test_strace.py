"""System calls fail one after the other: the errors that callers get match what is in the files."""

import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import SkipTest

import anyio
import pytest

from treering import SessionHost, SessionNotFound
from treering.events.stores.files import Durability
from treering.testing.simulation import durabilities
from treering.testing.simulation.checks import check_session, tokens_of

CHILD = Path(__file__).with_name("strace_child.py")
FIRST = 3
"""How many calls fail, one after the other, in the short proof."""
MOST = 40

SYNCED = [each for each in durabilities() if each != "os"]


@cache
def reason_to_skip() -> str:
    """Return why strace cannot be used, or ""."""
    if shutil.which("strace") is None:
        return "strace is not installed: apt-get install strace"
    tried = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    return f"strace is not permitted to trace: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.fixture(autouse=True)
def _needs_strace() -> None:
    if reason_to_skip():
        pytest.skip(reason_to_skip())


def inject(
    root: Path, durability: Durability, calls: str, fault: str, nth: int, *, path: Path | None = None
) -> Counter[str]:
    """Run the scenario with one failing call, check what it leaves, and count its results, including "injected"."""
    log = root.parent / f"{root.name}.strace"
    command = ["strace", "-f", "-o", str(log), "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}:when={nth}"]
    if path is not None:
        command += ["-P", str(path)]
    ran = subprocess.run(
        [*command, sys.executable, str(CHILD), str(root), durability], capture_output=True, text=True, check=False
    )
    answers = [line.split() for line in ran.stdout.splitlines()]
    killed = "SIGKILL" in fault
    injected = "(INJECTED)" in log.read_text() or (killed and ran.returncode != 0)
    if not (killed and injected):
        assert ran.returncode == 0, ran.stderr
        assert answers[-1] == ["end"]
    acknowledged: dict[str, list[str]] = {"first": [], "second": []}
    for word, *rest in answers:
        if word == "acknowledged":
            acknowledged[rest[0]] += rest[1:]
    anyio.run(check, root, acknowledged, not killed)
    return Counter([word for word, *_ in answers] + ["injected"] * injected)


async def check(root: Path, acknowledged: dict[str, list[str]], exactly: bool) -> None:
    async with SessionHost(root) as host:
        for name, tokens in acknowledged.items():
            try:
                session = await host.load(name)
            except SessionNotFound:
                assert not tokens
                continue
            path = root / session.ref
            entries = await check_session(session, await anyio.Path(path).read_bytes(), str(path))
            found = tokens_of(entries)
            if exactly:
                assert found == tokens, "the acknowledged entries are not those in the file"
            else:
                assert found[: len(tokens)] == tokens
                assert len(set(found)) == len(found)


def sweep(
    root: Path, durability: Durability, calls: str, fault: str, most: int, tally: Counter[str], name: str = ""
) -> int:
    """Let each of the calls fail in turn, and return how many callers got an error."""
    errors, killing = 0, "SIGKILL" in fault
    for nth in range(1, most + 1):
        folder = root / f"{nth}"
        path = folder / name if name else None
        answers = inject(folder, durability, calls, fault, nth, path=path)
        if not answers["injected"]:
            assert nth > 1, "nothing was injected"
            break
        errors += answers["AppendFailed"] + answers["AppendInDoubt"]
        tally["kills survived" if killing else "system calls failed"] += 1
    return errors


@pytest.mark.feature("X-28")
@pytest.mark.parametrize("durability", SYNCED)
def test_a_failed_flush_is_told_and_loses_nothing(durability: Durability, tmp_path: Path, tally: Counter[str]) -> None:
    assert sweep(tmp_path, durability, "fdatasync", "error=EIO", FIRST, tally) >= FIRST


@pytest.mark.feature("U-6")
@pytest.mark.parametrize("durability", ["os", "group"])
def test_a_disk_full_for_one_write_loses_nothing(durability: Durability, tmp_path: Path, tally: Counter[str]) -> None:
    assert sweep(tmp_path, durability, "write", "error=ENOSPC", FIRST, tally, "first.jsonl")


def test_a_kill_at_a_flush_loses_nothing(tmp_path: Path, tally: Counter[str]) -> None:
    sweep(tmp_path, "group", "fsync,fdatasync", "signal=SIGKILL", FIRST, tally)


SWEEPS = [
    (durability, *sweep)
    for durability in durabilities()
    for sweep in [
        ("fdatasync", "error=EIO", ""),
        ("fsync", "error=EIO", ""),
        ("write", "error=ENOSPC", "first.jsonl"),
        ("write", "error=EIO", "second.jsonl"),
        ("fsync,fdatasync", "signal=SIGKILL", ""),
        ("write", "signal=SIGKILL", "first.jsonl"),
        ("lseek", "error=EIO", "first.jsonl"),
    ]
    if durability != "os" or "sync" not in sweep[0]  # nothing is flushed
]
"""What the soak lets fail: calls of a kind, on any file or on one, each in turn."""


def prove_seed(seed: int, tally: Counter[str]) -> None:
    """Let each call of a kind fail in turn."""
    if reason_to_skip():
        raise SkipTest(reason_to_skip())
    durability, calls, fault, name = SWEEPS[seed]
    with TemporaryDirectory() as folder:
        sweep(Path(folder), durability, calls, fault, MOST, tally, name)
