"""The doctor of a database: what it finds wrong with rows, objects, leases and counters."""

from pathlib import Path

import psycopg
import pytest
from tests.cli.conftest import Cli

from treering import SyncHost
from treering.events.errors import UnsupportedVersion
from treering.stores import Health
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.administration import Administration

pytest.importorskip("fsspec", reason="objects need the package fsspec")

from .archives import database_of


def health_of(url: str) -> Health:
    health = PostgresStore(url).capability(Health)
    assert health is not None
    return health


def fill(url: str) -> None:
    with SyncHost(url) as host:
        for name in ("old", "new", "other"):
            session = host.create(name)
            for number in range(4):
                session.append_message("user", f"entry {number}")
        host.archive("old")


TABLES = ("hosts", "logs", "lines", "beside")
COUNTERS = ("epochs", "histories")


def save(database: psycopg.Connection) -> None:
    """Keep copies of the tables."""
    for table in TABLES:
        database.execute(f"create temp table saved_{table} as table {table}".encode())


def restore(database: psycopg.Connection) -> None:
    """Undo what was done to the tables, and to the counters."""
    for table in TABLES:
        database.execute(f"delete from {table}".encode())
        database.execute(f"insert into {table} table saved_{table}".encode())
    for counter in COUNTERS:
        database.execute(f"select setval('{counter}', 1000)".encode())


DAMAGE = (
    ("delete from lines where history = (select history from logs where ref = 'new.jsonl') and seq in (2, 4)",
     "new.jsonl", "lines_missing", "error", "no entry 2"),
    ("update logs set head = 3 where ref = 'new.jsonl'", "new.jsonl", "lines_beyond", "error", "from 1 to 4"),
    ("update logs set header = 'nothing' where ref = 'new.jsonl'", "new.jsonl", "no_header", "error", "header"),
    ("insert into lines select history, 1, 'x' from logs where ref = 'old.jsonl'",
     "old.jsonl", "lines_and_object", "warning", "1 of its lines"),
    ("update logs set object_hash = 'x' where ref = 'old.jsonl'", "old.jsonl", "object_damaged", "error", "its hash"),
    ("update logs set object = object || '.zst' where ref = 'old.jsonl'",
     "old.jsonl", "object_damaged", "error", "no such object"),
    ("insert into lines values (999, 1, 'x')", "", "orphaned_lines", "warning", "number 999"),
    ("insert into beside values ('gone.jsonl', 'leaf', 1, 1, 'x')", "", "orphaned_beside", "warning", "gone.jsonl"),
    ("select setval('epochs', 1)", "", "counter_behind", "error", "counter of epochs"),
    ("select setval('histories', 1)", "", "counter_behind", "error", "counter of histories"),
    ("update logs set owner = 'nobody' where ref = 'new.jsonl'", "new.jsonl", "owner_unknown", "note", "no more"),
    ("with h as (insert into hosts (id, name, until) values ('dead', '', now() - interval '1 day') returning id) "
     + "update logs set owner = h.id from h where ref = 'new.jsonl'", "new.jsonl", "lease_over", "note", "is over"),
)  # fmt: skip
"""What is done to a sound database; the path, the code and the severity of what is found, and a part of the message."""


def test_each_damage_is_found_and_named_and_nothing_else(url: str, tmp_path: Path) -> None:
    archiving = f"{url}&archive={tmp_path}"
    assert health_of(archiving).examine() == []  # nothing is there, and nothing is made
    assert Administration(url).status().version == 0
    fill(archiving)
    health = health_of(archiving)
    assert health.examine() == []
    with database_of(url) as database:
        save(database)
        for damage, path, code, severity, said in DAMAGE:
            database.execute(damage.encode())
            found = [each for each in health.examine() if each.code != "object_unused"]
            assert [(each.code, each.severity) for each in found] == [(code, severity)], damage
            assert said in found[0].message
            assert found[0].path == (path or PostgresStore(url).address.place)
            restore(database)
        assert health.examine() == []


def test_an_unused_object_is_reported_and_a_counter_that_is_behind_is_repaired(
    url: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    archiving = f"{url}&archive={tmp_path}/objects"
    fill(archiving)
    cli = Cli(tmp_path_factory.mktemp("cli"))
    sound = cli("doctor", archiving)
    assert (sound.exit_code, sound.stdout, sound.stderr.strip()) == (0, "", "1 store, 0 findings")
    (path,) = (each for each in tmp_path.rglob("*.jsonl*"))
    path.with_name(f"{'0' * 64}-99.jsonl.gz").write_bytes(b"")
    assert [each.code for each in health_of(archiving).examine()] == ["object_unused"]
    assert Administration(archiving).sweep().unused
    with database_of(url) as database:
        database.execute("select setval('histories', 1)")
        hurt = cli("doctor", archiving)
        assert hurt.exit_code == 1
        assert "counter of histories is 1" in hurt.stdout
        repaired = cli("doctor", archiving, "--repair")
        assert repaired.exit_code == 0
        assert "1 repair, 0 findings left" in repaired.stderr
        with SyncHost(archiving) as host:
            host.create("next").append_message("user", "hello")
        assert health_of(archiving).examine() == []
        database.execute("update meta set version = version + 1")
        with pytest.raises(UnsupportedVersion):
            health_of(archiving).examine()
