"""Whole hosts on a failing disk: each seed gives one reproducible run, and every run passes its checks."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from treering.events.stores.files import Durability
from treering.testing.simulation import Broken, determinism, durabilities, run, simulate
from treering.testing.simulation.checks import Ledger


def prove_seed(seed: int, tally: Counter[str]) -> None:
    result = simulate(seed)
    assert result.checks
    tally["seeds run"] += 1
    tally["entries acknowledged"] += result.acknowledged
    tally["crashes survived"] += result.crashes


@pytest.mark.feature("X-14")
def test_seeds_pass_all_checks(tally: Counter[str]) -> None:
    for seed in range(24):
        prove_seed(seed, tally)
    assert tally["crashes survived"] > 24
    assert tally["entries acknowledged"] > 24  # in a few seeds, no host lives long enough for one


@pytest.mark.feature("X-14")
@pytest.mark.parametrize("durability", durabilities())
def test_two_runs_of_a_seed_give_the_same_logs_and_the_same_trace(durability: Durability) -> None:
    first, second = simulate(7, durability), simulate(7, durability)
    assert (first.trace, first.files) == (second.trace, second.files)
    assert first.trace != simulate(8, durability).trace


@pytest.mark.feature("X-14")
def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    command = [sys.executable, "-m", "treering.testing.simulation", "--seed", "3", "--count", "3", "--trace"]
    outputs = [
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": hashes}, capture_output=True, check=True).stdout
        for hashes in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"all well") == 3


async def wait_forever() -> None:
    await anyio.sleep_forever()


async def wait_again_and_again() -> None:
    while True:  # noqa: ASYNC110  # time is virtual
        await anyio.sleep(60)


async def never_wait() -> None:
    while True:
        await checkpoint()


@pytest.mark.feature("X-14")
@pytest.mark.parametrize("hang", [wait_forever, wait_again_and_again, never_wait])
def test_a_run_that_hangs_fails_by_itself_even_if_it_is_shielded(
    hang: Callable[[], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(determinism, "STEPS_MAX", 10_000)
    cleaned = []

    async def main() -> None:
        try:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as group:
                    group.start_soon(hang)
        finally:
            cleaned.append(hang)

    with pytest.raises(Broken, match="it hangs: "):
        run(0, main)
    assert cleaned == [hang]


def test_a_failing_seed_states_the_command_that_reproduces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "answer", lambda *_: (_ for _ in ()).throw(Broken("it is broken")))
    with pytest.raises(Broken, match=r"python -m treering\.testing\.simulation --seed 4 --durability") as caught:
        simulate(4)
    assert "it is broken" in str(caught.value)
    assert caught.value.trace
