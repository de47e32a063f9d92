"""The examples run unchanged, and print the expected lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

PRINTED = {
    "agent.py": [
        "Hello! How can I help?",
        "[weather was called]",
        "It is sunny.",
        "6 messages, ",
        "ada: 4 messages",
        "grace: 4 messages",
        "(echo, 1 message) Who am I?",
    ],
    "agent_on_disk.py": ["0 messages from before; (echo, 1 message) Hello"],
    "keyed_sessions.py": [
        "system: Previous conversation summary: 18 messages, the first of which says: What's the weather?",
        "assistant: Answer 7.",
        "user: And now?",
        "22 messages in ",
    ],
    "quickstart.py": [
        "compactionSummary: The user greeted and then asked for a joke.",
        "user: Actually, tell me a joke.",
    ],
    "server_in_fastapi.py": ["ada 200 ['Who am I?', 'You asked: Who am I?']", "bob 404 []"],
    "sqlite_store.py": ["user: Hello, store!", "assistant: Hello! What shall I keep?"],
    "many_agents.py": ["user: agent-0, step 0?", "assistant: step 4 is done", "1000 entries in 100 sessions"],
}


def test_every_example_has_expected_lines() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("agent.py", marks=pytest.mark.feature("D-53", "D-55")),
        pytest.param("agent_on_disk.py", marks=pytest.mark.feature("D-54")),
        *sorted(PRINTED.keys() - {"agent.py", "agent_on_disk.py"}),
    ],
)
def test_an_example_prints_the_expected_lines(name: str, tmp_path: Path) -> None:
    output = run(name, tmp_path)
    for line in PRINTED[name]:
        assert line in output


def test_a_second_run_of_the_agent_on_disk_continues_its_session(tmp_path: Path) -> None:
    run("agent_on_disk.py", tmp_path)
    assert run("agent_on_disk.py", tmp_path) == "2 messages from before; (echo, 3 messages) Tell me more\n"
    assert (tmp_path / ".myapp" / "sessions" / "my-session.jsonl").is_file()


def run(name: str, home: Path) -> str:
    """Run an example with a folder of the test as its home, and return its output."""
    command = [sys.executable, str(EXAMPLES / name)]
    environment = {**os.environ, "HOME": str(home)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stderr == ""
    return ended.stdout
