"""The server that tests, benchmarks and the demonstration start: its life, its faults, what is counted on it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from treering.errors import ExtraMissing, InvalidInput, TreeringError
from treering.stores.postgres import local_server
from treering.stores.postgres.local_server import Ending, LocalServer

from .conftest import programs
from .counting import counted

PROGRAM = """
import sys
from pathlib import Path
from treering.stores.postgres.local_server import LocalServer
with LocalServer(programs=Path(sys.argv[1])) as server:
    server.pause()
    print(server.folder, server.pid, flush=True)
    sys.stdin.read()
"""


def test_a_server_goes_with_a_program_that_is_killed_even_a_paused_one() -> None:
    command = [sys.executable, "-c", PROGRAM, str(programs())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        folder, pid = program.stdout.readline().split()
        assert Path(folder, "data", "postmaster.pid").exists()
        program.kill()
    while Path(folder).exists():
        time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_folder_that_was_named_stays_with_what_is_in_it(short_folder: Path) -> None:
    with pytest.raises(InvalidInput):
        LocalServer(folder=Path("/", "n" * 61))
    folder = short_folder / "s"
    for _ in range(2):
        with LocalServer(programs=programs(), folder=folder) as kept, psycopg.connect(kept.url()) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS t (n int)")
            connection.execute("INSERT INTO t VALUES (7)")
            found = connection.execute("SELECT n FROM t").fetchall()
        assert not (folder / "data" / "postmaster.pid").exists()
    assert found == [(7,), (7,)]


@pytest.mark.parametrize("how", ["fast", "kill"])
@pytest.mark.usefixtures("url")
def test_what_was_committed_survives_each_end_of_the_server(server: LocalServer, schema: str, how: Ending) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema} CREATE TABLE t (n int)".encode())
        connection.execute(f"INSERT INTO {schema}.t VALUES (7)".encode())
        server.stop(how)
        assert server.pid is None
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url())
    server.start()
    with psycopg.connect(server.url()) as connection:
        assert connection.execute(f"SELECT n FROM {schema}.t".encode()).fetchall() == [(7,)]


def test_a_setting_has_any_characters(server: LocalServer) -> None:
    name = r"it's a \'test\'"
    server.configure(application_name=name)
    with psycopg.connect(server.url()) as connection:
        found = connection.execute("SELECT setting FROM pg_file_settings WHERE name = 'application_name'").fetchall()
    assert found == [(name,)]


def test_a_paused_server_answers_once_it_goes_on(server: LocalServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        server.pause()
        states = subprocess.run(
            ["ps", "-o", "stat=", "-p", f"{server.pid},{connection.info.backend_pid}"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        assert [state[0] for state in states] == ["T", "T"]
        connection.pgconn.send_query(b"SELECT 7")
        server.resume()
        result = connection.pgconn.get_result()
        assert result is not None
        assert result.get_value(0, 0) == b"7"
        assert connection.pgconn.get_result() is None


def test_a_standby_that_is_waited_for_has_what_was_committed(server: LocalServer) -> None:
    with server.standby() as standby, psycopg.connect(server.url(), autocommit=True) as connection:
        server.configure(synchronous_standby_names="*")
        while connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != [("sync",)]:
            time.sleep(0.01)  # until the signal has arrived, and the standby with it
        connection.execute("CREATE TABLE kept (n int)")
        server.stop("kill")
        with psycopg.connect(standby.url(), autocommit=True) as other:
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                other.execute("INSERT INTO kept VALUES (7)")
            standby.promote()
            other.execute("INSERT INTO kept VALUES (7)")
            assert other.execute("SELECT n FROM kept").fetchall() == [(7,)]
    server.start()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("SET synchronous_commit = local")
        connection.execute("DROP TABLE kept")


@pytest.mark.usefixtures("url")
def test_statements_and_commits_are_counted_on_the_server(server: LocalServer, schema: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema} CREATE TABLE t (n int)".encode())
        insert = f"INSERT INTO {schema}.t SELECT unnest(%s::int[])".encode()
        with counted(server.url()) as counts:
            connection.execute(insert, ([1, 2, 3],))
            connection.execute(insert, ([4],))
            with connection.transaction():
                connection.execute(f"UPDATE {schema}.t SET n = 2".encode())
                connection.execute(f"DELETE FROM {schema}.t".encode())
            connection.execute(f"SELECT n FROM {schema}.t".encode())
    assert (counts.of("insert", f"{schema}.t"), counts.of("SELECT n"), counts.of("begin"), counts.commits) == (
        2,
        1,
        1,
        3,
    )


def test_without_postgresql_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "find_programs", lambda: None)
    with pytest.raises(ExtraMissing, match="apt-get install postgresql"):
        LocalServer()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(server: LocalServer) -> None:
    broken = LocalServer(settings={"max_connections": "many"}, programs=server.programs)
    with pytest.raises(TreeringError, match='invalid value for parameter "max_connections": "many"'), broken:
        pass
    assert not broken.folder.exists()
    with pytest.raises(TreeringError, match=r'initdb failed: .*data" exists but is not empty'):
        server.run("initdb")
