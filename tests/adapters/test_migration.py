"""What frameworks kept in stores of their own goes on here: each store made by its framework, in its environment."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from .environments import environment
from .test_versions import FOR_OUR_TESTS, run


class Stores(NamedTuple):
    """The releases that make stores, the tests of these, and how many there are."""

    releases: tuple[str, ...]
    tests: tuple[str, ...]
    number: int


STORES = {
    "openai-agents": Stores(
        ("openai-agents==0.24.0", "sqlalchemy>=2", "aiosqlite", "greenlet"), ("test_openai_migration.py",), 8
    ),
    "langgraph": Stores(
        ("langgraph==1.2.24", "langgraph-checkpoint-sqlite==3.1.2"), ("test_langgraph_migration.py",), 2
    ),
    "google-adk": Stores(
        ("google-adk==2.13.0", "openai", "sqlalchemy>=2", "aiosqlite", "greenlet"), ("test_adk_migration.py",), 2
    ),
    "agent-framework": Stores(("agent-framework-core==1.23.0", "openai"), ("test_agent_framework_migration.py",), 1),
    "strands-agents": Stores(("strands-agents==1.62.0",), ("test_strands_migration.py",), 1),
}


@pytest.mark.interop
@pytest.mark.timeout(2400)
@pytest.mark.feature("A-25")
def test_what_each_framework_kept_goes_on_here() -> None:
    for name, stores in STORES.items():
        python = environment(f"stores-{name}", *stores.releases, *FOR_OUR_TESTS, extras="[remote,server]")
        files = [str(Path(__file__).with_name(each)) for each in stores.tests]
        assert run(python, *files) == stores.number
