"""Copies that are killed, and what the logs of a store hold."""

from collections.abc import Callable
from pathlib import Path

from treering import SessionHost
from treering.stores import CopyReport, Ref, Store, copy_logs


class Killed(BaseException):
    """The program that copies was killed."""


class Steps:
    """Counts what a copy asks of its stores, and kills it at one of the steps, before or after it was done."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.kill_at = kill_at
        self.taken = 0

    def around(self, store: Store) -> Store:
        """Return a store whose steps are counted."""
        steps = self

        class Counting:
            """The store, step by step."""

            def __getattr__(self, name: str) -> object:
                method = getattr(store, name)
                if name in ("capability", "aclose", "release", "renew"):
                    return method

                async def step(*args: object, **options: object) -> object:
                    steps.take()
                    done = await method(*args, **options)
                    steps.take()
                    return done

                return step

        return Counting()  # type: ignore[return-value]  # it has what the store has

    def take(self) -> None:
        """Note a step."""
        self.taken += 1
        if self.taken == self.kill_at:
            raise Killed


async def content(store: Store) -> dict[Ref, tuple[bytes, list[bytes], bytes | None]]:
    """The header, the lines and the leaf record of each log."""
    found: dict[Ref, tuple[bytes, list[bytes], bytes | None]] = {}
    for info in await store.page():
        opening = await store.open(info.ref)
        lines: list[bytes] = []
        while len(lines) < opening.head.seq:
            lines += (await store.read(info.ref, opening.head.generation, len(lines))).lines
        leaf = await store.load(info.ref, "leaf")
        moved = leaf.data if leaf is not None and leaf.head == opening.head else None
        found[info.ref] = (await store.header_block(info.ref), lines, moved)
    return found


async def fill(folder: Path) -> None:
    """Write two sessions: one whose leaf moved, and a file of pi with lines that nobody knows, and without an end."""
    async with SessionHost(folder) as host:
        one = await host.create("one", cwd="/shop")
        question = await one.append_message("user", "Where is the cart? ☃ \0")
        await one.append_message("assistant", "In the shop.")
        await one.branch(question)
    (folder / "pi.jsonl").write_bytes(
        b'{"type":"session","version":3,"id":"pi","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w","new":1}\r\n'
        b'{"type":"unheard of","id":"a","parentId":null,"x":  1.50}\n{torn\n\n\xff\xfe no text\n{"type":"last"}'
    )


async def killed_at_every_step(source: Store, make: Callable[[int], Callable[[], Store]]) -> None:
    """Kill copies of `source`, the first at its first step and so on, and assert that each goes on when repeated."""
    expected = await content(source)
    number, is_killed = 0, True
    while is_killed:
        number += 1
        opened = make(number)
        steps, target = Steps(number), opened()
        report = await until_killed(steps, source, target)
        is_killed = report is None
        await target.aclose()
        target = opened()
        for ref, (header, lines, _) in (await content(target)).items():
            assert header == expected[ref][0]
            assert lines == expected[ref][1][: len(lines)]
        assert (await copy_logs(source, target)).failed == []
        assert await content(target) == expected
        await target.aclose()
    assert number > 30


async def until_killed(steps: Steps, source: Store, target: Store) -> CopyReport | None:
    """Copy; return None if it was killed."""
    report: CopyReport | None = None
    try:
        report = await copy_logs(steps.around(source), steps.around(target), at_once=1)
    except* Killed:
        pass
    return report
