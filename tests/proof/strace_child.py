"""A fixed scenario for strace: every append is tried until it is acknowledged, and every result is printed."""

import os
import sys
from typing import Any

import anyio

from treering import AppendFailed, AppendInDoubt, Message, Session, SessionHost, text

TRIES_MAX = 4


def report(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())


async def append(session: Session, token: str, *, several: bool = False) -> None:
    for _ in range(TRIES_MAX):
        try:
            if several:
                payloads = [Message("user", (text(f"{token}.{part}"),)) for part in range(3)]
                await session.append_many(payloads, command_id=token)
            else:
                await session.append_message("user", f"{token} {'x' * 700}", command_id=token)
        except (AppendFailed, AppendInDoubt) as error:
            report(type(error).__name__, session.id, token)
        else:
            report("acknowledged", session.id, *([f"{token}.{part}" for part in range(3)] if several else [token]))
            return


async def main(root: str, durability: Any) -> None:  # noqa: ANN401  # it comes from the command line
    async with SessionHost(root, durability=durability, writes="inline") as host:
        first, second = await host.create("first"), await host.create("second")
        await append(first, "one")
        await append(second, "two")
        await append(first, "three", several=True)
        await first.passivate()
        await append(first, "four")
        await append(second, "five", several=True)
        await append(first, "six")
    report("end")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
