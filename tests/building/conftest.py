"""Fixtures for tests of building contexts: contexts of messages, a tokenizer, budgets, a session on disk."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from treering import Context, ContextMessage, Header, Message, MessageEntry, Session, SessionHost
from treering.projections.building.budget import ContextBudget
from treering.projections.building.source import ContextSource

START = datetime(2026, 1, 1, tzinfo=UTC)


class WordTokenizer:
    """Counts each word as one token."""

    def count(self, text: str) -> int:
        return len(text.split())


@pytest.fixture
def words() -> WordTokenizer:
    return WordTokenizer()


@pytest.fixture
def context_of() -> Callable[..., Context]:
    """Make a context of messages whose entry ids are e0, e1 and so on."""

    def make(*messages: Message) -> Context:
        shown = tuple(ContextMessage(f"e{place}", each) for place, each in enumerate(messages))
        return Context("s", len(shown), shown[-1].entry_id if shown else None, messages=shown)

    return make


@pytest.fixture
def source_of(context_of: Callable[..., Context]) -> Callable[..., ContextSource]:
    """Make a source from messages, with their entries."""

    def make(*messages: Message) -> ContextSource:
        entries = [
            MessageEntry(id=f"e{place}", parent_id=f"e{place - 1}" if place else None, timestamp=START, message=each)
            for place, each in enumerate(messages)
        ]
        return ContextSource.of(context_of(*messages), entries, project_path="/work/project")

    return make


@pytest.fixture
def budget() -> Callable[[int], ContextBudget]:
    """Make a budget with this many tokens available."""

    def make(available: int) -> ContextBudget:
        return ContextBudget(available, 0, 0, 0, available)

    return make


@pytest.fixture
def header() -> Header:
    return Header(id="s", version=1, timestamp=START)


@pytest.fixture
async def session(host: SessionHost) -> Session:
    return await host.create("main", cwd="/work/project")


@pytest.fixture
def content() -> Callable[[Session], bytes]:
    """Read the bytes of the file of a session."""

    def read(session: Session) -> bytes:
        assert session.file_path is not None
        return Path(session.file_path).read_bytes()

    return read
