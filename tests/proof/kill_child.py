"""A program to be killed: for each line that it reads, it forks a worker, which appends until it is killed.

A line is a folder, a durability, a dialect and a seed. A worker prints its process id, then a line for each
acknowledged entry: the session, the token, the entry's id. When the worker is gone, this program prints "gone"."""

import os
import sys
from itertools import count
from random import Random
from typing import Any

import anyio

from treering import Message, SessionHost, text

SESSIONS = 4


def report(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())


async def work(root: str, durability: Any, dialect: Any, seed: str) -> None:  # noqa: ANN401  # words of a line
    random = Random(seed)
    tokens = (f"{seed}-{number}" for number in count())

    async def write(name: str) -> None:
        session = await host.open(name)
        while True:
            token, size = next(tokens), random.choice((1, 1, 100, 5000))
            padding = "x" * size
            if random.random() < 0.2:
                several = [token, next(tokens), next(tokens)]
                messages = [Message("user", (text(f"{each} {padding}"),)) for each in several]
                ids = await session.append_many(messages)
                for each, entry_id in zip(several, ids, strict=True):
                    report(name, each, entry_id)
            else:
                report(name, token, await session.append_message("user", f"{token} {padding}"))
            if random.random() < 0.05:
                await session.branch(random.choice(session.path()))
            if random.random() < 0.05:
                await session.passivate()

    async with SessionHost(root, durability=durability, dialect=dialect) as host, anyio.create_task_group() as writers:
        for number in range(SESSIONS):
            writers.start_soon(write, f"session-{number}")


def main() -> None:
    for line in sys.stdin:
        root, durability, dialect, seed = line.split()
        pid = os.fork()
        if not pid:
            report("pid", str(os.getpid()))
            anyio.run(work, root, durability, dialect, seed)
        os.waitpid(pid, 0)
        report("gone")


if __name__ == "__main__":
    main()
