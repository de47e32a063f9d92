"""The frameworks' own tests over treering, from their source distributions, each in an environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from .environments import environment, lenient, sources

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1200)]

OPENAI_AGENTS = ("openai-agents==0.24.0", "4b4b285f4fed81fdf1b4ac426a9101658d9cd29b4fb1aaeee18f639b77e704e3")
OF_SQLITE = (
    # They look into SQLite's connections, locks and tables, and have no meaning without it.
    "worker_thread",
    "retired_connections",
    "corrupt",
    "file_lock",
    "failed",
    "rollback",
    "quarantined",
    "closed_rejects",
    "post_commit",
)


@pytest.mark.feature("A-1")
def test_the_session_tests_of_the_agents_sdk() -> None:
    python = environment("openai-agents", OPENAI_AGENTS[0], "pytest", "pytest-asyncio", "inline-snapshot")
    folder = sources(python, *OPENAI_AGENTS)
    files = [f"tests/memory/test_session{part}.py" for part in ("", "_limit", "_context_wrapper")]
    chosen = " and ".join(f"not {each}" for each in OF_SQLITE)
    passed, failed = run(python, folder, "over_treering", "-k", chosen, *files)
    assert failed == 0
    assert passed >= 66


def run(python: Path, folder: Path, plugin: str, *arguments: str) -> tuple[int, int]:
    """Run a framework's tests with a plugin of ours, and return how many passed, and how many did not."""
    path = os.pathsep.join((str(Path(__file__).parent / "upstream"), str(folder)))
    command = [str(python), "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=lenient(PYTHONPATH=path), check=False, capture_output=True, text=True
    )
    last = done.stdout.strip().splitlines()[-1]
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?)", last)}
    passed = counts.pop("passed", 0)
    assert not done.returncode, done.stdout[-8000:] + done.stderr[-2000:]
    return passed, sum(counts.values())
