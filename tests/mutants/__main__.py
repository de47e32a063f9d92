"""Plants small faults in the rooms of the library, one at a time, and tells which of them no test notices.

    python -m tests.mutants                         # 1,000 faults and more, over all rooms
    python -m tests.mutants locks journal --sample 60 --seed 7
    python -m tests.mutants --resume                # goes on where a run was stopped
    python -m tests.mutants locks --again           # tries those again that nobody noticed

A tree beside the checkout holds the library with its faults behind switches. A first run of the tests records which
faults each of them meets; it is kept until the code or the file of a test changes. Then each fault of the sample is
tried in a fork of a process that has imported everything: the tests that meet it, until one fails, and first those that
meet little else and are quick, or noticed other faults. A test that hangs notices nothing. Unnoticed faults are printed
as diffs, and all is written as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .faults import Fault, plant
from .rooms import CHECKOUT, ROOMS, files_of

KEPT = CHECKOUT / ".mutants"
LEFT_OUT = ("tests/bench", "tests/docs", "tests/typing", "tests/test_layout.py")
"""Tests that build, check or measure the project itself."""

WAITS_AT_MOST_S = "15"
"""After so long, an async test that waits for something fails by itself."""

EQUIVALENT: dict[str, str] = tomllib.loads(Path(__file__).with_name("equivalent.toml").read_text())
"""Why a fault changes nothing that can be seen, by its id."""

_console = Console(stderr=True)


class Numbers:
    """The numbers of faults by id, the same from run to run."""

    def __init__(self) -> None:
        self._file = KEPT / "numbers.json"
        self._by_id: dict[str, int] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def __getitem__(self, fault_id: str) -> int:
        return self._by_id.setdefault(fault_id, len(self._by_id) + 1)

    def files(self) -> dict[int, str]:
        """Return the file of each fault."""
        return {number: fault_id.split(":")[0] for fault_id, number in self._by_id.items()}

    def save(self) -> None:
        self._file.write_text(json.dumps(self._by_id))


def all_faults(room: str) -> list[Fault]:
    """Return every fault of a room."""
    faults: list[Fault] = []
    for file in files_of(room):
        plant(file.read_text(), str(file.relative_to(CHECKOUT)), faults.append)
    return faults


def make_tree(folder: Path, planted: dict[str, int]) -> None:
    """Write the library with faults behind switches.

    Args:
        folder: Where to; it is made anew.
        planted: The number of each fault that is planted, by its id.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CHECKOUT / "src", folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(Path(__file__).with_name("switch.py"), folder / "treering" / "_planted.py")
    for file in sorted({fault_id.split(":")[0] for fault_id in planted}):
        target = folder / "treering" / file
        target.write_text(plant((CHECKOUT / file).read_text(), file, lambda fault: planted.get(fault.id)))


def pytest_command(*arguments: str) -> list[str]:
    # One loop of three: a test notices nearly the same on each, and what only the others notice counts as unnoticed.
    fixed = ["-q", "-p", "tests.mutants.plugin", "-p", "no:cacheprovider", "-k", "not uvloop and not trio"]
    return [sys.executable, "-m", "pytest", *fixed, *arguments]


def environment(tree: Path, **variables: str | Path) -> dict[str, str]:
    paths = f"{tree}{os.pathsep}{CHECKOUT}"
    return os.environ | {"PYTHONPATH": paths} | {name: str(value) for name, value in variables.items()}


def test_files(paths: list[str]) -> dict[str, str]:
    """Return the files of tests below some paths, each with a checksum of all that what they meet depends on."""
    library = [
        file for folder in ("events", "projections", "actors", "src") for file in (CHECKOUT / folder).rglob("*.py")
    ]
    shared = [file for file in (CHECKOUT / "tests").rglob("*.py") if not file.name.startswith("test_")]
    common = b"".join(file.read_bytes() for file in sorted([*library, *shared]) if "mutants" not in file.parts)
    found: dict[str, str] = {}
    for path in paths:
        given = CHECKOUT / path
        for file in sorted(given.rglob("test_*.py")) if given.is_dir() else [given]:
            name = str(file.relative_to(CHECKOUT))
            if not name.startswith(LEFT_OUT):
                found[name] = hashlib.sha256(common + file.read_bytes()).hexdigest()
    return found


def record(paths: list[str], numbers: Numbers, *, old: bool) -> list[dict[str, Any]]:
    """Return what each test meets, by running those that changed, or whose code did, since they were recorded.

    Args:
        paths: The tests.
        numbers: The numbers of faults.
        old: Take what was recorded for a file of tests, whatever has changed since.
    """
    kept = KEPT / "records"
    kept.mkdir(parents=True, exist_ok=True)
    keys = test_files(paths)
    files = {name: kept / name.replace("/", "-") for name in keys}
    stale = [name for name, file in files.items() if not _is_recorded(file, None if old else keys[name])]
    if stale:
        planted = {fault.id: numbers[fault.id] for room in ROOMS for fault in all_faults(room)}
        numbers.save()
        _console.print(f"recording what the tests of {len(stale)} files meet of {len(planted):,} faults")
        tree = KEPT / "all"
        make_tree(tree, planted)
        with tempfile.TemporaryDirectory() as folder:
            command = pytest_command("-n", "2", "--dist", "worksteal", "--timeout", "300", *stale)
            running_in = environment(tree, MUTANTS_RECORD=folder)
            status = subprocess.run(command, check=False, cwd=CHECKOUT, env=running_in, stdout=sys.stderr).returncode
            if status not in (0, 1, 5):
                raise SystemExit(f"the tests could not be recorded: pytest ended with {status}")
            by_file: dict[str, list[str]] = {name: [] for name in stale}
            for output in Path(folder).glob("*.jsonl"):
                for line in output.read_text().splitlines():
                    by_file[json.loads(line)["test"].split("::")[0]].append(line)
        for name, lines in by_file.items():
            files[name].write_text("\n".join([json.dumps(keys[name]), *lines]))
    return [json.loads(line) for file in files.values() for line in file.read_text().splitlines()[1:]]


def _is_recorded(file: Path, key: str | None) -> bool:
    if not file.exists():
        return False
    with file.open() as lines:
        return key is None or json.loads(lines.readline()) == key


def choose(rooms: list[str], sample: int, seed: int) -> dict[str, tuple[str, Fault]]:
    """Return a sample of each room's faults: the room and the fault by id."""
    chosen: dict[str, tuple[str, Fault]] = {}
    for room in rooms:
        faults = all_faults(room)
        random.Random(f"{seed}:{room}").shuffle(faults)
        chosen |= {fault.id: (room, fault) for fault in faults[:sample]}
    return chosen


def try_all(
    faults: dict[str, Fault],
    numbers: Numbers,
    recorded: list[dict[str, Any]],
    most_s: float,
    done: Callable[[str, dict[str, Any]], None],
) -> None:
    """Try faults, and call `done` with the id and the outcome of each."""
    by_number: defaultdict[int, list[tuple[str, float, float]]] = defaultdict(list)
    wanted = {numbers[fault_id]: fault_id for fault_id in faults}
    files = numbers.files()
    for test in recorded:
        if test["passed"]:
            met = Counter(files[number] for number in test["faults"])
            for number in wanted.keys() & test["faults"]:
                # What a test is about is what most of its faults are in; a few faults more weigh against short ones.
                telling = met[files[number]] / (met.total() + 20) / (test["seconds"] + 0.05)
                by_number[number].append((test["test"], test["seconds"], telling))
    make_tree(KEPT / "chosen", {fault_id: number for number, fault_id in wanted.items()})
    numbers.save()
    for number in [number for number in wanted if not by_number[number]]:
        done(wanted.pop(number), {"outcome": "never met", "test": "", "seconds": 0})
    if not wanted:
        return
    jobs, results = KEPT / "jobs.jsonl", KEPT / "results.jsonl"
    lines = [json.dumps({"number": number, "tests": by_number[number], "most_s": most_s}) for number in wanted]
    jobs.write_text("\n".join(lines))
    results.write_text("")
    needed = sorted({test.split("::")[0] for number in wanted for test, *_ in by_number[number]})
    command = pytest_command("-s", "-o", "timeout=0", *needed)
    waiting = {"TREERING_TEST_WAITS_AT_MOST_S": WAITS_AT_MOST_S}
    running_in = environment(KEPT / "chosen", MUTANTS_JOBS=jobs, MUTANTS_RESULTS=results, **waiting)
    with (KEPT / "pytest.log").open("wb") as log:
        running = subprocess.Popen(command, cwd=CHECKOUT, env=running_in, stdout=log, stderr=log)
    try:
        with results.open() as output:
            buffer = ""
            while True:
                ended = running.poll() is not None
                buffer += output.read()
                *whole, buffer = buffer.split("\n")
                for result in map(json.loads, whole):
                    done(wanted[result.pop("number")], result)
                if ended:
                    break
                try:
                    running.wait(0.3)
                except subprocess.TimeoutExpired:
                    continue
    finally:
        running.terminate()
        running.wait()


def diff(fault: Fault) -> str:
    removed = "\n".join(f"- {line}" for line in fault.before.splitlines())
    added = "\n".join(f"+ {line}" for line in fault.after.splitlines())
    return f"{fault.file}:{fault.line} {fault.function} ({fault.kind}; {fault.id})\n{removed}\n{added}\n"


def summary(outcomes: dict[str, dict[str, Any]]) -> Table:
    """Return the figures of each room; what is equivalent counts neither for nor against the tests."""
    words = ("unnoticed", "hung", "never met", "equivalent")
    table = Table("room", "faults", "noticed", "%", *words, box=None)
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for fault_id, outcome in outcomes.items():
        is_equivalent = outcome["outcome"] != "noticed" and fault_id in EQUIVALENT
        rooms[outcome["room"]]["equivalent" if is_equivalent else outcome["outcome"]] += 1
    for room, counts in [*rooms.items(), ("all", sum(rooms.values(), Counter()))]:
        telling = max(1, counts.total() - counts["equivalent"])
        figures = (counts.total(), counts["noticed"], f"{100 * counts['noticed'] / telling:.1f}")
        table.add_row(room, *map(str, figures), *(str(counts[word]) for word in words))
    return table


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.mutants", description="Tell which small faults no test notices.")
    option = parser.add_argument
    option("rooms", nargs="*", metavar="ROOM", help=f"all by default: {', '.join(ROOMS)}")
    option("--sample", type=int, default=48, help="how many faults a room (48)")
    option("--seed", type=int, default=1, help="which ones (1)")
    option("--tests", nargs="+", default=["tests"], metavar="PATH", help="the tests that must notice (all)")
    option("--most-s", type=float, default=240, help="after so many seconds a fault counts as unnoticed (240)")
    option("--old-records", action="store_true", help="do not record again what tests meet after the code has changed")
    option("--resume", action="store_true", help="go on with the run that was stopped")
    option("--again", action="store_true", help="try only those of the last run that no test noticed")
    option("--output", type=Path, default=KEPT / "outcomes.json", help="where the outcomes are (JSON)")
    given = parser.parse_args()
    if unknown := [room for room in given.rooms if room not in ROOMS]:
        parser.error(f"there is no room {', '.join(map(repr, unknown))}; there are {', '.join(ROOMS)}")
    KEPT.mkdir(exist_ok=True)
    numbers = Numbers()
    outcomes: dict[str, dict[str, Any]] = {}
    if (given.resume or given.again) and given.output.exists():
        outcomes = json.loads(given.output.read_text())
    chosen = choose(given.rooms or list(ROOMS), given.sample, given.seed)
    if given.again:
        by_id = {fault.id: (room, fault) for room in given.rooms or ROOMS for fault in all_faults(room)}
        left = [fault_id for fault_id, outcome in outcomes.items() if outcome["outcome"] != "noticed"]
        chosen = {fault_id: by_id[fault_id] for fault_id in left if fault_id in by_id}
    todo = {fault_id: fault for fault_id, (_, fault) in chosen.items() if given.again or fault_id not in outcomes}
    recorded = record(given.tests, numbers, old=given.old_records)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=_console) as progress:
        task = progress.add_task("faults tried", total=len(todo))

        def done(fault_id: str, outcome: dict[str, Any]) -> None:
            room, fault = chosen[fault_id]
            outcomes[fault_id] = {"room": room, **outcome, "diff": diff(fault)}
            given.output.write_text(json.dumps(outcomes, indent=1))
            if outcome["outcome"] != "noticed" and fault_id not in EQUIVALENT:
                sys.stdout.write(f"{outcome['outcome']}: {diff(fault)}\n")
                sys.stdout.flush()
            progress.advance(task)

        try_all(todo, numbers, recorded, given.most_s, done)
    Console(width=110).print(summary(outcomes))


if __name__ == "__main__":
    main()
