"""The root that commands use, and the settings in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from anyio import to_thread
from click.testing import Result

from treering import FileStore, InvalidInput, SessionHost, Settings, SyncHost, default_root
from treering.cli.home import Home

Treering = Callable[..., Result]
CreateSession = Callable[..., str]


def ids(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [row["id"] for row in json.loads(result.stdout)]


def test_the_root_comes_from_the_option_the_environment_or_the_platform(
    treering: Treering, create_session: CreateSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = create_session("Hello")
    assert ids(treering("sessions", "--json")) == [here]
    assert ids(treering("sessions", "--json", "--root", tmp_path / "elsewhere")) == []
    assert ids(treering("sessions", "--json", env={"TREERING_ROOT": str(tmp_path / "elsewhere")})) == []

    monkeypatch.delenv("TREERING_ROOT")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if os.name == "posix" and os.uname().sysname == "Linux":
        assert Home.at().root == str(tmp_path / "data" / "treering" / "sessions")
    assert Home.at("~/logs").root == str(tmp_path / "logs")


@pytest.mark.parametrize("address", ["postgresql://anna:secret@db/x", "sqlite:s.db", "S3://bucket", "py+x.y-1:"])
def test_a_root_that_begins_like_an_address_is_refused(
    treering: Treering, project: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = address.partition(":")[0]
    for call in (SessionHost, SyncHost, FileStore):
        with pytest.raises(InvalidInput, match=re.escape(f"the root begins with '{scheme}:', like an address")):
            call(address)
    by_option = treering("sessions", "--root", address)
    monkeypatch.setenv("TREERING_ROOT", address)
    by_environment = treering("sessions")
    for name, result in (("--root", by_option), ("TREERING_ROOT", by_environment)):
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"treering: {name} begins with '{scheme}:', like an address")
        assert f"'./{scheme}:…'" in result.stderr
        assert "secret" not in result.stderr
    with pytest.raises(InvalidInput):
        default_root()
    assert list(project.iterdir()) == []


@pytest.mark.parametrize("name", ["./sqlite:s", "c:sessions", "a b:c", "_x:y"])
def test_a_directory_with_a_colon_in_its_name_can_be_a_root(project: Path, name: str) -> None:
    for root in (name, Path(name)):
        with SyncHost(root) as host:
            host.create().append_message("user", "Hello")
    assert len(list(project.glob("*/*.jsonl"))) == 2
    assert [each.name for each in project.iterdir()] == [name.removeprefix("./")]


async def test_programs_and_the_command_use_the_same_default_root(
    treering: Treering, project: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SessionHost(default_root()) as host:
        session = await host.create(cwd=project)
        await session.append_message("user", "Hello")
    assert ids(await to_thread.run_sync(lambda: treering("sessions", "--json"))) == [session.id]
    assert default_root() == root
    monkeypatch.setenv("HOME", str(root.parent))
    monkeypatch.setenv("TREERING_ROOT", "~/logs")
    assert default_root() == root.parent / "logs"
    monkeypatch.setenv("TREERING_ROOT", "")
    assert default_root().parts[-2:] == ("treering", "sessions")


def test_reading_commands_create_no_root(treering: Treering, root: Path, project: Path) -> None:
    for command in (["sessions"], ["sessions", "--all"], ["gc"], ["current"], ["search", "x"], ["info"], ["resume"]):
        treering(*command)
        assert not root.exists(), command


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.toml", "auto_archive_after_days = 7\ndebounce_ms = 5\n"),
        ("config.json", '{"auto_archive_after_days": 7, "debounce_ms": 5}'),
    ],
)
def test_settings_are_read_from_the_root(root: Path, name: str, text: str) -> None:
    assert Home.at().settings() == Settings()
    root.mkdir()
    (root / name).write_text(text)
    assert Home.at().settings() == Settings(auto_archive_after_days=7, debounce_ms=5)


def test_two_settings_files_are_refused(root: Path) -> None:
    root.mkdir()
    (root / "config.toml").write_text("")
    (root / "config.json").write_text("{}")
    with pytest.raises(InvalidInput, match=r"config\.toml and .*config\.json: remove one"):
        Home.at().settings()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("config.toml", "archive_after = 7\n", "archive_after"),
        ("config.toml", "debounce_ms = -1\n", "debounce_ms"),
        ("config.toml", "debounce_ms = ", "config.toml"),
        ("config.toml", b"\xff\xfe", "config.toml"),
        ("config.json", '{"debounce_ms": "soon"}', "debounce_ms"),
    ],
)
def test_wrong_settings_are_a_one_line_error(
    treering: Treering, root: Path, project: Path, name: str, text: str | bytes, expected: str
) -> None:
    root.mkdir()
    (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    result = treering("sessions")
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("treering: ")
    assert str(root / name) in result.stderr
    assert expected in result.stderr


@pytest.mark.feature("N-121")
def test_options_are_checked_before_the_root_is_opened(treering: Treering, root: Path, project: Path) -> None:
    root.mkdir()
    (root / "config.toml").write_text("nonsense")  # opening the root fails with status 1
    wrong = [
        ["sessions", "--limit", "-1"],
        ["resume", "--nonsense"],
        ["compact", "last", "--apply"],
        ["export", "last", "--format", "nonsense"],
        ["search", "x", "--after", "soon"],
        ["current", "last", "--clear"],
        ["chat", "--continue", "--new"],
        ["chat", "--json"],
    ]
    for args in wrong:
        result = treering(*args)
        assert (result.exit_code, result.stdout) == (2, ""), args
        assert "nonsense'" in result.stderr or "config" not in result.stderr, args
    assert os.listdir(root) == ["config.toml"]
    assert treering("sessions").exit_code == 1
