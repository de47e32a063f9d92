"""The examples run as they stand, and print what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

SHOWN = {
    "quickstart.py": [
        "compactionSummary: The user greeted and then asked for a joke.",
        "user: Actually, tell me a joke.",
    ],
    "many_agents.py": ["user: agent-0, step 0?", "assistant: step 4 is done", "1000 entries in 100 sessions"],
}


def test_every_example_is_tried() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_an_example_runs(name: str) -> None:
    run = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=True, timeout=60)
    for line in SHOWN[name]:
        assert line in run.stdout
    assert run.stderr == ""
