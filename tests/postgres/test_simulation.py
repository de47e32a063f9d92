"""Whole hosts over a model of the database: each seed gives one run, and every run keeps the rules."""

from collections import Counter

import pytest

from treering.testing.simulation import Broken

from .model import Fault
from .simulation import simulate

SEEDS = 12


def run_seeds(first: int, count: int) -> Counter[str]:
    """Run seeds, and return what happened in all of them."""
    happened: Counter[str] = Counter()
    for seed in range(first, first + count):
        happened += simulate(seed)
    return happened


@pytest.mark.feature("C-22")
def test_seeds_of_lost_messages_paused_hosts_and_wrong_clocks_keep_the_rules(tally: Counter[str]) -> None:
    happened = run_seeds(0, SEEDS)
    for what in ("acknowledged", "taken", "fenced", "killed", "paused", "LeaseLost", "SessionLocked"):
        assert happened[what] > 3, what
    tally["seeds run"] += SEEDS


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.feature("C-22")
def test_a_thousand_seeds_keep_the_rules(scale: float, tally: Counter[str]) -> None:
    count = max(1, round(1000 * scale))
    run_seeds(SEEDS, count)
    tally["seeds run"] += count


@pytest.mark.feature("C-22")
@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("unfenced", "was written by a host from which it had been taken"),
        ("own clock", "was taken from a host whose lease goes on"),
    ],
)
def test_a_planted_fault_is_found(fault: Fault, rule: str) -> None:
    with pytest.raises(Broken, match=rule) as found:  # noqa: PT012  # one of the seeds finds it
        for seed in range(50):
            simulate(seed, fault)
    assert f"simulate({seed}, {fault!r})" in str(found.value)


@pytest.mark.feature("C-22")
def test_a_seed_gives_the_same_run_again() -> None:
    assert simulate(5) == simulate(5) != simulate(6)
