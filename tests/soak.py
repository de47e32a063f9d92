"""The soak: all that `tests/proof` proves, at length. It can be stopped and continued, and has a scale.

    python -m tests.soak                                # the whole, for hours, on all cores
    python -m tests.soak --scale 0.1                    # a tenth
    python -m tests.soak --scale 0.1 --resume           # continue a run that was stopped, at its next slices
    python -m tests.soak --part fuzz --seed 4711        # one seed again, in this process

Each part is cut into slices of consecutive seeds, and a seed decides what is checked, so that a failure names the
command that repeats it. The slices of all parts advance together. After each one the state is written to
`.soak/state.json`. SIGINT and SIGTERM stop the run; `--resume` repeats the slices under way.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from math import ceil
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random
from types import FrameType

import msgspec
import structlog
from msgspec import Struct

PROJECT = Path(__file__).resolve().parents[1]
STATE = PROJECT / ".soak" / "state.json"
CODE = ("events", "projections", "actors", "src/treering/formats", "src/treering/testing", "tests/proof")
SLICE_SECONDS_MAX = 1800
TMPFS = Path("/dev/shm")  # a kill does not care where files are, and a power cut is not simulated there
LINE_EVERY_S = 10
WIDTH = 30
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Check = Callable[[int, Counter[str]], None]


class Part(Struct, frozen=True):
    """A part of the soak.

    Attributes:
        name: Its name on the command line.
        place: The function that checks one seed and counts what it did: a module of this package, and its name.
        figure: What is counted.
        goal: How many of them the whole soak has to reach.
        seeds: How many seeds the whole soak has at most.
        size: The number of seeds in a slice.
    """

    name: str
    place: tuple[str, str]
    figure: str
    goal: int
    seeds: int
    size: int

    @property
    def check(self) -> Check:
        """The function, whose module is imported on first use."""
        found: Check = getattr(__import__(self.place[0], fromlist=["*"]), self.place[1])
        return found

    def slices(self) -> list[int]:
        """The numbers of the slices in the order in which they run; a tenth of them is a sample of the whole."""
        numbers = list(range(ceil(self.seeds / self.size)))
        Random(self.name).shuffle(numbers)
        return numbers

    def seeds_of(self, number: int) -> range:
        """The seeds of a slice."""
        return range(number * self.size, min((number + 1) * self.size, self.seeds))


PARTS = [
    Part("kills", ("tests.proof.test_kills", "prove_seed"), "kills survived", 2_000, 201, 1),
    Part("crashes", ("tests.proof.test_crash_states", "prove_seed"), "crash states checked", 1_000_000, 5_919, 6),
    Part("simulation", ("tests.proof.test_simulation", "prove_seed"), "seeds run", 10_000, 10_000, 10),
    Part("fuzz", ("tests.proof.fuzzing", "prove_seed"), "inputs fuzzed", 1_000_000, 1_000_000, 500),
    Part("calls", ("tests.proof.test_strace", "prove_seed"), "system calls failed", 0, 18, 1),
    Part("steps", ("tests.actors.test_state_machine", "prove_seed"), "programs of 50 steps", 3_000, 300, 1),
    Part("ids", ("tests.sessions.test_appending", "prove_seed"), "appends to one session", 1_000_000, 1, 1),
]


class Progress(Struct):
    """What is done of a part: the numbers of its slices, what they counted, and the processor time that they took.

    `lacks` says why the part cannot run here."""

    slices: list[int] = []
    figures: dict[str, int] = {}
    seconds: float = 0.0
    lacks: str = ""


class Failure(Struct, frozen=True):
    """A seed that failed, and the command that repeats it."""

    part: str
    seed: int
    command: str
    error: str


class State(Struct):
    """What a run has done so far, as it is written to the disk."""

    code: str
    scale: float
    seconds: float = 0.0
    parts: dict[str, Progress] = {}
    failures: list[Failure] = []


class Done(Struct, frozen=True):
    """The result of a slice."""

    part: str
    slice: int
    figures: dict[str, int]
    seconds: float
    failure: Failure | None = None
    lacks: str = ""


Task = tuple[Part, int]


class Stopped(BaseException):
    """A signal asked the run to stop."""


# -- slices


def carry_out(part: Part, number: int, note: Callable[[int], None]) -> Done:
    """Check the seeds of a slice until one fails; `note` is told each seed before it is checked."""
    figures: Counter[str] = Counter()
    failure, lacks, began = None, "", sum(os.times()[:4])
    for seed in part.seeds_of(number):
        note(seed)
        try:
            part.check(seed, figures)
        except unittest.SkipTest as reason:
            lacks = str(reason)
            break
        except Exception:  # noqa: BLE001  # whatever it is, it is that seed's failure
            failure = failure_of(part, seed, traceback.format_exc(limit=-12))
            break
    return Done(part.name, number, dict(figures), sum(os.times()[:4]) - began, failure, lacks)


def failure_of(part: Part, seed: int, error: str) -> Failure:
    """Return the failure of a seed, with the command that repeats it."""
    return Failure(
        part.name, seed, shlex.join(["python", "-m", "tests.soak", "--part", part.name, "--seed", str(seed)]), error
    )


def prepare(folder: str) -> None:
    """Prepare a process for checking: silent logging, and temporary files where they cost least."""
    structlog.configure(processors=[_drop])
    tempfile.tempdir = folder


def _drop(*_: object) -> str:
    raise structlog.DropEvent


class Worker:
    """A process that carries out slices, in a process group of its own: what it started ends with it."""

    def __init__(self, folder: str) -> None:
        context = multiprocessing.get_context("spawn")  # a forked one would hold the pipes of the others open
        self._folder = folder
        self._seed = context.Value("q", 0, lock=False)
        self.pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, self._seed, folder), daemon=True)
        self._process.start()
        other.close()
        self.task: Task | None = None
        self.until = 0.0

    def begin(self, task: Task) -> None:
        """Hand over a slice."""
        self.task, self.until = task, time.monotonic() + SLICE_SECONDS_MAX
        self.pipe.send(task)

    def result(self) -> Done:
        """Receive the result of the slice; a worker that has died or takes too long is a failure of its seed."""
        assert self.task is not None
        (part, number), error = self.task, f"not done after {SLICE_SECONDS_MAX} s"
        try:
            if self.pipe.poll():
                done: Done = self.pipe.recv()
                self.task = None
                return done
        except EOFError:
            self._process.join(1)
            error = f"the process ended with status {self._process.exitcode}"
        self.kill()
        return Done(part.name, number, {}, 0.0, failure_of(part, self._seed.value, error))

    def kill(self) -> None:
        """End the process and all that it started."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()


def serve(pipe: Connection, seed: Synchronized[int], folder: str) -> None:
    """Carry out slices in a worker until the run is over."""
    os.setpgid(0, 0)  # the signals of a terminal are for the run alone
    prepare(folder)

    def note(number: int) -> None:
        seed.value = number

    with suppress(EOFError, KeyboardInterrupt):
        while True:
            part, number = pipe.recv()
            pipe.send(carry_out(part, number, note))


def results(tasks: Iterator[Task], jobs: int, folder: str) -> Generator[Done]:
    """Carry out slices, several at a time, or in this process if `jobs` is 0; yield their results as they come."""
    if not jobs:
        prepare(folder)
        yield from (carry_out(part, number, lambda _: None) for part, number in tasks)
        return
    workers = [Worker(folder) for _ in range(jobs)]
    try:
        for worker in workers:
            if task := next(tasks, None):
                worker.begin(task)
        while busy := [worker for worker in workers if worker.task is not None]:
            ready = wait([worker.pipe for worker in busy], max(0, min(each.until for each in busy) - time.monotonic()))
            for worker in busy:
                if worker.pipe in ready or worker.until <= time.monotonic():
                    yield worker.result()
                    if worker.task is not None:  # it was killed
                        workers[workers.index(worker)] = worker = Worker(folder)
                    if task := next(tasks, None):
                        worker.begin(task)
    finally:
        for worker in workers:
            worker.kill()


# -- a run


class Soak:
    """A run over some parts at a scale; its state is written after each slice."""

    def __init__(self, parts: Sequence[Part], state: State, path: Path) -> None:
        self.parts = {part.name: part for part in parts}
        self.state = state
        self._path = path
        self._orders = {part.name: part.slices() for part in parts}
        self._given = {part.name: 0 for part in parts}
        for name in self.parts:
            state.parts.setdefault(name, Progress())

    def goal(self, part: Part) -> int:
        """How many of a part's figure this run has to reach."""
        return ceil(part.goal * self.state.scale)

    def count(self, part: Part) -> int:
        """How many of a part's figure are reached."""
        return self.state.parts[part.name].figures.get(part.figure, 0)

    def share(self, part: Part) -> float:
        """The share of a part that is done: slices, and what they have to count."""
        progress = self.state.parts[part.name]
        if progress.lacks:
            return 1.0
        slices = len(progress.slices) / ceil(len(self._orders[part.name]) * self.state.scale)
        return min(slices, self.count(part) / self.goal(part) if part.goal else 1.0, 1.0)

    def tasks(self) -> Iterator[Task]:
        """Yield the slices that are left, always of the part of which least is done or under way."""
        done = {name: set(self.state.parts[name].slices) for name in self.parts}
        orders = {
            name: iter([each for each in order if each not in done[name]]) for name, order in self._orders.items()
        }
        while left := [part for part in self.parts.values() if part.name in orders and self.share(part) < 1]:
            part = min(left, key=self._share_given)
            if (number := next(orders[part.name], None)) is None:
                del orders[part.name]
                continue
            self._given[part.name] += 1
            yield part, number

    def _share_given(self, part: Part) -> float:
        begun = len(self.state.parts[part.name].slices) + self._given[part.name]
        return begun / (len(self._orders[part.name]) * self.state.scale)

    def note(self, done: Done) -> None:
        """Add the result of a slice to the state."""
        progress = self.state.parts[done.part]
        progress.lacks = progress.lacks or done.lacks
        if not done.lacks:
            progress.slices.append(done.slice)
        for figure, count in done.figures.items():
            progress.figures[figure] = progress.figures.get(figure, 0) + count
        progress.seconds += done.seconds
        self._given[done.part] -= 1
        if done.failure is not None:
            self.state.failures.append(done.failure)
        self.save()

    def save(self) -> None:
        """Write the state, under another name first."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(self.state), indent=1))
        new.replace(self._path)

    def line(self) -> str:
        """Return what is done so far, in one line."""
        shown = " ".join(f"{part.name} {self.count(part):,}" for part in self.parts.values())
        begun = [
            (self.state.parts[part.name].seconds, share) for part in self.parts.values() if (share := self.share(part))
        ]
        spent = sum(seconds for seconds, _ in begun)
        share = spent / whole if (whole := sum(seconds / share for seconds, share in begun)) else 0
        known = share and len(begun) == len(self.parts)
        left = f", about {self.state.seconds * (1 - share) / share / 60:.0f} min left" if known else ""
        return f"{'#' * round(WIDTH * share):{WIDTH}} {share:4.0%} {shown}; {len(self.state.failures)} failed{left}"

    def figures(self) -> str:
        """Return the figures of each part, and the failures with the commands that repeat them."""
        lines = [f"{'part':12}{'slices':>12}{'done':>14}{'of':>14}  {'what':24}{'cpu s':>10}"]
        for part in self.parts.values():
            progress = self.state.parts[part.name]
            slices = f"{len(progress.slices):,}/{ceil(len(self._orders[part.name]) * self.state.scale):,}"
            goal = f"{self.goal(part):,}" if part.goal else ""
            counts = f"{slices:>12}{self.count(part):>14,}{goal:>14}"
            line = f"{part.name:12}{counts}  {part.figure:24}{progress.seconds:>10,.0f}"
            lines.append(f"{line}  not run: {progress.lacks}" if progress.lacks else line)
            lines += [f"{'':24}{n:>14,}{'':16}{what}" for what, n in progress.figures.items() if what != part.figure]
        lost = sum(progress.figures.get("lines lost", 0) for progress in self.state.parts.values())
        lines.append(
            f"scale {self.state.scale:g}, {self.state.seconds:,.0f} s, {lost} lost, {len(self.state.failures)} failed"
        )
        for failure in self.state.failures:
            lines += ["", failure.error.rstrip(), f"to repeat it: {failure.command}"]
        return "\n".join(lines)


@contextmanager
def stopped_by_signals() -> Generator[None]:
    """Raise `Stopped` at SIGINT and SIGTERM, even where a shell has set one to be ignored."""

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show(line: str, *, last: bool = False) -> None:
    """Show the progress on stderr: in place on a terminal, or else a line."""
    sys.stderr.write(f"\r{line}\x1b[K" + "\n" * last if sys.stderr.isatty() else f"{line}\n")
    sys.stderr.flush()


def run(soak: Soak, jobs: int) -> int:
    """Run the slices that are left, print the figures, and return the exit status."""
    began, before, shown = time.monotonic(), soak.state.seconds, 0.0
    status, folder = 0, tempfile.mkdtemp(prefix="treering-soak-", dir=TMPFS if TMPFS.is_dir() else None)
    try:
        with stopped_by_signals(), closing(results(soak.tasks(), jobs, folder)) as found:
            soak.save()
            for done in found:
                soak.state.seconds = before + time.monotonic() - began
                soak.note(done)
                if sys.stderr.isatty() or not shown or time.monotonic() - shown > LINE_EVERY_S:
                    shown = time.monotonic()
                    show(soak.line())
    except Stopped as stopped:
        status = 128 + stopped.args[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(soak.line(), last=True)
    sys.stdout.write(soak.figures() + "\n")
    if status:
        sys.stdout.write("stopped: --resume continues\n")
    short = [part for part in soak.parts.values() if soak.share(part) < 1 or soak.state.parts[part.name].lacks]
    return status or int(bool(soak.state.failures or short))


@cache
def code_version() -> str:
    """Identify the code that the parts check, and their own, so that a run is not continued on other code."""
    digest = blake2b(digest_size=12)
    files = [PROJECT.joinpath(*part.place[0].split(".")).with_suffix(".py") for part in PARTS]
    for folder in CODE:
        files += (PROJECT / folder).rglob("*.py")
    for file in sorted({*files}):
        digest.update(f"{file.relative_to(PROJECT)}\0{_without_words(file)}\0".encode())
    return digest.hexdigest()


def _without_words(file: Path) -> str:
    """Return the code of a file, without comments and docstrings, which no check can notice."""
    for node in ast.walk(tree := ast.parse(file.read_bytes())):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node):
            del node.body[0]
    return ast.dump(tree)


def main(arguments: Sequence[str] | None = None, parts: Sequence[Part] = PARTS) -> int:
    """Run the soak that the command line asks for."""
    parser = ArgumentParser(prog="python -m tests.soak", description="Prove at length what the tests prove in short.")
    parser.add_argument("--scale", type=float, default=os.environ.get("SOAK") or 1, help="1 is the whole (default)")
    parser.add_argument("--resume", action="store_true", help="continue at the next slices")
    parser.add_argument("--part", action="append", choices=[part.name for part in parts], help="only this part")
    parser.add_argument("--seed", type=int, help="check one seed of one part, in this process")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; 0 for none but this one")
    parser.add_argument("--state", type=Path, default=STATE, help="where the state is kept")
    asked = parser.parse_args(arguments)
    if asked.scale <= 0:
        parser.error("the scale must be greater than 0")
    chosen = [part for part in parts if not asked.part or part.name in asked.part]
    if asked.seed is not None:
        if len(chosen) != 1:
            parser.error("--seed needs one --part")
        figures: Counter[str] = Counter()
        prepare(tempfile.gettempdir())
        chosen[0].check(asked.seed, figures)
        sys.stdout.write(f"seed {asked.seed} of {chosen[0].name}: {dict(figures)}, all well\n")
        return 0
    state = State(code_version(), asked.scale)
    if asked.resume:
        if not asked.state.exists():
            parser.error(f"there is nothing to resume: {asked.state} does not exist")
        earlier = msgspec.json.decode(asked.state.read_bytes(), type=State)
        if earlier.code != state.code:
            parser.error(f"the run in {asked.state} was made on other code: begin a new one, without --resume")
        state = msgspec.structs.replace(earlier, scale=asked.scale)
    return run(Soak(chosen, state, asked.state), asked.jobs)


if __name__ == "__main__":
    sys.exit(main())
