"""Each adapter with the oldest release that it takes and with the newest one; and what it says of others."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from treering.adapters.versions import FRAMEWORKS

from .environments import PROJECT, environment, lenient

TOOLS = ("pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.100", "trio>=0.27", "uvloop>=0.20")


class Releases(NamedTuple):
    """The releases of a framework that are tried, and our tests that try them."""

    oldest: tuple[str, ...]
    newest: tuple[str, ...]
    tests: tuple[str, ...]


RELEASES = {
    "openai-agents": Releases(
        ("openai-agents==0.7.0",), ("openai-agents",), ("test_openai_agents.py", "test_openai_branches.py")
    ),
    "langgraph-checkpoint": Releases(
        ("langgraph-checkpoint==4.0.0", "langgraph>=1,<2", "langgraph-checkpoint-conformance"),
        ("langgraph-checkpoint", "langgraph", "langgraph-checkpoint-conformance"),
        ("test_langgraph.py",),
    ),
    "claude-agent-sdk": Releases(
        ("claude-agent-sdk==0.2.82",), ("claude-agent-sdk",), ("test_claude_agent_sdk.py",)
    ),
}


@pytest.mark.feature("A-23")
@pytest.mark.interop
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("which", ["oldest", "newest"])
@pytest.mark.parametrize("framework", RELEASES)
def test_an_adapter_with_a_release(framework: str, which: str) -> None:
    releases = RELEASES[framework]
    wanted = releases.oldest if which == "oldest" else releases.newest
    python = environment(
        f"{framework}-{which}", *wanted, *TOOLS, extras="[remote,server]", newest=which == "newest"
    )
    files = [str(Path(__file__).with_name(name)) for name in releases.tests]
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", *files],
        cwd=PROJECT,
        env=lenient(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout.splitlines()[-1]
