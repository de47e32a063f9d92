"""Frameworks in environments of their own: the tests of their source distributions over treering, or our own.

The dependencies of frameworks clash, so our tests of most of them skip where the others run, and run here.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from .environments import PROJECT, environment, lenient, sources

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


ADK = {"lowest": "google-adk==2.10.0", "tested": "google-adk==2.13.0", "newest": "google-adk"}
FOR_OUR_TESTS = ("anyio>=4.11", "hypothesis", "pytest", "pytest-anyio", "pytest-timeout", "trio", "uvloop")


@pytest.mark.feature("A-12", "A-13", "A-14", "A-15", "A-23")
@pytest.mark.parametrize("release", ADK)
def test_the_agent_development_kit(release: str) -> None:
    python = environment(f"adk-{release}", ADK[release], *FOR_OUR_TESTS)
    passed, failed = run(python, PROJECT, None, "tests/adapters/test_adk.py", "tests/adapters/test_adk_sessions.py")
    assert failed == 0
    assert passed >= 98
    assert run(python, PROJECT, None, "tests/docs/test_samples.py", "-k", "run_and_print and frameworks.md") == (1, 0)


def run(python: Path, folder: Path, plugin: str | None, *arguments: str) -> tuple[int, int]:
    """Run tests, perhaps with a plugin of ours, and return how many passed, and how many did not."""
    path = os.pathsep.join((str(Path(__file__).parent / "upstream"), str(folder)))
    more = () if plugin is None else ("-p", plugin)
    command = [str(python), "-m", "pytest", "-q", *more, "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=lenient(PYTHONPATH=path), check=False, capture_output=True, text=True
    )
    last = done.stdout.strip().splitlines()[-1]
    counts = {what: int(number) for number, what in re.findall(r"(\d+) (passed|failed|errors?)", last)}
    passed = counts.pop("passed", 0)
    assert not done.returncode, done.stdout[-8000:] + done.stderr[-2000:]
    return passed, sum(counts.values())
