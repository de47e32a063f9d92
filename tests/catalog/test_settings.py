"""The settings of a host: defaults, wrong values, files, and their effects."""

import json
import os
from pathlib import Path

import pytest

from treering import InvalidInput, MemoryStore, SessionHost, SessionNotFound, Settings, SyncHost

DEFAULTS = {
    "auto_persist": True,
    "save_after_assistant_message": True,
    "save_after_tool_execution": True,
    "debounce_ms": 1000,
    "update_metadata_interval_ms": 5000,
    "max_sessions_per_project": 50,
    "auto_archive_after_days": 30,
}


@pytest.mark.feature("N-139")
def test_settings_have_defaults_and_are_read_from_a_mapping_or_a_file(tmp_path: Path) -> None:
    assert {name: getattr(Settings(), name) for name in DEFAULTS} == DEFAULTS
    assert Settings.load({}) == Settings()
    others = {"auto_persist": False, "debounce_ms": 0, "max_sessions_per_project": 1, "auto_archive_after_days": 365}
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(others))
    for source in (others, path, str(path)):
        settings = Settings.load(source)
        assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS | others


@pytest.mark.feature("N-139")
@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"debounceMs": 1}, "debounceMs"),
        ({"debounce_ms": -1}, "debounce_ms"),
        ({"debounce_ms": "1"}, "debounce_ms"),
        ({"debounce_ms": 1.5}, "debounce_ms"),
        ({"debounce_ms": True}, "debounce_ms"),
        ({"auto_persist": 1}, "auto_persist"),
        ({"max_sessions_per_project": 0}, "max_sessions_per_project"),
        ({"auto_archive_after_days": None}, "auto_archive_after_days"),
    ],
    ids=str,
)
def test_unknown_keys_and_bad_values_are_named(tmp_path: Path, wrong: dict[str, object], expected: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(wrong))
    for source in (wrong, path):
        with pytest.raises(InvalidInput, match=expected):
            Settings.load(source)
    with pytest.raises(InvalidInput, match=r"settings\.json"):
        Settings.load(path)
    path.write_text("no JSON")
    with pytest.raises(InvalidInput):
        Settings.load(path)


def test_settings_are_toml_or_json_by_ending_and_take_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine.toml").write_text("# mine\ndebounce_ms = 7\nauto_persist = false\n")
    (tmp_path / "mine.conf").write_text('{"debounce_ms": 7, "auto_persist": false}')
    for source in ("~/mine.toml", tmp_path / "mine.toml", "~/mine.conf"):
        assert Settings.load(source) == Settings(debounce_ms=7, auto_persist=False)
    for damaged in (b"debounce_ms = ", b"debounce_ms: 7", b"\xff\xfe"):
        (tmp_path / "mine.toml").write_bytes(damaged)
        with pytest.raises(InvalidInput, match=r"the settings in .*mine\.toml cannot be used: "):
            Settings.load(tmp_path / "mine.toml")
    with pytest.raises(FileNotFoundError):
        Settings.load(tmp_path / "none.toml")


def test_the_error_about_an_unknown_key_lists_the_known_keys(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("debounce = 1\nwhatever = 2\n")
    with pytest.raises(InvalidInput, match="there is no `debounce`, `whatever`; there are") as caught:
        Settings.load(path)
    for known in Settings.__struct_fields__:
        assert f"`{known}`" in str(caught.value)


def test_the_constructor_refuses_values_out_of_range() -> None:
    with pytest.raises(ValueError, match="debounce_ms"):
        Settings(debounce_ms=-1)


def everything_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.feature("N-122")
async def test_sessions_are_written_by_default_and_nothing_is_written_with_auto_persist_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "sessions"
    async with SessionHost(root, settings=Settings(auto_persist=False)) as host:
        session = await host.create("s", cwd=tmp_path)
        await session.append_message("user", "Hello")
        await session.append_message("assistant", "Good day")
        await host.set_current_session(tmp_path, session)
        assert [row.title for row in await host.list_sessions()] == ["Hello"]
        assert (await (await host.fork_from(session)).context()).messages
        assert session.file_path is None
        await host.flush()
        assert everything_in(tmp_path) == []
    assert everything_in(tmp_path) == []
    async with SessionHost(root) as host:
        with pytest.raises(SessionNotFound):
            await host.load("s")
        session = await host.create("s")
        await session.append_message("user", "Hello")
        assert everything_in(root) == [".treering", "s.jsonl"]
    with pytest.raises(InvalidInput, match="auto_persist"):
        SessionHost(store=MemoryStore(), settings=Settings(auto_persist=False))


@pytest.mark.feature("N-122")
def test_the_blocking_host_accepts_settings(tmp_path: Path) -> None:
    with SyncHost(tmp_path / "sessions", settings=Settings(auto_persist=False)) as host:
        session = host.create("s", cwd=tmp_path)
        session.append_message("user", "Hello")
        session.update_metadata(name="Mine", metadata={"a": 1})
        assert (session.metadata.title, session.metadata.metadata) == ("Mine", {"a": 1})
        assert session.stats().message_count == session.message_count == 1
        assert session.tool_executions() == []
        session.rebind(tmp_path)
        host.set_current_session(tmp_path, session)
        current = host.current_session(tmp_path)
        assert current is not None
        assert current == host.get_session("Mine") == host.resolve("last")
        assert host.list_sessions(project=tmp_path, limit=1) == [current]
    assert everything_in(tmp_path) == []
