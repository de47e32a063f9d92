"""The tests of a framework's source distribution over treering, in an environment of their own."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
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
OF_ADVANCED_SQLITE = (
    # They look into SQLite's connections, tables and rows, or make one of them fail.
    "auxiliary_mutation",
    "backfilled",
    "concurrent_add_items_preserves",
    "corrupt_newest",
    "custom_table_names",
    "default_read_does_not_initialize",
    "delete_branch_keeps_messages",
    "delete_branch_removes",
    "failed_branch_reservation",
    "failed_usage_write",
    "identifier_resolution",
    "initialization_failure",
    "legacy",
    "orphan_cleanup",
    "pop_item_deletes_shared",
    "pop_item_removes",
    "pop_item_respects_current",
    "pop_item_rolls_back",
    "post_commit",
    "reservations_migrate",
    "rollback_failure",
    "rolls_back",
    "clear_session_removes_structure",
    "clear_session_resets_current",  # it counts rows; test_openai_branches.py asks the same of items
    "skips_when_current_branch_has_no_turn",  # likewise
    "structure_metadata",
    "structure_table",
    "no_create_session",
    "switch_validation",
    "waits_for_database_lock",
    # They hold up a function of SQLite's by its name, and what comes after it.
    "capture",
    "stale_switch_after_clear",
    "stale_create_branch",
    "stale_store_run_usage",
    "clear_before_branch_transaction",
    "queued",
    "snapshot_when_branch_switches",
    "survives_reuse_on_another",
    "survives_unrelated",
    "add_captures_coherent",
    "failure_preserves_existing",
    # Several processes at one file: here they go to a server.
    "across_processes",
    # A logger of one's own, a closed object, and errors that are logged and not raised.
    "logging_respects",
    "closed_rejects",
    "failure_identity",
)


@pytest.fixture(scope="module")
def agents_sdk() -> Path:
    """An environment with the Agents SDK and what its tests need."""
    return environment("openai-agents", OPENAI_AGENTS[0], "pytest", "pytest-asyncio", "inline-snapshot", "sqlalchemy")


@pytest.mark.feature("A-1")
def test_the_session_tests_of_the_agents_sdk(agents_sdk: Path) -> None:
    files = [f"tests/memory/test_session{part}.py" for part in ("", "_limit", "_context_wrapper")]
    check(agents_sdk, OF_SQLITE, files, passes_at_least=66)


@pytest.mark.feature("A-4")
def test_the_tests_of_the_session_with_branches(agents_sdk: Path) -> None:
    check(
        agents_sdk, OF_ADVANCED_SQLITE, ["tests/extensions/memory/test_advanced_sqlite_session.py"], passes_at_least=80
    )


STRANDS = ("strands-agents==1.62.0", "8732c87f9c1ceb6ef4c5c4bd6d96b4cdf1bbfde095f1537ec2ac6fddb8d5a066")


@pytest.mark.feature("A-22")
def test_the_repository_tests_of_strands_agents() -> None:
    builds = ("hatchling", "hatch-vcs")  # of the source distribution, whose name pip asks it for
    python = environment("strands-agents", STRANDS[0], "pytest", "pytest-asyncio", "moto", *builds)
    folder = sources(python, *STRANDS)
    passed, failed = run(
        python, folder, "strands_over_treering", "tests/strands/session/test_repository_session_manager.py"
    )
    assert failed == 0
    assert passed >= 51


def check(python: Path, left_out: Sequence[str], files: Sequence[str], *, passes_at_least: int) -> None:
    """Run files of the SDK's tests, without those whose names hold certain words."""
    chosen = " and ".join(f"not {each}" for each in left_out)
    passed, failed = run(python, sources(python, *OPENAI_AGENTS), "over_treering", "-k", chosen, *files)
    assert failed == 0
    assert passed >= passes_at_least


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
