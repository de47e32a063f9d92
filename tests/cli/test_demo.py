"""The story that `treering demo` plays: its output and its files."""

import os
from pathlib import Path

import anyio
import pytest

import treering as tr
from treering.events.health.doctor import examine

from .conftest import Cli


def test_the_demo_prints_its_story_and_leaves_its_sessions(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "our story"
    result = cli("demo", "--dir", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    for expected in (
        "live: plan 5  label:",
        "code.jsonl has 5 entries",
        "a model sees 6 messages before, 3 after",
        "3 entries were acknowledged before SIGKILL",
        "torn_tail",
        "no acknowledged entry was lost",
        "doctor: 0 findings",
        "branch_summary: The parser was tried first",
        "Merged three passes into one: twice as fast.  [done]",
        "<- leaf",
        f"try: treering tree '{folder}/plan.jsonl'",
    ):
        assert expected in result.stdout
    assert sorted(path.stem for path in folder.glob("*.jsonl")) == ["code", "plan", "review", "worker"]
    (fragment,) = folder.glob("*.torn-*")
    assert fragment.read_bytes() == b'{"type":"message","id":"0f'
    assert examine(folder) == []
    anyio.run(assert_final_state, folder)


async def assert_final_state(folder: Path) -> None:
    async with tr.SessionHost(folder) as host:
        plan = await host.load("plan", read_only=True)
        worker = await host.load("worker", read_only=True)
        tree = plan.tree()
        assert len(tree.roots) == 1
        assert [node.label for node in tree.nodes if node.label] == ["crossroads", "wrong turn", "done"]
        assert len(plan.children(plan.find_by_label("crossroads")[0])) == 2
        assert [each.role for each in (await plan.context()).messages] == ["compactionSummary", "user", "assistant"]
        assert worker.message_count == len(worker.path()) == 4


def test_the_demo_repeats_itself_and_leaves_no_file(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    first, second = cli("demo"), cli("demo")
    assert first.exit_code == second.exit_code == 0
    assert first.stdout == second.stdout
    assert os.listdir(tmp_path / "temporary") == []


def test_all_titles_follow_the_environment_in_their_style(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    styled = cli("demo", env={"FORCE_COLOR": "1"}).stdout
    assert [f"\x1b[1m{number}. " in styled for number in range(1, 6)] == [True] * 5
    assert "\x1b[" not in cli("demo", env={"NO_COLOR": "1"}, color=True).stdout


def test_the_demo_refuses_a_folder_that_holds_an_earlier_one(cli: Cli, tmp_path: Path) -> None:
    cli("demo", "--dir", tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
    result = cli("demo", "--dir", tmp_path)
    assert (result.exit_code, "session 'plan' already exists" in result.stderr) == (1, True)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")} == before


def test_other_commands_can_read_the_sessions_of_the_demo(cli: Cli, tmp_path: Path) -> None:
    cli("demo", "--dir", tmp_path)
    for name in ("plan", "code", "review", "worker"):
        nodes = cli.json("tree", tmp_path / f"{name}.jsonl")
        entries = cli.json_lines("entries", tmp_path / f"{name}.jsonl")
        assert sorted(node["id"] for node in nodes) == sorted(each["id"] for each in entries)
