"""Sixty sessions as a team's agents leave them, over three weeks, and what a dozen of them do now."""

import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from treering import Session, SessionHost, Usage, tool_use

WORK = (
    ("refactor-parser", "Make the parser stream its input", "/src/parser"),
    ("billing-export", "Export invoices as CSV", "/src/billing"),
    ("docs-search", "Index the headings of the docs", "/src/docs"),
    ("flaky-tests", "Find out why test_upload fails on Mondays", "/src/billing"),
    ("upgrade-driver", "Move the database driver to version 3", "/src/store"),
    ("api-errors", "Answer 422 with the field that is wrong", "/src/api"),
    ("slow-query", "The report of open orders takes 40 seconds", "/src/store"),
    ("login-page", "Sign in by a link, without a password", "/src/web"),
    ("translate", "Translate the help pages into Czech", "/src/docs"),
    ("cleanup", "Remove what nobody has called since spring", "/src/parser"),
)
MODELS = (("anthropic", "claude-sonnet-4-5", 3.0), ("openai", "gpt-5-mini", 0.5), ("local", "qwen3-coder", 0.0))
SAID = (
    "The importer read each line twice. It reads once now, and the tests pass.",
    "I moved the check before the write, so that nothing is left behind when it fails.",
    "Three of the four callers never passed the flag; I removed it.",
    "The index was missing on orders.customer_id. The report takes 0.3 seconds now.",
    "Done. The page says which field is wrong, and keeps what was typed.",
)
CALLS = (
    ("read_file", {"path": "src/reader.py"}, "def lines(file):\n    return [line for line in file]\n" * 40),
    ("bash", {"command": "pytest -q tests/test_reader.py"}, "211 passed in 4.02s"),
    ("edit", {"path": "src/reader.py", "old": "lines[0]", "new": "next(lines, None)"}, "1 replacement"),
    ("search", {"pattern": "def parse", "path": "src"}, "src/parse.py:12\nsrc/parse_old.py:8"),
)


class Calendar:
    """A clock that is set by hand, and runs a second per look."""

    def __init__(self, now: datetime) -> None:
        self.time = now

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def usage(tokens: int, price: float) -> Usage:
    """Return what a provider counted, at a price per million tokens."""
    output = tokens // 25
    return Usage(input_tokens=tokens, output_tokens=output, total_tokens=tokens + output, cost=tokens * price / 1e6)


async def turn(session: Session, chance: random.Random, prompt: str, *, tokens: int) -> None:
    """Append a prompt, some calls with their results, and an answer."""
    provider, model, price = MODELS[chance.choices((0, 1, 2), (6, 3, 1))[0]]
    await session.append_message("user", prompt)
    for step in range(chance.randint(1, 4)):
        name, arguments, result = chance.choice(CALLS)
        call = f"call-{len(await session.messages())}-{step}"
        await session.append_message(
            "assistant",
            [tool_use(call, name, arguments)],
            model=model,
            provider=provider,
            usage=usage(tokens + 900 * step, price),
            stop_reason="tool_use",
        )
        await session.append_tool_execution(call, name, arguments, result, duration_ms=chance.uniform(40, 4000))
    await session.append_message(
        "assistant", chance.choice(SAID), model=model, provider=provider, usage=usage(tokens + 5000, price)
    )


async def fill(root: Path, *, sessions: int = 48, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
    """Write sessions of the last three weeks into a root; they are asleep then."""
    chance, now = random.Random(7), clock()
    calendar = Calendar(now)
    async with SessionHost(root, clock=calendar) as host:
        for number in range(sessions):
            name, title, folder = WORK[number % len(WORK)]
            days = 21 * (1 - number / sessions) ** 1.4 + 0.02
            calendar.time = now - timedelta(days=days, minutes=chance.randint(0, 300))
            key = f"{chance.choice(('telegram', 'ci', 'slack'))}:{1000 + number}" if number % 4 == 0 else None
            session = await host.create(None if key else f"{name}-{number}", key=key, cwd=folder)
            if number % 3:
                await session.set_title(title)
            for step in range(chance.randint(1, 5)):
                prompt = title + "." if step == 0 else chance.choice(("Go on.", "And the tests?", "Why?"))
                await turn(session, chance, prompt, tokens=chance.randint(3_000, 60_000))
            if number % 12 == 5:
                await host.archive(session)


async def wake(host: SessionHost) -> dict[str, Session]:
    """Begin what goes on now: agents that work, wait, failed, have sub-agents; return them by their ids."""
    chance = random.Random(11)
    agents: dict[str, Session] = {}

    async def begin(name: str, title: str, folder: str, **options: str) -> Session:
        session = agents[name] = await host.create(name, cwd=folder, **options)
        await session.set_title(title)
        return session

    async def call(session: Session, name: str, arguments: Mapping[str, object], *, tokens: int) -> str:
        call_id = f"call-{len(await session.messages())}"
        await session.append_message(
            "assistant",
            [tool_use(call_id, name, arguments)],
            model=MODELS[0][1],
            provider=MODELS[0][0],
            usage=usage(tokens, 3.0),
            stop_reason="tool_use",
        )
        return call_id

    for name, title, folder, tokens in (
        ("idle-notes", "Collect what changed since the last release", "/src/docs", 9_000),
        ("idle-" + "long-" * 12, "A title that says far more than anybody asked for, " * 6, "/src/web", 22_000),
        ("idle-rtl", "תרגם את דפי העזרה לעברית", "/src/docs", 14_000),
    ):
        await turn(await begin(name, title, folder), chance, title + ".", tokens=tokens)
    for number, (tool, arguments) in enumerate(
        (
            ("edit", {"path": "src/app.py"}),
            ("bash", {"command": "cargo build --release --features everything"}),
            ("read_file", {"path": "tests/fixtures/orders-2024.json"}),
            ("search", {"pattern": "TODO"}),
        )
    ):
        name, title, folder = WORK[number]
        session = await begin(f"{name}-now", title, folder)
        await turn(session, chance, title + ".", tokens=20_000 * (number + 1))
        await session.append_message("user", "Go on.")
        await call(session, tool, arguments, tokens=24_000 * (number + 1))
    writing = await begin("release-notes", "Write the release notes", "/src/docs")
    await turn(writing, chance, "Write the release notes.", tokens=12_000)
    await writing.append_message("user", "Shorter, please.")
    waits = await begin("cleanup-now", "Remove what nobody calls", "/src/parser")
    await turn(waits, chance, "Remove what nobody calls.", tokens=11_000)
    await waits.append_message("user", "All of it.")
    await call(waits, "ask_user", {"question": "May I delete build/ and its 212 files?"}, tokens=12_000)
    failed = await begin("billing-17", "Close the month of October", "/src/billing")
    await turn(failed, chance, "Close the month of October.", tokens=70_000)
    await failed.append_message("user", "Run it for real.")
    call_id = await call(failed, "bash", {"command": "make close MONTH=10"}, tokens=82_000)
    await failed.append_tool_execution(
        call_id,
        "bash",
        {"command": "make close MONTH=10"},
        "make: *** [close] Error 1: 3 invoices have no customer",
        is_error=True,
        exit_code=2,
        duration_ms=41_200.0,
    )
    parent = await begin("review-4", "Review the change of the store", "/src/store")
    await parent.append_message("user", "Review the change of the store, each module by itself.")
    await call(parent, "task", {"prompt": "Review each module"}, tokens=30_000)
    entry = parent.leaf_id
    assert entry is not None
    for number in range(7):
        child = await begin(
            f"review-4-{number}",
            f"Review {('locks', 'index', 'pages', 'cache', 'names', 'paths', 'tail')[number]}.py",
            "/src/store",
            parent_session=parent.id,
            parent_entry=entry,
        )
        await child.append_message("user", "Review this module.")
        call_id = await call(child, "read_file", {"path": f"store/{number}.py"}, tokens=4_000 + 700 * number)
        if number == 3:
            await child.append_tool_execution(
                call_id, "read_file", {"path": "store/3.py"}, "no such file: store/3.py", is_error=True
            )
    return agents
