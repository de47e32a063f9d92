"""The root that commands use, and the settings in it."""

import os
import re
from pathlib import Path

import pytest
from anyio import to_thread

from treering import FileStore, InvalidInput, SessionHost, Settings, SyncHost, default_root
from treering.cli.home import Home

from .conftest import Cli


def test_the_root_comes_from_the_option_the_environment_or_the_platform(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = cli.create("Hello")
    assert cli.ids() == [here]
    assert cli.ids("--root", str(tmp_path / "elsewhere")) == []
    assert cli("sessions", "--json", env={"TREERING_ROOT": str(tmp_path / "elsewhere")}).stdout == "[]\n"
    monkeypatch.delenv("TREERING_ROOT")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if os.name == "posix" and os.uname().sysname == "Linux":
        assert Home.at().root == str(tmp_path / "data" / "treering" / "sessions")
    assert Home.at("~/logs").root == str(tmp_path / "logs")
    assert Home.at(f"file:{tmp_path}/a%20b").root == str(tmp_path / "a b")
    monkeypatch.setenv("TREERING_ROOT", f"file://{tmp_path}/logs")
    assert Home.at().root == str(tmp_path / "logs")


def test_a_root_in_memory_is_refused_since_nothing_would_be_there(cli: Cli) -> None:
    assert cli.error("sessions", "--root", "memory:") == (
        "treering: --root is in memory, where nothing was before and nothing stays: give a directory\n"
    )


@pytest.mark.parametrize("address", ["mysql://anna:secret@db/x", "sqlite:s.db", "S3://bucket", "py+x.y-1:"])
def test_a_root_that_begins_like_an_address_is_refused(cli: Cli, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = address.partition(":")[0]
    for call in (SessionHost, SyncHost, FileStore):
        with pytest.raises(InvalidInput, match=re.escape(f"the root begins with '{scheme}:', like an address")):
            call(address)
    by_option = cli("sessions", "--root", address)
    monkeypatch.setenv("TREERING_ROOT", address)
    by_environment = cli("sessions")
    for name, result in (("--root", by_option), ("TREERING_ROOT", by_environment)):
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"treering: {name} begins with '{scheme}:', like an address")
        assert f"'./{scheme}:…'" in result.stderr
        assert "secret" not in result.stderr
    with pytest.raises(InvalidInput):
        default_root()
    assert list(cli.project.iterdir()) == []


@pytest.mark.parametrize("name", ["./sqlite:s", "c:sessions", "a b:c", "_x:y"])
def test_a_directory_with_a_colon_in_its_name_can_be_a_root(cli: Cli, name: str) -> None:
    for root in (name, Path(name)):
        with SyncHost(root) as host:
            host.create().append_message("user", "Hello")
    assert len(list(cli.project.glob("*/*.jsonl"))) == 2
    assert [each.name for each in cli.project.iterdir()] == [name.removeprefix("./")]


async def test_programs_and_the_command_use_the_same_default_root(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SessionHost(default_root()) as host:
        session = await host.create(cwd=cli.project)
        await session.append_message("user", "Hello")
    assert await to_thread.run_sync(cli.ids) == [session.id]
    assert default_root() == cli.root
    monkeypatch.setenv("HOME", str(cli.root.parent))
    monkeypatch.setenv("TREERING_ROOT", "~/logs")
    assert default_root() == cli.root.parent / "logs"
    monkeypatch.setenv("TREERING_ROOT", "")
    assert Path(default_root()).parts[-2:] == ("treering", "sessions")


def test_reading_commands_create_no_root(cli: Cli) -> None:
    for command in (["sessions"], ["sessions", "--all"], ["gc"], ["current"], ["search", "x"], ["info"], ["resume"]):
        cli(*command)
        assert not cli.root.exists(), command


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.toml", "auto_archive_after_days = 7\ndebounce_ms = 5\n"),
        ("config.json", '{"auto_archive_after_days": 7, "debounce_ms": 5}'),
    ],
)
def test_settings_are_read_from_the_root(cli: Cli, name: str, text: str) -> None:
    assert Home.at().settings() == Settings()
    cli.root.mkdir()
    (cli.root / name).write_text(text)
    assert Home.at().settings() == Settings(auto_archive_after_days=7, debounce_ms=5)


def test_two_settings_files_are_refused(cli: Cli) -> None:
    cli.root.mkdir()
    (cli.root / "config.toml").write_text("")
    (cli.root / "config.json").write_text("{}")
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
def test_wrong_settings_are_a_one_line_error(cli: Cli, name: str, text: str | bytes, expected: str) -> None:
    cli.root.mkdir()
    (cli.root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    error = cli.error("sessions")
    assert str(cli.root / name) in error
    assert expected in error


@pytest.mark.feature("N-121")
def test_options_are_checked_before_the_root_is_opened(cli: Cli) -> None:
    cli.root.mkdir()
    (cli.root / "config.toml").write_text("nonsense")  # opening the root fails with status 1
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
        error = cli.error(*args, status=2)
        assert "nonsense'" in error or "config" not in error, args
    assert os.listdir(cli.root) == ["config.toml"]
    assert cli("sessions").exit_code == 1
