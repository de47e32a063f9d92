"""Sessions with trees of any shape, for the pages that draw branches."""

import random

from treering import Session, message, text, thinking, tool_result, tool_use
from treering.entries import Message, Usage

_CALLS = (
    ("read_file", "path", ("src/parse.py", "src/lines.py", "tests/test_parse.py")),
    ("bash", "command", ("pytest -q", "git diff --stat", "python -m parse empty.txt")),
    ("grep", "pattern", ("first line", "def parse", "empty")),
)
_LINES = (
    "def parse(lines):",
    "    first = lines[0]",
    "    return Header(first), lines[1:]",
    "tests/test_parse.py::test_empty PASSED",
    "src/parse.py:14: if not lines:",
    "211 passed, 1 skipped in 4.02s",
)
_ASKED = (
    "Fix the parser for empty files",
    "Now run the tests",
    "Why does it fail?",
    "Try the other parser",
    "Write it down",
)
_SAID = ("I read the file first.", "One test fails.", "It expected the error.", "The other one is slower.", "Done.")


def turn(number: int, rng: random.Random, calls: int = 2) -> list[Message]:
    """Return the messages of one turn: a question, calls with their results, an answer."""
    said: list[Message] = [message("user", f"{number}. {rng.choice(_ASKED)}")]
    for call in range(calls):
        name = f"c{number}-{call}-{rng.randrange(10**9)}"
        tool, argument, values = rng.choice(_CALLS)
        failed = rng.random() < 0.04
        said.append(
            message(
                "assistant",
                (thinking("Where is it?"), tool_use(name, tool, {argument: rng.choice(values)})),
                model="model-x",
                provider="demo",
                usage=Usage(
                    input_tokens=900 + 40 * number, output_tokens=60, total_tokens=960 + 40 * number, cost=0.004
                ),
            )
        )
        body = "exit 1" if failed else "\n".join(rng.choices(_LINES, k=rng.randrange(1, 12)))
        said.append(message("tool", tool_result(name, body, is_error=failed), tool_name=tool))
    usage = Usage(input_tokens=1_000, output_tokens=200, total_tokens=1_200, cost=0.01)
    said.append(message("assistant", text(rng.choice(_SAID)), model="model-x", provider="demo", usage=usage))
    return said


def turns(count: int, rng: random.Random) -> list[Message]:
    """Return the messages of several turns."""
    return [each for number in range(1, count + 1) for each in turn(number, rng)]


async def _write(session: Session, messages: list[Message], each: bool, below: str | None = None) -> list[str]:
    """Append messages, all with one time or each with its own, on the path or below another entry."""
    if not each:
        return await (
            session.append_many(messages, below=below, aside=True) if below else session.append_many(messages)
        )
    ids: list[str] = []
    for one in messages:
        above = ids[-1] if ids else below
        ids.append(await (session.append(one, below=above, aside=True) if below else session.append(one)))
    return ids


async def grow(
    session: Session, *, entries: int, branches: int, labels: int = 8, seed: int = 7, each: bool = False
) -> list[str]:
    """Grow a tree of so many entries and so many side branches, and return the ids of the path to its leaf.

    Some side branches leave other side branches. With `each`, each entry has a time of its own.
    """
    rng = random.Random(seed)
    share = max(1, entries // (3 * max(1, branches)))
    line = await _write(session, turns(max(1, (entries - branches * share) // 12), rng), each)
    every = line[:-1]  # what comes below an end would be no branch, but go on with it
    for _ in range(branches):
        below = rng.choice(line[:-1] if rng.random() < 0.7 else every)
        side = turns(1 + share // 6, rng)[:share]
        every += (await _write(session, side, each, below))[:-1]
    for place in range(labels):
        await session.set_label(rng.choice(every), f"found {place}")
    left = entries - session.cursor.seq
    await _write(session, turns(1 + left // 6, rng)[:left], each)
    return session.path()
