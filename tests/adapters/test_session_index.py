"""What an adapter knows of a session is read once, however the session came to be."""

from __future__ import annotations

from pathlib import Path

from msgspec import Raw

from treering import Session, SessionHost
from treering.adapters.session_index import CustomIndex, SessionIndexes
from treering.entries import Custom


class Noted(CustomIndex):
    """The custom entries that were read."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.noted: list[str] = []

    def _note(self, entry_id: str, custom: Custom) -> None:
        self.noted.append(entry_id)


async def test_what_began_a_session_is_not_read_again(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        indexes = SessionIndexes(Noted)
        index = await indexes.made(host, "chat")
        await index.session.append(Custom("note", Raw(b'{"at":1}')))
        index.skip(1)
        assert await indexes.made(host, "chat") is index
        assert await indexes.of(host, "chat") is index
        assert index.noted == []
        other = await index.session.append(Custom("note", Raw(b'{"at":2}')))
        await indexes.of(host, "chat")
        assert index.noted == [other]
        await host.delete("chat")
        assert await indexes.of(host, "chat") is None


async def test_a_session_in_the_place_of_a_deleted_one_is_read_anew(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        indexes = SessionIndexes(Noted)
        index = await indexes.made(host, "chat")
        await index.session.append(Custom("note", Raw(b'{"at":1}')))
        index.skip(1)
        async with SessionHost(tmp_path) as other:
            await host.passivate_idle()
            await other.delete("chat")
            fresh = await (await other.get_or_create("chat")).append(Custom("note", Raw(b'{"at":2}')))
        again = await indexes.of(host, "chat")
        assert again is not None
        assert again is not index
        assert again.noted == [fresh]
