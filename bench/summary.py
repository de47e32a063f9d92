"""The end of a run on one screen: what people would use instead, what it costs there, and what it costs here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from msgspec import Struct
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .report import Report, number
from .runner import ScenarioResult

_OURS = "treering/uvloop"
_PI, _OPENAI, _STRANDS = "pi 1.6.0", "openai-agents SQLiteSession", "strands FileSessionManager"
_BAR_MAX = 24
_PER_TENFOLD = 8
"""The length of the bar of what takes ten times as long."""


class Question(Struct, frozen=True):
    """A row or more of the summary.

    Attributes:
        words: What is done.
        scenario: The scenario that measures it.
        instead: The other sides, in the order in which they are shown.
        ours: The side of treering.
    """

    words: str
    scenario: str
    instead: tuple[str, ...]
    ours: str = _OURS


QUESTIONS = (
    Question("append a message", "append-one", ("plain loop", _PI, _OPENAI, _STRANDS)),
    Question("append, 1,000 sessions at once", "append-many-sessions", (_PI, _OPENAI)),
    Question("append, flushed, 1,000 sessions", "durable-sessions", ("32 bare threads",), "group"),
    Question("a session of 3 messages", "short-session", ("plain loop",)),
    Question("resume a long session", "open-snapshot", (_PI,)),
    Question("resume it, compacted, with context", "open-compacted-context", (_PI,)),
    Question("resume it, whole, with context", "open-context", (_PI,)),
    Question("go back, and append there", "branch", (_PI,)),
    Question("read a history of 10,000 messages", "read-10000", (_PI, _OPENAI, _STRANDS)),
    Question("list 1,000 sessions again", "list-warm", (_PI,)),
    Question("find a word in all sessions", "search-10000", ("plain loop",)),
    Question("tokens of each turn of a long talk", "agent-tokens", ("full history",), "masking, then summaries"),
)


def summary(report: Report) -> Group:
    """Make the summary of a run; what it did not measure is left out."""
    by_name = {each.name: each for each in report.scenarios}
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("", "instead of treering"):
        table.add_column(column, no_wrap=True)
    for column in ("there", "here"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("times as long there", no_wrap=True)
    for question in QUESTIONS:
        for row in _rows(question, by_name):
            table.add_row(*row)
    absent = f"; not installed: {len(report.absent)} others (python -m bench prepare)" if report.absent else ""
    notes = (
        f"A bar is {_PER_TENFOLD} long where it takes ten times as long there. Plain loops and bare threads write "
        "lines and keep nothing: no tree, no index, no lock, no view. docs/benchmarks.md says how this was measured"
        f"{absent}."
    )
    return Group(Text("In short", "bold"), table, Text(notes, "dim"))


def _rows(question: Question, scenarios: Mapping[str, ScenarioResult]) -> Iterator[tuple[str, str, str, str, Text]]:
    scenario = scenarios.get(question.scenario)
    figures = {} if scenario is None else {each.name: each.figure for each in scenario.sides if each.figure is not None}
    ours = figures.get(question.ours)
    if scenario is None or ours is None:
        return
    unit = scenario.unit.split("/")[0].split(" of ")[0]
    words = question.words
    for name in question.instead:
        if (theirs := figures.get(name)) is not None:
            shown = name.partition(" ")[0] if name in (_OPENAI, _STRANDS) else name
            costs = (f"{number(theirs.median)} {unit}", f"{number(ours.median)} {unit}")
            yield (words, shown, *costs, _bar(theirs.median / ours.median))
            words = ""


def _bar(ratio: float) -> Text:
    """Return how many times as long it takes there, with a bar from one on to the right; shorter times have none."""
    length = min(_BAR_MAX, round(_PER_TENFOLD * max(0.0, math.log10(ratio))))
    return Text.assemble((f"{number(ratio):>6} ", "green" if ratio > 1 else "red"), "█" * length)
