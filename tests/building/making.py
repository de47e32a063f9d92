"""What the tests of building contexts make: contexts and sources of messages, budgets, a tokenizer."""

from datetime import UTC, datetime
from pathlib import Path

from treering import Context, Message, MessageEntry, Session, message, tool_result, tool_use
from treering.contexts import ContextMessage, ContextSource
from treering.projections.building.budget import ContextBudget

START = datetime(2026, 1, 1, tzinfo=UTC)


class WordTokenizer:
    """Counts each word as one token."""

    def count(self, text: str) -> int:
        return len(text.split())


class NotingTokenizer(WordTokenizer):
    """Notes the texts that it counts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        self.texts.append(text)
        return super().count(text)


words = WordTokenizer()


def conversation(count: int, length: int = 50) -> list[Message]:
    """Make messages of a user and an assistant in turn, each with its place and so many words."""
    return [message("assistant" if each % 2 else "user", f"{each} " + "word " * length) for each in range(count)]


def context_of(*messages: Message) -> Context:
    """Make a context of messages whose entry ids are e0, e1 and so on."""
    shown = tuple(ContextMessage(f"e{place}", each) for place, each in enumerate(messages))
    return Context("s", len(shown), shown[-1].entry_id if shown else None, messages=shown)


def source_of(*messages: Message) -> ContextSource:
    """Make a source from messages, with their entries."""
    entries = [
        MessageEntry(id=f"e{place}", parent_id=f"e{place - 1}" if place else None, timestamp=START, message=each)
        for place, each in enumerate(messages)
    ]
    return ContextSource.of(context_of(*messages), entries, project_path="/work/project")


def budget(available: int) -> ContextBudget:
    """Make a budget with this many tokens available."""
    return ContextBudget(available, 0, 0, 0, available)


def content(session: Session) -> bytes:
    """Read the bytes of the file of a session."""
    assert session.file_path is not None
    return Path(session.file_path).read_bytes()


async def append_call(session: Session, call_id: str, result: str = "x", name: str = "read", path: str = "") -> str:
    """Append a call and its result, and return the entry id of the result."""
    await session.append_message("assistant", tool_use(call_id, name, {"path": path} if path else {}))
    return await session.append_message("tool", tool_result(call_id, result))
