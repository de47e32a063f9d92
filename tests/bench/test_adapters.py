"""The comparison of frameworks' own stores with adapters: what it counts and keeps, and what `make bench` shows."""

from io import StringIO
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("rich")

from bench import environments
from bench.adapters import all_pairs
from bench.adapters.command import in_markdown, show
from bench.adapters.comparing import FIGURES, PUBLISHED, SIZES, Comparison, compare, write
from bench.adapters.side import DESCRIPTORS, DISK, Side
from bench.jobs import Conversations
from bench.report import Report, describe_machine
from bench.runner import ScenarioResult, SideResult, Spread
from bench.workspace import Workspace
from rich.console import Console
from tests.bench.stores import Broken, Files, Sessions

FEW = (Conversations(3, 2, 4),)


class Elsewhere(Files):
    """A side whose packages are nowhere."""

    framework = "elsewhere"
    requirements = ("no-such-package==0",)


def printed(comparison: Comparison) -> str:
    written = StringIO()
    show(comparison, Console(file=written, width=200))
    return written.getvalue()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, list[str]]:
    steps: list[str] = []
    with Workspace() as space:
        pairs: list[tuple[Side, Side]] = [(Files(), Sessions()), (Elsewhere(), Elsewhere()), (Files(), Broken())]
        return compare(pairs, 1, FEW, space, steps.append), steps


def test_both_sides_are_measured_in_turn_and_absent_frameworks_named(measured: tuple[Comparison, list[str]]) -> None:
    comparison, steps = measured
    assert steps[:2] == ["files, 3 x 2", "sessions, 3 x 2"]
    assert list(comparison.absent) == ["elsewhere"]
    assert "bench prepare" in comparison.absent["elsewhere"]
    figures = {figure.name: figure for figure in comparison.pairs[0].figures}
    assert list(figures) == list(FIGURES)
    assert figures[DISK].theirs.median == 1024
    assert 1024 < figures[DISK].ours.median < 4096
    assert figures[DESCRIPTORS].theirs.median == 0
    assert 0 < figures[DESCRIPTORS].ours.median < 20


def test_a_side_that_does_not_read_what_was_appended_has_no_figures(measured: tuple[Comparison, list[str]]) -> None:
    comparison, _ = measured
    assert comparison.pairs[1].figures == []
    (why,) = comparison.pairs[1].failed
    assert "3 conversations: broken" in why
    assert why in printed(comparison)


def test_what_was_found_is_kept_and_shown_as_tables(measured: tuple[Comparison, list[str]], tmp_path: Path) -> None:
    comparison, _ = measured
    write(comparison, tmp_path / "kept" / "adapters.json")
    kept = msgspec.json.decode((tmp_path / "kept" / "adapters.json").read_bytes(), type=Comparison)
    assert kept == comparison
    for shown in (printed(kept), in_markdown(kept, "tiny")):
        assert f"{kept.at:%Y-%m-%d}" in shown
        assert all(what in shown for what in FIGURES.values())


@pytest.mark.feature("A-32")
def test_the_bench_ends_with_the_last_comparisons_and_a_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench import __main__ as command
    from bench.adapters import comparing
    from click.testing import CliRunner

    costs = {"plain loop": 4.0, "treering/uvloop": 8.0, "openai-agents SQLiteSession": 800.0}
    sides = [SideResult(name, "", Spread(cost, cost, cost)) for name, cost in costs.items()]
    report = Report(
        describe_machine(), "quick", {}, [ScenarioResult("append-one", "", "µs/op", 1, "", None, sides, [])]
    )
    monkeypatch.setattr(command.run, "callback", lambda **_: report)  # the scenarios, which take minutes
    monkeypatch.setattr(comparing, "LATEST", Path("of this checkout"))
    shown, summary = CliRunner().invoke(command.main, ()).output.split("In short\n")
    rows = [" ".join(line.split()) for line in summary.splitlines()[1:3]]
    assert rows == ["append a message plain loop 4 µs 8 µs 0.5", f"openai-agents 800 µs 8 µs 100 {'█' * 16}"]
    last = msgspec.json.decode(PUBLISHED.read_bytes(), type=Comparison)
    assert shown.endswith(f"{printed(last)}\n")
    assert f"{last.at:%Y-%m-%d %H:%M} UTC" in shown
    assert {pair.framework for pair in last.pairs} == set(all_pairs())
    for pair in last.pairs:
        assert pair.failed == []
        assert {(figure.name, figure.sessions) for figure in pair.figures} == {
            (name, job.sessions) for name in FIGURES for job in SIZES["quick"][1]
        }
        assert {1, 1000} == {figure.sessions for figure in pair.figures}


@pytest.mark.interop
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("framework", all_pairs())
def test_a_framework_is_compared_in_its_environment(framework: str) -> None:
    pair = all_pairs()[framework]
    assert environments.prepare(pair[1]) is None
    with Workspace() as space:
        comparison = compare([pair], 1, SIZES["tiny"][1], space, lambda _: None)
    (found,) = comparison.pairs
    assert found.failed == []
    for figure in found.figures:
        if figure.name == DISK and "nothing" not in found.our_durability:
            assert 1000 < figure.ours.median < 8192
        elif figure.name == DESCRIPTORS:
            assert figure.ours.median < 40
