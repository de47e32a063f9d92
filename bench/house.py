"""The house: how large the library is, how entangled, and how long the way of an append through it.

The bounds in `house.toml` are a ratchet: what has been reached may get better, and `--check` says what got worse.
`bench.source` reads the modules; nothing here knows their names.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

import treering

from .source import Circle, Module, circles, length_of_function, questions_of_class, read_modules
from .steps import Step, count, step_of

PACKAGE = Path(treering.__file__).parent
TESTS = Path(__file__).resolve().parents[1] / "tests"
BOUNDS = Path(__file__).with_name("house.toml")
WINGS = {
    *("server", "remote", "mcp", "viewer", "postgres", "adapters"),
    *("programs", "handing_over"),  # the sessions of other programs, followed live and handed over
    *("aider", "cline", "copilot", "kimi", "qwen"),  # their formats: each is a room by itself, and one may come or go
    *("adk", "agent_framework", "langgraph", "openai_agents", "strands"),  # and those of frameworks' stores
}
"""Rooms on top of the library, with their tests: they are counted by themselves."""
SHORT = 60
"""A file with fewer lines counts as short."""

_BASE = "asyncio, anyio, anyio._backends._asyncio, msgspec"  # what the library cannot do without


class Figures(Struct):
    """The numbers of the house. Those that `house.toml` bounds have the same names there.

    Attributes:
        files: How many modules the library has.
        lines: How many lines, those that are blank or comments included.
        median_lines: The median of a file's lines.
        short_percent: The percentage of files that are short.
        flat_files: How many modules the largest folder holds itself.
        circles: How many groups of modules import each other, inside functions and for types alone included.
        circle_modules: How many modules are in them.
        public_names: How many names `treering` exports.
        class_questions: How many places outside the file store ask whether a store is a `FileStore`.
        append_functions: How many functions of the library an append to a warm session passes.
        append_files: In how many files these are.
        append_longest: The lines of the longest of them, without its docstring.
        test_lines: How many lines the tests have.
        wing_lines: How many lines the wings have; circles and the largest folder are those of the house and its wings,
            all other figures those of the house alone.
        import_times: The processor time of `import treering.sessions`, as a multiple of that of its base; None if not
            measured.
    """

    files: int
    lines: int
    median_lines: float
    short_percent: float
    flat_files: int
    circles: int
    circle_modules: int
    public_names: int
    class_questions: int
    append_functions: int
    append_files: int
    append_longest: int
    test_lines: int
    wing_lines: int
    import_times: float | None = None


class House(Struct):
    """The figures, and where those that should be small come from.

    Attributes:
        figures: The figures.
        largest_folder: The folder that holds the most modules.
        circles: The modules of each circle.
        questions: The places that ask for the class, as file and line.
        longest: The longest function of an append.
    """

    figures: Figures
    largest_folder: str
    circles: list[Circle]
    questions: list[str]
    longest: str


class Bounds(Struct, forbid_unknown_fields=True):
    """What the figures may be.

    Attributes:
        at_most: The largest value of a figure, by its name.
        at_least: The smallest.
    """

    at_most: dict[str, int | float] = {}
    at_least: dict[str, int | float] = {}

    def __post_init__(self) -> None:
        unknown = sorted({*self.at_most, *self.at_least} - {*Figures.__struct_fields__[:-1]})
        if unknown:
            raise ValueError(f"no figure that can be bounded is called {', '.join(unknown)}")


def survey(package: Path = PACKAGE, tests: Path = TESTS) -> House:
    """Measure the house, except for the time of an import.

    Args:
        package: The folder of the library.
        tests: The folder of its tests.
    """
    modules = read_modules(package)
    lengths = [each.lines for each in modules if WINGS.isdisjoint(each.path.parts)]
    wings = [each.lines for each in modules if not WINGS.isdisjoint(each.path.parts)]
    tested = [each for each in tests.rglob("*.py") if WINGS.isdisjoint(each.relative_to(tests).parts)]
    folders = [each.path.parent for each in modules]
    largest = max(sorted(set(folders)), key=folders.count)
    found, questions = circles(modules), questions_of_class(modules)
    steps = [step_of(code, tally) for code, tally in count("warm").items()]
    longest = max(steps, key=lambda step: _length(step, modules))
    figures = Figures(
        files=len(lengths),
        lines=sum(lengths),
        median_lines=statistics.median(lengths),
        short_percent=round(100 * sum(each < SHORT for each in lengths) / len(lengths), 1),
        flat_files=folders.count(largest),
        circles=len(found),
        circle_modules=sum(map(len, found)),
        public_names=len(treering.__all__),
        class_questions=len(questions),
        append_functions=len(steps),
        append_files=len({step.file for step in steps}),
        append_longest=_length(longest, modules),
        test_lines=sum(len(each.read_bytes().splitlines()) for each in tested),
        wing_lines=sum(wings),
    )
    return House(figures, f"{largest}/", found, questions, f"{longest.name} in {longest.file}")


def _length(step: Step, modules: list[Module]) -> int:
    (module,) = (each for each in modules if each.path == Path(step.file))
    return length_of_function(module, step.line)


def import_times(rounds: int = 11) -> float:
    """Return the median processor time of `import treering.sessions`, as a multiple of that of what it needs.

    Both find bytecode, whatever lies in the checkout: a first process of each, which is not timed, writes it.

    Args:
        rounds: How many processes import each; they take turns.
    """
    spent: dict[str, list[float]] = {"treering.sessions": [], _BASE: []}
    with tempfile.TemporaryDirectory(prefix="treering-bench-") as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds + 1):
            for names, times in spent.items():
                code = f"import time; began = time.process_time(); import {names}; print(time.process_time() - began)"
                command = [sys.executable, "-c", code]
                process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                if number:
                    times.append(float(process.stdout))
    own, base = (statistics.median(times) for times in spent.values())
    return own / base


def what_got_worse(figures: Figures, bounds: Bounds) -> list[str]:
    """Return one line for each figure beyond its bound."""
    now: dict[str, float] = msgspec.structs.asdict(figures)
    more = [f"{name} is {now[name]:,}, more than {most:,}" for name, most in bounds.at_most.items() if now[name] > most]
    less = [f"{name} is {now[name]:,}, less than {it:,}" for name, it in bounds.at_least.items() if now[name] < it]
    return more + less


def tighten(text: str, figures: Figures) -> str:
    """Return the text of the bounds, with those replaced that the figures are better than.

    Bounds that are whole thousands stay so: they leave room for ordinary work.
    """
    bounds = msgspec.toml.decode(text, type=Bounds)
    for name, value in msgspec.structs.asdict(figures).items():
        most, least = bounds.at_most.get(name), bounds.at_least.get(name)
        if most is not None and most >= 1000 and most % 1000 == 0:
            value = math.ceil(value / 1000) * 1000
        if (most is not None and value < most) or (least is not None and value > least):
            text = re.sub(rf"(?m)^{name} = [\d._]+", f"{name} = {value:_}", text)
    return text


def house_table(house: House, bounds: Bounds) -> Table:
    """Make a table of the figures, with their bounds."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("figure")
    table.add_column("now", justify="right")
    table.add_column("bound", justify="right")
    table.add_column("where")
    where = {
        "flat_files": house.largest_folder,
        "circles": "\n".join(", ".join(each) for each in house.circles),
        "class_questions": ", ".join(house.questions),
        "append_longest": house.longest,
    }
    for name, value in msgspec.structs.asdict(house.figures).items():
        most, least = bounds.at_most.get(name), bounds.at_least.get(name)
        bound = f"≤ {most:,}" if most is not None else f"≥ {least:,}" if least is not None else ""
        table.add_row(name, "" if value is None else f"{value:,}", bound, where.get(name, ""))
    return table


@click.command("house")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--check", is_flag=True, help="Only say which figures are worse than their bounds, and fail.")
@click.option("--tighten", "tightens", is_flag=True, help="Lower the bounds to what has been reached.")
@click.option(
    "--bounds",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=BOUNDS,
    help="The file of the bounds; by default bench/house.toml.",
)
def house_command(as_json: bool, check: bool, tightens: bool, path: Path) -> None:
    """Show how large and how entangled the library is, and how long the way of an append.

    \b
    python -m bench house
    python -m bench house --check
    """
    text = path.read_text(encoding="utf-8")
    try:
        bounds = msgspec.toml.decode(text, type=Bounds)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"{path}: {error}") from error
    house = survey()
    if tightens:
        path.write_text(tighten(text, house.figures), encoding="utf-8")
    if check:
        worse = what_got_worse(house.figures, bounds)
        for each in worse:
            click.echo(f"{each} ({path.name})", err=True)
        sys.exit(bool(worse))
    house.figures.import_times = round(import_times(), 2)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(house)))
    else:
        Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200).print(house_table(house, bounds))
