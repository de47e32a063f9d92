"""Each adapter with the oldest release that it takes and with the newest one; and what it says of others."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from treering.adapters.versions import FRAMEWORKS, PYDANTIC_AI_HARNESS, Releases

from .environments import PROJECT, environment, lenient

FOR_OUR_TESTS = (
    *("anyio>=4.11", "pytest>=8.3", "pytest-anyio", "pytest-timeout>=2.3"),
    *("hypothesis>=6.100", "trio>=0.27", "uvloop>=0.20"),
)


class Tried(NamedTuple):
    """What is installed for an adapter's tests, and these."""

    oldest: tuple[str, ...]
    newest: tuple[str, ...]
    tests: tuple[str, ...]


SAMPLES = "tests/docs/test_samples.py"
"""The samples of the guide, of which those run whose framework is there."""

TRIED = {
    "openai-agents": Tried(
        ("openai-agents==0.22.0",), ("openai-agents",), ("test_openai_agents.py", "test_openai_branches.py")
    ),
    "langgraph-checkpoint": Tried(
        ("langgraph-checkpoint==4.3.0", "langgraph>=1,<2", "langgraph-checkpoint-conformance"),
        ("langgraph-checkpoint", "langgraph", "langgraph-checkpoint-conformance"),
        ("test_langgraph.py",),
    ),
    "claude-agent-sdk": Tried(
        ("claude-agent-sdk==0.2.82",), ("claude-agent-sdk",), ("test_claude_agent_sdk.py", "test_claude_mirrored.py")
    ),
    "google-adk": Tried(
        ("google-adk==2.10.0", "openai"), ("google-adk", "openai"), ("test_adk.py", "test_adk_sessions.py")
    ),
    "agent-framework-core": Tried(
        ("agent-framework-core==1.22.0", "openai"), ("agent-framework-core", "openai"), ("test_agent_framework.py",)
    ),
    "pydantic-ai-slim": Tried(
        ("pydantic-ai-slim==2.0.0", "openai"), ("pydantic-ai-slim", "openai"), ("test_pydantic_ai.py",)
    ),
    "strands-agents": Tried(
        ("strands-agents==1.20.0", "openai"),
        ("strands-agents", "openai"),
        ("test_strands.py", "test_strands_agents.py"),
    ),
}
PROVES = {
    "google-adk": pytest.mark.feature("A-12", "A-13", "A-14", "A-15"),
    "agent-framework-core": pytest.mark.feature("A-19", "A-20"),
    "pydantic-ai-slim": pytest.mark.feature("A-21"),
    "strands-agents": pytest.mark.feature("A-22"),
}
"""The rows of adapters whose tests run nowhere else: their frameworks do not go together with the others."""

ADAPTERS = {
    "openai-agents": "openai_agents",
    "langgraph-checkpoint": "langgraph",
    "claude-agent-sdk": "claude_agent_sdk",
    "google-adk": "adk",
    "agent-framework-core": "agent_framework",
    "pydantic-ai-slim": "pydantic_ai",
    "strands-agents": "strands",
}
RELEASES = ("oldest", "newest")
HARNESS = {"oldest": "pydantic-ai-harness==0.52.0", "newest": "pydantic-ai-harness"}
"""It wants a release of its own of pydantic-ai, whose adapter is tried with others."""


def turns(number: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return two frameworks, one to be tried with its oldest release and one with its newest.

    Args:
        number: Which turn it is. So many turns after each other as there are frameworks try each with both.
    """
    packages = [*TRIED]
    return (packages[number % len(packages)], "oldest"), (packages[(number + 1) % len(packages)], "newest")


def made(package: str, which: str, *, anew: bool = False) -> Path:
    """Return the interpreter of the environment with one release of a framework, the newest one looked up again."""
    tried = TRIED[package]
    wanted = tried.oldest if which == "oldest" else tried.newest
    return environment(
        f"{package}-{which}", *wanted, *FOR_OUR_TESTS, extras="[remote,server]", newest=anew and which == "newest"
    )


@pytest.mark.interop
@pytest.mark.timeout(2400)
@pytest.mark.feature("A-23")
@pytest.mark.parametrize("which", RELEASES)
@pytest.mark.parametrize("package", [pytest.param(each, marks=PROVES.get(each, ())) for each in TRIED])
def test_an_adapter_with_a_release(package: str, which: str) -> None:
    python = made(package, which, anew="CI_RELEASES" not in os.environ)  # there it was made right before
    in_ci = [turn for at in range(len(TRIED)) for turn in turns(at)]
    assert in_ci.count((package, which)) == 1
    files = [str(Path(__file__).with_name(name)) for name in TRIED[package].tests]
    assert run(python, *files)
    check_what_is_said_of_others(python, [each for each in FRAMEWORKS if each.package == package])
    if package in PROVES:
        assert run(python, SAMPLES, "-k", "run_and_print and frameworks.md") == 1


def run(python: Path, *arguments: str) -> int:
    """Run tests, none of which may skip because something is not installed, and return how many passed."""
    options = ["-q", "-rs", "-p", "no:cacheprovider", "-m", "interop or not interop"]
    options += ["-o", "filterwarnings=default"]  # old releases warn of new Pythons
    done = subprocess.run(
        [str(python), "-m", "pytest", *options, *arguments],
        cwd=PROJECT,
        env=lenient(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    last = done.stdout.strip().splitlines()[-1]
    assert "not installed" not in done.stdout
    found = re.search(r"(\d+) passed", last)
    return 0 if found is None else int(found[1])


def test_the_bound_of_the_harness_is_the_one_that_is_installed() -> None:
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    known = PYDANTIC_AI_HARNESS
    assert extras[known.extra] == [f"{known.package}>={known.oldest}"]
    assert HARNESS["oldest"] == f"{known.package}=={known.oldest}"


@pytest.mark.interop
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("which", RELEASES)
def test_the_steps_of_pydantic_ais_harness(which: str) -> None:
    newest = which == "newest"
    name = f"pydantic-ai-harness-{which}"
    python = environment(name, HARNESS[which], *FOR_OUR_TESTS, extras="[remote,server]", newest=newest)
    assert run(python, str(Path(__file__).with_name("test_pydantic_ai_steps.py"))) == 5


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
    if known.package not in adapters:
        continue
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


def check_what_is_said_of_others(python: Path, frameworks: Sequence[Releases]) -> None:
    """Look at what an adapter says of releases that are older and newer than those that it takes."""
    adapters = {each.package: ADAPTERS[each.package] for each in frameworks}
    command = [str(python), "-c", WITH_OTHER_RELEASES, json.dumps(adapters)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=lenient(), cwd=PROJECT).stdout
    for each in frameworks:
        older = f"{each.package} 0.0.9 is older than {each.oldest}, which this adapter needs:"
        older += f" pip install -U 'treering[{each.extra}]'\n"
        assert f"{each.package} 0.0.9: {older}" in said
        assert f"{each.package} imported: {older}" in said
        assert f"{each.package} {each.oldest}.post1: taken\n" in said
        assert f"{each.package} {each.newest}: taken\n" in said
        noted = said.partition(f"{each.package} 999.1rc1: ")[2].partition("taken\n")[0]
        assert "framework_untried" in noted
        assert each.newest in noted


def test_a_release_outside_is_named() -> None:
    assert set(ADAPTERS) == {each.package for each in FRAMEWORKS}
    check_what_is_said_of_others(Path(sys.executable), FRAMEWORKS)


@pytest.mark.parametrize("number", [0, 1, 7])
def test_two_frameworks_by_turns_and_each_with_both_releases(number: int) -> None:
    one, other = turns(number)
    assert (one[1], other[1]) == RELEASES
    assert one[0] != other[0]
    in_turn = [each for at in range(number, number + len(TRIED)) for each in turns(at)]
    assert sorted(in_turn) == sorted((package, which) for package in TRIED for which in RELEASES)
