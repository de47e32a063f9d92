"""A host that is killed at steps of packing, unpacking and removing: a process for each step.

    python -m tests.postgres.archive_child URL STEP ...

For each step, a process of its own takes the log `NUMBER.jsonl`, counted from 0, and is killed by SIGKILL when it comes
to that step: `pack before object` and so on. A process that does not come there makes this one fail.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar
from unittest import mock

import anyio
import psycopg

from treering.stores import Lease
from treering.stores.postgres import PostgresStore
from treering.stores.postgres.archive import objects
from treering.stores.postgres.connections import BoundedConnection

P = ParamSpec("P")
T = TypeVar("T")


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_before(_: Callable[P, T]) -> Callable[P, T]:
    return die  # type: ignore[return-value]  # it does not return


def killed_after(function: Callable[P, T]) -> Callable[P, T]:
    def do(*args: P.args, **kwargs: P.kwargs) -> T:
        function(*args, **kwargs)
        die()
        raise AssertionError

    return do


def killed_after_noting(execute: Callable[P, T]) -> Callable[P, T]:
    """Return what executes statements, and dies after the one that notes an object in a row."""

    def do(*args: P.args, **kwargs: P.kwargs) -> T:
        found = execute(*args, **kwargs)
        if b"set object = %(object)s" in args[1]:  # type: ignore[operator]  # the statement
            die()
        return found

    return do


async def work(url: str, ref: str, step: str) -> None:
    store = PostgresStore(url)
    lease = (await store.acquire([ref], "killed"))[0]
    assert isinstance(lease, Lease)
    patches = {
        "pack before object": (objects, "write", killed_before),
        "pack after object": (objects, "write", killed_after),
        "pack before commit": (objects, "hash_of", killed_after),
        "pack after commit": (BoundedConnection, "execute", killed_after_noting),
        "unpack before commit": (objects, "read", killed_after),
        "unpack within commit": (psycopg.Cursor, "copy", killed_before),
        "unpack after commit": (objects, "remove", killed_before),
        "remove after commit": (objects, "remove", killed_before),
    }
    place, name, make = patches[step]
    with mock.patch.object(place, name, make(getattr(place, name))):
        match step.split()[0]:
            case "pack":
                await store.pack(lease)
            case "unpack":
                await store.unpack(lease)
            case _:
                await store.remove(lease)


def main() -> int:
    url, *steps = sys.argv[1:]
    children: list[int] = []
    for number, step in enumerate(steps):
        child = os.fork()
        if not child:
            try:
                anyio.run(work, url, f"{number}.jsonl", step)
            finally:
                os._exit(1)
        children.append(child)
    return int(any(os.waitpid(child, 0)[1] != signal.SIGKILL for child in children))


if __name__ == "__main__":
    sys.exit(main())
