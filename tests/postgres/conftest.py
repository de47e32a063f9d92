"""A PostgreSQL server for each process of the tests, started when its first test asks, and a schema for each test."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from treering.stores.postgres import schema as newest
from treering.stores.postgres.local_server import LocalServer, find_programs

from .archives import database_of
from .counting import EXTENSIONS, PRELOADED
from .network import Network, network

PROGRAMS = "TREERING_TEST_POSTGRES"
"""The variable of the environment that names the folder of another version's programs."""

HOSTS = 3
"""How many hosts the tests of several have."""

_numbers = itertools.count(1)


def programs() -> Path:
    """Return the folder of the programs, or skip the test."""
    found = Path(os.environ[PROGRAMS]) if PROGRAMS in os.environ else find_programs()
    if found is None:
        pytest.skip("PostgreSQL's server is not installed here (Debian: apt-get install postgresql)")
    return found


@pytest.fixture(scope="session")
def running_server() -> Iterator[LocalServer]:
    """The server of this process. Tests ask for `server`."""
    settings = {"autovacuum": "off", "shared_preload_libraries": PRELOADED}
    with LocalServer(settings=settings, programs=programs()) as server, pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest, "PARTITIONS", 2)  # each costs four relations, for each test
        with psycopg.connect(server.url(), autocommit=True) as connection:
            for extension in EXTENSIONS:
                connection.execute(f"CREATE EXTENSION {extension}".encode())
        yield server


@pytest.fixture
def server(running_server: LocalServer) -> Iterator[LocalServer]:
    """A server that runs. A test may stop, kill, pause and configure it: afterwards it runs as before."""
    configured = (running_server.data / "postgresql.conf").read_bytes()
    yield running_server
    running_server.resume()
    if (running_server.data / "postgresql.conf").read_bytes() != configured:
        (running_server.data / "postgresql.conf").write_bytes(configured)
        running_server.stop("immediate")
    if running_server.pid is None:
        running_server.start()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose name is short enough for a socket, and to which the user that runs a server has a way."""
    folder = Path(tempfile.mkdtemp(prefix="kept-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def schema() -> str:
    """The name of a schema that no other test uses. It does not exist yet."""
    return f"test_{next(_numbers)}"


@pytest.fixture
def url(server: LocalServer, schema: str) -> Iterator[str]:
    """The address of a store for this test alone, whose schema is dropped afterwards."""
    yield server.url(schema=schema)
    if server.pid is None:
        server.start()
    server.resume()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("SET lock_timeout = '20s'")  # longer waits are for a connection that a test has left open
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


@pytest.fixture
def nets(server: LocalServer) -> Iterator[list[Network]]:
    """A network of its own for each host."""
    with ExitStack() as stack:
        yield [stack.enter_context(network(server)) for _ in range(HOSTS)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for objects."""
    return tmp_path / "objects"


@pytest.fixture
def archiving(url: str, folder: Path) -> str:
    """The address of a store whose archived sessions are in the folder."""
    return f"{url}&archive={folder}"


@pytest.fixture
def database(url: str) -> Iterator[psycopg.Connection]:
    """A connection whose statements find the tables of this test."""
    with database_of(url) as connection:
        yield connection
