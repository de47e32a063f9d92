"""A conversation to hand over: failed and parallel calls, odd ids, an image, a system's note, an abandoned branch."""

import re
from typing import TypedDict

from treering import Session, SessionHost, image, text, thinking, tool_result, tool_use

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Answered(TypedDict):
    """Which model gave an answer."""

    model: str
    provider: str


MODEL = Answered(model="gpt-birch", provider="openai")

WORDS = [
    *("W-first", "W-thought", "W-look", "W-argument", "W-result", "W-again", "W-command", "W-broken"),
    *("W-both", "W-left", "W-right", "W-oak", "W-elm", "W-counted", "W-note", "W-picture", "W-answer"),
]
"""The words of the path, in order."""

_WORD = re.compile(r"W-[a-z]+")


async def make_given(host: SessionHost, cwd: str | None = None) -> Session:
    """Create the session `given`."""
    session = await host.create(session_id="given", cwd=cwd)
    await session.append_message("user", "W-first How old is it?")
    asked = tool_use("call/ü 1", "read file", {"path": "W-argument"})
    await session.append_message("assistant", [thinking("W-thought"), text("W-look"), asked], **MODEL)
    await session.append_message("tool", [tool_result("call/ü 1", "W-result")])
    await session.append_message(
        "assistant", [text("W-again"), tool_use("b", "Bash", {"command": "W-command"})], **MODEL
    )
    failed = await session.append_message("tool", [tool_result("b", "W-broken", is_error=True)])
    await session.append_message("assistant", "W-abandoned", **MODEL)
    await session.append_message("user", "W-abandoned")
    await session.branch(failed)
    both = [tool_use("b", "Bash", {"command": "W-left"}), tool_use("c", "Bash", {"command": "W-right"})]
    await session.append_message("assistant", [text("W-both"), *both], **MODEL)
    await session.append_message("tool", [tool_result("b", "W-oak"), tool_result("c", [text("W-elm")])])
    await session.append_message("assistant", "W-counted", **MODEL)
    await session.append_message("system", "W-note")
    await session.append_message("user", ["W-picture", image(PNG, "image/png")])
    await session.append_message("assistant", "W-answer", **MODEL)
    return session


def words_of(shown: str) -> list[str]:
    """Return the words of such a conversation in a text, in order."""
    return _WORD.findall(shown)
