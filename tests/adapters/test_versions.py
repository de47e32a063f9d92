"""Each adapter with the oldest release that it takes and with the newest one; and what it says of others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from treering.adapters.versions import FRAMEWORKS, Releases

from .environments import PROJECT, environment, lenient

FOR_OUR_TESTS = ("pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.100", "trio>=0.27", "uvloop>=0.20")


class Tried(NamedTuple):
    """What is installed for an adapter's tests, and these."""

    oldest: tuple[str, ...]
    newest: tuple[str, ...]
    tests: tuple[str, ...]


TRIED = {
    "openai-agents": Tried(
        ("openai-agents==0.22.0",), ("openai-agents",), ("test_openai_agents.py", "test_openai_branches.py")
    ),
    "langgraph-checkpoint": Tried(
        ("langgraph-checkpoint==4.3.0", "langgraph>=1,<2", "langgraph-checkpoint-conformance"),
        ("langgraph-checkpoint", "langgraph", "langgraph-checkpoint-conformance"),
        ("test_langgraph.py",),
    ),
    "claude-agent-sdk": Tried(("claude-agent-sdk==0.2.82",), ("claude-agent-sdk",), ("test_claude_agent_sdk.py",)),
    "pydantic-ai-slim": Tried(("pydantic-ai-slim==2.0.0",), ("pydantic-ai-slim",), ("test_pydantic_ai.py",)),
    "strands-agents": Tried(
        ("strands-agents==1.20.0",), ("strands-agents",), ("test_strands.py", "test_strands_agents.py")
    ),
}
PROVES = {"pydantic-ai-slim": "A-21", "strands-agents": "A-22"}
"""The rows of adapters whose tests run nowhere else: their frameworks do not go together with the others."""

ADAPTERS = {
    "openai-agents": "openai_agents",
    "langgraph-checkpoint": "langgraph",
    "claude-agent-sdk": "claude_agent_sdk",
    "pydantic-ai-slim": "pydantic_ai",
    "strands-agents": "strands",
}


@pytest.mark.interop
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("which", ["oldest", "newest"])
@pytest.mark.parametrize(
    "package",
    [pytest.param(each, marks=pytest.mark.feature(PROVES[each]) if each in PROVES else ()) for each in TRIED],
)
def test_an_adapter_with_a_release(package: str, which: str) -> None:
    tried = TRIED[package]
    wanted = tried.oldest if which == "oldest" else tried.newest
    python = environment(
        f"{package}-{which}", *wanted, *FOR_OUR_TESTS, extras="[remote,server]", newest=which == "newest"
    )
    files = [str(Path(__file__).with_name(name)) for name in tried.tests]
    options = ["-q", "-p", "no:cacheprovider", "-m", "interop or not interop"]
    options += ["-o", "filterwarnings=default"]  # old releases warn of new Pythons
    done = subprocess.run(
        [str(python), "-m", "pytest", *options, *files],
        cwd=PROJECT,
        env=lenient(),
        check=False,
        capture_output=True,
        text=True,
    )
    last = done.stdout.strip().splitlines()[-1]
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", last), last
    assert "skipped" not in last


@pytest.mark.parametrize("releases", FRAMEWORKS, ids=lambda each: each.package)
def test_the_bounds_are_those_that_are_installed_and_tried(releases: Releases) -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras[releases.extra] == [f"{releases.package}>={releases.oldest}"]
    assert f"{releases.package}=={releases.oldest}" in TRIED[releases.package].oldest


WITH_OTHER_RELEASES = """
import importlib.metadata, json, logging, sys, types
from treering.adapters import versions
from treering.errors import ExtraMissing

adapters = json.loads(sys.argv[1])
said = {}
logging.basicConfig(handlers=[handler := logging.StreamHandler(sys.stdout)], format="%(message)s")
for known in versions.FRAMEWORKS:
    for release in ("0.0.9", known.oldest + ".post1", known.newest, "999.1rc1"):
        versions.version = lambda name: release
        print(known.package, release, end=": ")
        try:
            known.check()
            print("taken")
        except ExtraMissing as error:
            print(error)
    versions.version = lambda name: "0.0.9"
    for module in known.modules:
        sys.modules[module] = types.ModuleType(module)  # which has nothing of what the adapter imports
    try:
        __import__(f"treering.adapters.{adapters[known.package]}")
    except ExtraMissing as error:
        print(known.package, "imported:", error)
"""


def test_a_release_outside_is_named() -> None:
    command = [sys.executable, "-c", WITH_OTHER_RELEASES, json.dumps(ADAPTERS)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=lenient()).stdout
    for each in FRAMEWORKS:
        older = f"{each.package} 0.0.9 is older than {each.oldest}, which this adapter needs:"
        older += f" pip install -U 'treering[{each.extra}]'\n"
        assert f"{each.package} 0.0.9: {older}" in said
        assert f"{each.package} imported: {older}" in said
        assert f"{each.package} {each.oldest}.post1: taken\n" in said
        assert f"{each.package} {each.newest}: taken\n" in said
        noted = said.partition(f"{each.package} 999.1rc1: ")[2].partition("taken\n")[0]
        assert "framework_untried" in noted
        assert each.newest in noted
