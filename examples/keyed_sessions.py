"""Four ways to use conversations by key: `python examples/keyed_sessions.py [DIRECTORY]`.

A simple conversation, one with a tool, one that is summarized when it grows long, and the request that a model is sent.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence

import anyio

from treering import KeyedSessions, Message, SessionHost, message, plain_text, tool_result, tool_use
from treering.contexts import compose

KEY = "telegram:123456"
SUMMARIZE_OVER = 20
KEEP = 4


async def talk(sessions: KeyedSessions, key: str) -> None:
    """Run a simple conversation. Each message is in the file when its call returns."""
    await sessions.add_message(key, "user", "What's the weather?")
    # ... ask a model here ...
    await sessions.add_message(key, "assistant", "It's sunny today.")
    await sessions.save(key)  # optional


async def talk_with_tools(sessions: KeyedSessions, key: str) -> None:
    """Store a tool call and its result, which are messages too."""
    await sessions.add_message(key, "user", "Read the config file")
    await sessions.add_full_message(
        key, message("assistant", tool_use("call_1", "files_read", {"path": "config.json"}))
    )
    await sessions.add_full_message(key, message("tool", tool_result("call_1", '{"setting": "value"}')))
    await sessions.add_message(key, "assistant", "The config contains one setting.")


async def summarize_when_long(sessions: KeyedSessions, key: str) -> None:
    """Beyond twenty messages, replace all but the last four with a summary."""
    session = await sessions.get_or_create(key)
    leaf = session.leaf_id
    history = await session.history()
    if len(history) > SUMMARIZE_OVER:
        summary = await summary_of(history[:-KEEP])
        # In one step, and only if no message arrived meanwhile: the model would never see it.
        await session.truncate_history(KEEP, summary=summary, expected_leaf=leaf)


async def request(sessions: KeyedSessions, key: str, user_message: str) -> list[Message]:
    """Compose a request: system prompt, summary, history, and the user's new message."""
    return compose(
        "You are a helpful assistant.",
        await sessions.history(key),
        summary=await sessions.summary(key),
        user=user_message,
    )


async def summary_of(messages: Sequence[Message]) -> str:
    """Stand in for a model that makes summaries."""
    return f"{len(messages)} messages, the first of which says: {plain_text(messages[0].content)}"


async def main(root: str) -> None:
    """Use all four in one conversation under `root`."""
    async with SessionHost(root) as host:
        sessions = KeyedSessions(host)
        await talk(sessions, KEY)
        await talk_with_tools(sessions, KEY)
        for number in range(8):
            await sessions.add_message(KEY, "user", f"Question {number}?")
            await sessions.add_message(KEY, "assistant", f"Answer {number}.")
        await summarize_when_long(sessions, KEY)

        for each in await request(sessions, KEY, "And now?"):
            print(f"{each.role}: {plain_text(each.content)}")
        kept = len(await (await sessions.get_or_create(KEY)).all_messages())
        print(f"{kept} messages in {(await sessions.get_or_create(KEY)).file_path}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(main, sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            anyio.run(main, folder)
