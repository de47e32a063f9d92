"""The soak in slices: it stops at a signal, continues at its next slice, and names what repeats a failure."""

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
import structlog

from .. import soak
from .test_crash_states import CASES
from .test_strace import SWEEPS


def parts_of(state: Path) -> dict[str, Any]:
    parts: dict[str, Any] = json.loads(state.read_bytes())["parts"]
    return parts


def test_a_stopped_run_tells_what_is_done_and_continues_at_its_next_slice(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    command = [sys.executable, "-m", "tests.soak", "--jobs", "1", "--part", "simulation", "--state", str(state)]
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]  # as in a shell's background job
    with subprocess.Popen(ignoring, cwd=soak.PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"simulation 10;" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate()
    first = parts_of(state)["simulation"]
    assert process.returncode == 128 + signal.SIGINT
    assert f"{first['figures']['seeds run']:,}        10,000  seeds run".encode() in told
    assert b"stopped: --resume continues" in told
    continued = [*command, "--resume", "--scale", "0.002"]
    done = subprocess.run(continued, cwd=soak.PROJECT, capture_output=True, text=True, check=False)
    second = parts_of(state)["simulation"]
    assert done.returncode == 0, done.stdout
    assert f"{second['figures']['seeds run']}            20  seeds run" in done.stdout
    assert "0 lost, 0 failed" in done.stdout
    assert second["slices"][: len(first["slices"])] == first["slices"]
    assert len({*second["slices"]}) == max(2, len(first["slices"]))


def fails_at_nine(seed: int, tally: Counter[str]) -> None:
    assert seed != 9, "it is nine"
    tally["seeds"] += 1


def needs_a_tool(_: int, __: Counter[str]) -> None:
    raise SkipTest("the tool is not installed")


def test_a_failure_names_the_command_that_repeats_it_and_the_rest_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # a soak in this process prepares the process, and it ends
    monkeypatch.setattr(structlog, "configure", lambda **_: None)
    state = tmp_path / "state.json"
    parts = [
        soak.Part("nines", (__name__, "fails_at_nine"), "seeds", 0, 20, 4),
        soak.Part("tools", (__name__, "needs_a_tool"), "calls", 0, 3, 1),
    ]
    assert soak.main(["--jobs", "0", "--state", str(state)], parts) == 1
    told = capsys.readouterr().out
    assert parts_of(state)["nines"] == {**parts_of(state)["nines"], "figures": {"seeds": 17}}
    assert "AssertionError: it is nine\n" in told
    assert "to repeat it: python -m tests.soak --part nines --seed 9\n" in told
    assert "not run: the tool is not installed" in told
    with pytest.raises(AssertionError, match="it is nine"):
        soak.main(["--part", "nines", "--seed", "9"], parts)
    assert soak.main(["--jobs", "0", "--state", str(state), "--part", "tools"], parts) == 1, "nothing was proved"
    state.write_bytes(state.read_bytes().replace(b'"code": "', b'"code": "0'))
    with pytest.raises(SystemExit):
        soak.main(["--state", str(state), "--resume"], parts)
    assert "made on other code" in capsys.readouterr().err


def test_the_whole_soak_has_a_seed_for_each_case() -> None:
    seeds = {part.name: part.seeds for part in soak.PARTS}
    assert (seeds["crashes"], seeds["calls"]) == (len(CASES), len(SWEEPS))
    for part in soak.PARTS:
        assert sorted(seed for number in part.slices() for seed in part.seeds_of(number)) == [*range(part.seeds)]
