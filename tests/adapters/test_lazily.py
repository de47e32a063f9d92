"""No framework is loaded before its adapter is, and one that is missing is named with what installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

ADAPTERS = {
    "adk": ("google.adk", "adk"),
    "agent_framework": ("agent_framework", "agent-framework"),
    "claude_agent_sdk": ("claude_agent_sdk", "claude-agent-sdk"),
    "langgraph": ("langgraph", "langgraph"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "strands": ("strands", "strands"),
}


def run(code: str) -> str:
    """Run a program, and return what it prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.feature("A-24")
def test_importing_the_library_loads_no_framework() -> None:
    packages = {package.partition(".")[0] for package, _ in ADAPTERS.values()} | {"langchain_core", "openai"}
    loaded = run("import sys, treering, treering.adapters.hosting, treering.sync; print(*sys.modules)").split()
    assert packages.isdisjoint(name.partition(".")[0] for name in loaded)


@pytest.mark.feature("A-24")
def test_a_framework_that_is_missing_is_named_with_what_installs_it() -> None:
    said = run(f"""
import importlib, sys
from treering.errors import ExtraMissing
for adapter, (package, extra) in {ADAPTERS!r}.items():
    sys.modules[package] = None
    try:
        importlib.import_module(f"treering.adapters.{{adapter}}")
    except ExtraMissing as error:
        assert str(error).endswith(f"pip install 'treering[{{extra}}]'"), error
        print(adapter)
""")
    assert said.split() == [*ADAPTERS]
