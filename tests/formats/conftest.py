"""Fixtures for the tests of other programs' formats: sample files, and a function that reads sessions of any format."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from treering.events.entries import Header, KnownEntry, Message, MessageEntry
from treering.events.findings import Finding
from treering.formats.base import ForeignSession
from treering.formats.walk import Walk

DATA = Path(__file__).resolve().parents[1] / "data"


class ParsedSession(NamedTuple):
    """A session that was read to its end."""

    header: Header
    entries: list[KnownEntry]
    findings: list[Finding]
    leaf_id: str | None

    @property
    def messages(self) -> list[Message]:
        return [entry.message for entry in self.entries if isinstance(entry, MessageEntry)]

    @property
    def roles(self) -> list[str]:
        return [message.role for message in self.messages]

    def of(self, type: str) -> list[KnownEntry]:
        return [entry for entry in self.entries if entry.type == type]

    def path(self, leaf: str | None = None) -> list[KnownEntry]:
        """The entries from the root to the given leaf, or else to the session's own leaf."""
        by_id = {entry.id: entry for entry in self.entries}
        at: str | None = leaf or self.leaf_id or self.entries[-1].id
        found: list[KnownEntry] = []
        while at is not None:
            found.append(by_id[at])
            at = by_id[at].parent_id
        return found[::-1]

    def codes(self, *, notes: bool = False) -> list[str]:
        return [each.code for each in self.findings if notes or each.severity != "note"]


ReadSessions = Callable[..., list[ParsedSession]]
Read = Callable[..., ParsedSession]


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA


@pytest.fixture(scope="session")
def storage(data: Path) -> Path:
    """A storage folder of opencode."""
    return data / "opencode" / "storage"


@pytest.fixture(scope="session")
def read_sessions() -> ReadSessions:
    """Read all sessions at a path, in the named or recognized format, and check that they are well formed."""

    def read(path: Path, name: str | None = None) -> list[ParsedSession]:
        walk = Walk(path, name)
        parsed: list[ParsedSession] = []
        for _, _, session in walk.sessions():
            assert isinstance(session, ForeignSession)
            entries = list(session.entries)
            seen: set[str | None] = {None}
            for entry in entries:
                assert entry.parent_id in seen, "a parent comes before its children"
                assert entry.id not in seen, "ids are unique"
                assert entry.seq == 0
                seen.add(entry.id)
            parsed.append(ParsedSession(session.header, entries, session.findings, session.leaf_id))
        if walk.is_folder and not parsed:
            raise walk.nothing()
        return parsed

    return read


def reader(write: Callable[..., Path], name: str = "") -> object:
    """Make the fixture `read`, which writes a session into a folder, under a name if one is given, and reads it."""

    @pytest.fixture
    def read(tmp_path: Path, read_sessions: ReadSessions) -> Read:
        def written(*given: object, **more: object) -> ParsedSession:
            (session,) = read_sessions(write(tmp_path / name, *given, **more))
            return session

        return written

    return read
