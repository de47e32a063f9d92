"""Sessions for the tests of a session's page: one with everything that a path may hold, one that is long."""

import base64
import struct
import zlib
from typing import NamedTuple

from treering import Message, Session, SessionHost, Usage, image, text, thinking, tool_result, tool_use

_CODE = """I **look**:

```python
print('code')
```"""


def _png(side: int) -> str:
    """Return a square image in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes((40, 120, 80)) * side for _ in range(side))
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(png).decode()


class Told(NamedTuple):
    """A session, and the entries that tests go to."""

    session: Session
    prompt: str
    failed: str
    branch: str
    other: str
    labelled: str


async def tell_everything(host: SessionHost) -> Told:
    """Write a session with text, code, thinking, an image, calls, errors, branches, a label and a compaction."""
    session = await host.create("everything", cwd="/src")
    await session.set_title("Everything at once")
    used = Usage(input_tokens=4000, output_tokens=200, total_tokens=4200, cost=0.2)
    prompt = await session.append_message("user", ["Look at this:", image(_png(64), "image/png")])
    await session.append_message(
        "assistant",
        [thinking("A secret plan."), text(_CODE), tool_use("c1", "read_file", {"path": "a.py"})],
        model="model-x",
        provider="demo",
        usage=used,
    )
    await session.append_tool_execution("c1", "read_file", {"path": "a.py"}, "first line\n" * 40, duration_ms=210.0)
    answer = await session.append_message(
        "assistant", "The file is fine.", model="model-x", provider="demo", usage=used, stop_reason="max_tokens"
    )
    branch = await session.append_message("user", "Run the tests.")
    await session.append_message(
        "assistant", [tool_use("c2", "bash", {"command": "pytest -q"})], model="model-x", provider="demo", usage=used
    )
    failed = await session.append_message(
        "tool", [tool_result("c2", "collected 2\n1 failed\nexit code 1", is_error=True)], tool_name="bash"
    )
    await session.append(Message("assistant", (), model="model-x", provider="demo", error="the model is overloaded"))
    end = session.leaf_id
    assert end is not None
    await session.branch(answer)
    await session.append_message("user", "Try another way.")
    other = await session.append_message("assistant", "Another way is slower.", model="model-x", provider="demo")
    await session.branch(end)
    await session.set_label(answer, "good place")
    kept = await session.append_message("user", "Go on.")
    await session.append_compaction("What happened so far, in short.", kept, 148_000)
    await session.append_message(
        "assistant", "I go on.", model="model-x", provider="demo", usage=Usage(input_tokens=900, total_tokens=1100)
    )
    return Told(session, prompt, failed, branch, other, answer)


async def tell_long(host: SessionHost, turns: int) -> Session:
    """Write a session of many turns, four messages each."""
    session = await host.create("long")
    messages: list[Message] = []
    for turn in range(turns):
        prompt = f"Prompt {turn}: " + "please do the next thing. " * (1 + turn % 9)
        work = f"Working on step {turn}. " * (1 + turn % 30)
        call = tool_use(f"c{turn}", "bash", {"command": f"make {turn}"})
        output = f"needle{turn}\n" + "line\n" * (turn % 50)
        result = tool_result(f"c{turn}", output, is_error=turn % 100 == 7)
        done = f"Done with step **{turn}**.\n\n" + "- item\n" * (turn % 12)
        messages += [
            Message("user", (text(prompt),)),
            Message("assistant", (text(work), call), model="model-x", provider="demo"),
            Message("tool", (result,), tool_name="bash"),
            Message("assistant", (text(done),), model="model-x", provider="demo"),
        ]
    for start in range(0, len(messages), 500):
        await session.append_many(messages[start : start + 500])
    return session
