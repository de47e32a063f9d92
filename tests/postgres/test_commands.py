"""The commands over a database: `--root postgresql://…`, and TREERING_ROOT."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from treering import SyncHost, default_root
from treering.cli.home import Home


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> Cli:
    """The command, for which the database is the root."""
    cli = Cli(tmp_path)
    monkeypatch.setenv("TREERING_ROOT", url)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(cli.project)
    with SyncHost(default_root()) as host:
        session = host.create("first", cwd=cli.project)
        question = session.append_message("user", "Where is the cart?")
        session.append_message("assistant", "In the shop.")
        session.set_label(question, "cart")
    return cli


def test_every_command_that_reads_shows_the_sessions_of_a_database(cli: Cli, url: str, tmp_path: Path) -> None:
    assert cli.ids() == ["first"]
    assert cli.ids("--root", url) == ["first"]
    assert cli("sessions").stdout.startswith("  Where is the cart?")
    info = cli.json("info")
    assert (info["session"]["id"], info["entries"]) == ("first", 3)
    assert "Where is the cart?" in cli("search", "cart").stdout
    assert "In the shop." in cli("context", "last").stdout
    assert "Where is the cart?" in cli("tree", "first").stdout
    assert [each["label"] for each in cli.json("labels", "first")] == ["cart"]
    assert len(cli.json_lines("entries", "first", "--root", url)) == 3
    assert "In the shop." in cli("export", "first").stdout
    assert cli("debug", "context", "first").exit_code == 0
    assert cli("gc").exit_code == 0
    assert cli.json("current") is None or cli("current").exit_code == 0
    written = tmp_path / "first.jsonl"
    cli.lines("export", "first", "-f", "native", "-o", written)
    assert len(cli.json_lines("entries", written)) == 3  # a path is a file, also where the root is a database


def test_every_command_that_writes_changes_the_sessions_of_a_database(cli: Cli, tmp_path: Path) -> None:
    cli.lines("rename", "first", "The cart")
    assert [row["name"] for row in cli.json("sessions")] == ["The cart"]
    cli.lines("current", "The cart")
    cli.lines("archive", "first")
    assert cli.ids() == []
    assert cli.ids("--archived") == ["first"]
    cli.lines("unarchive", "first")
    written = tmp_path / "second.jsonl"
    with SyncHost(tmp_path / "files") as host:
        other = host.create("second", cwd=cli.project)
        other.append_message("user", "Another one")
        written.write_bytes(Path(other.file_path or "").read_bytes())
    cli.lines("import", written)
    assert sorted(cli.ids()) == ["first", "second"]
    cli.lines("delete", "second", "--yes")
    assert cli.ids() == ["first"]
    assert not (tmp_path / "root").exists()


def test_what_a_machine_keeps_for_a_database_lies_under_application_data(cli: Cli, tmp_path: Path) -> None:
    folder = Path(Home.at().folder)
    assert folder.parent == tmp_path / "data" / "treering" / "roots"
    assert cli.lines("token", "create", "--role", "read")[0].startswith("tr_")
    assert [each["role"] for each in cli.json("token", "list")] == ["read"]
    assert (folder / ".treering" / "tokens.json").exists()
    (folder / "config.toml").write_text("auto_archive_after_days = 7\n")
    assert Home.at().settings().auto_archive_after_days == 7


def test_a_place_is_shown_without_its_password() -> None:
    for secret in (
        "postgresql://anna:sec%40ret@db:5432/shop?schema=x",
        "postgresql://anna@db:5432/shop?password=secret&schema=x",
        "postgresql://db:5432/shop?schema=x&sslpassword=secret",
    ):
        place = Home.at(secret).place
        assert "sec" not in place
        assert place.startswith("postgresql://db:5432/shop?")
        assert "schema=x" in place
        assert Home.at(secret).root == secret


def test_a_failure_of_the_database_is_one_sentence(cli: Cli) -> None:
    said = cli.error("sessions", "--root", "postgresql://anna:secret@localhost:1/shop")
    assert said.startswith("treering: localhost:1/shop: the database cannot be reached (")
    assert "secret" not in said
    said = cli.error("info", "--root", "postgresql://anna:secret@[db/shop")
    assert said.startswith("treering: the address of the database cannot be read")
    assert "secret" not in said
    assert "the database cannot be reached" in cli("doctor", "postgresql://localhost:1/shop").stderr


def test_a_server_serves_the_sessions_of_a_database(cli: Cli, url: str) -> None:
    from urllib.request import urlopen

    server = cli.spawn("serve", "--port", "0", url)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().decode().strip()
        with urlopen(f"{address}/v1/sessions") as answer:
            rows = json.load(answer)
    finally:
        server.terminate()
        server.communicate()
    assert [row["id"] for row in rows["items"]] == ["first"]
