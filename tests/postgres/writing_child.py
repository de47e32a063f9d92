"""A program that appends to sessions, up to so many messages each, and prints a line for each that was acknowledged.

    python -m tests.postgres.writing_child URL COUNT NAME=DONE NAME=DONE ...

Of each session, DONE messages are there for certain. Each is appended by a command of its own, so that one that was
carried out before, though not acknowledged, is not there twice.
"""

import os
import sys

import anyio

from treering import SessionHost


async def write(url: str, count: int, done: dict[str, int]) -> None:
    async def write_to(name: str) -> None:
        session = await host.open(name)
        for number in range(done[name], count):
            await session.append_message("user", f"{number} of {name}", command_id=f"{number} of {name}")
            os.write(1, f"{name} {number}\n".encode())

    async with SessionHost(url) as host, anyio.create_task_group() as tasks:
        for name in done:
            tasks.start_soon(write_to, name)


if __name__ == "__main__":
    _, address, most, *names = sys.argv
    anyio.run(write, address, int(most), {name: int(number) for name, number in (each.split("=") for each in names)})
