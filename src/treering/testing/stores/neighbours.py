"""Tests for stores that many hosts share: letters between hosts, and the list of them."""

from __future__ import annotations

import pytest
from anyio import fail_after, to_thread

from ...events.errors import TooLarge
from ...events.stores.base import Store
from ...events.stores.hosts import Answer, HostRow, Hosts, Inbox, Letter, Whereabouts
from .case import StoreCase

_KEEP_S = 60.0


class Mailing(StoreCase):
    """The promises of `Inbox`."""

    async def post(self, store: Store, letter: Letter, keep_s: float = _KEEP_S) -> bool:
        """Post a letter."""
        return await to_thread.run_sync(self.capable(store, Inbox).post, letter, keep_s)

    async def answers(self, store: Store, *letter_ids: str) -> dict[str, Answer]:
        """Return what became of letters."""
        return await to_thread.run_sync(self.capable(store, Inbox).answers, letter_ids)

    async def take(self, store: Store, most: int = 9) -> list[str]:
        """Take letters, and return their ids."""
        return [each.id for each in await to_thread.run_sync(self.capable(store, Inbox).take, most)]

    def letter(self, letter_id: str, name: str = "a") -> Letter:
        """Return a letter for the owner of a log."""
        return Letter(letter_id, self.ref(name), b"call")

    async def test_a_letter_is_taken_once_by_the_owner_and_answered_once(self, store: Store, elsewhere: Store) -> None:
        await self.writer(store, "a")
        for letter_id in ("1", "1", "2"):
            assert await self.post(elsewhere, self.letter(letter_id))
        assert await self.take(elsewhere) == []
        assert await self.take(store, 1) == ["1"]
        assert await self.take(store) == ["2"]
        assert await self.take(store) == []
        assert await self.answers(elsewhere, "1") == {"1": Whereabouts.WAITING}
        await to_thread.run_sync(self.capable(store, Inbox).answer, {"1": b"done"})
        assert await self.answers(elsewhere, "1", "2") == {"1": b"done", "2": Whereabouts.WAITING}
        assert await self.answers(elsewhere, "1") == {"1": Whereabouts.LOST}

    async def test_nobody_owns_a_log_and_a_letter_for_it_waits_for_nobody(self, store: Store, elsewhere: Store) -> None:
        assert not await self.post(elsewhere, self.letter("1"))
        writer = await self.writer(store, "a")
        assert await self.post(elsewhere, self.letter("1"))
        await store.release([writer.lease])
        assert await self.answers(elsewhere, "1", "2") == {"1": Whereabouts.UNOWNED, "2": Whereabouts.LOST}

    async def test_a_letter_whose_taker_has_gone_is_stranded(self, store: Store, elsewhere: Store) -> None:
        await self.writer(store, "a")
        assert await self.post(elsewhere, self.letter("1"))
        assert await self.take(store) == ["1"]
        await store.aclose()
        assert await self.answers(elsewhere, "1") == {"1": Whereabouts.STRANDED}

    async def test_what_is_withdrawn_is_never_taken_and_what_is_taken_not_withdrawn(
        self, store: Store, elsewhere: Store
    ) -> None:
        withdraw = self.capable(elsewhere, Inbox).withdraw
        await self.writer(store, "a")
        for letter_id in ("1", "2"):
            assert await self.post(elsewhere, self.letter(letter_id))
        assert await self.take(store, 1) == ["1"]
        assert not await to_thread.run_sync(withdraw, "1")
        assert await to_thread.run_sync(withdraw, "2")
        assert await self.take(store) == []

    async def test_a_letter_that_is_too_late_is_not_taken(self, store: Store, elsewhere: Store) -> None:
        await self.writer(store, "a")
        assert await self.post(elsewhere, self.letter("1"), 0)
        assert await self.take(store) == []

    async def test_a_call_over_the_bound_is_refused(self, store: Store) -> None:
        bound = self.capable(store, Inbox).letter_bytes_max
        await self.writer(store, "a")
        with pytest.raises(TooLarge):
            await self.post(store, Letter("1", self.ref("a"), bytes(bound + 1)))
        assert await self.answers(store, "1") == {"1": Whereabouts.LOST}

    async def test_owner_and_sender_are_told(self, store: Store, elsewhere: Store) -> None:
        owner, sender = self.capable(store, Inbox), self.capable(elsewhere, Inbox)
        await self.writer(store, "a")
        assert await self.post(elsewhere, self.letter("1"))
        taken: list[str] = []
        with fail_after(self.patience_s):
            while not taken:
                await owner.arrived()
                taken = await self.take(store)
        await to_thread.run_sync(owner.answer, {"1": b"done"})
        answer: Answer = Whereabouts.WAITING
        with fail_after(self.patience_s):
            while answer is Whereabouts.WAITING:
                await sender.arrived()
                answer = (await self.answers(elsewhere, "1"))["1"]
        assert answer == b"done"


class Neighbouring(StoreCase):
    """The promises of `Hosts`."""

    async def rows(self, store: Store) -> list[HostRow]:
        """Return the hosts."""
        return await to_thread.run_sync(self.capable(store, Hosts).hosts)

    async def test_a_host_is_listed_as_long_as_it_is_announced_or_owns_logs(self, store: Store) -> None:
        hosts = self.capable(store, Hosts)
        assert await self.rows(store) == []
        hosts.announce("http://10.0.0.1")
        await store.renew([])
        (row,) = await self.rows(store)
        assert (row.name, row.address, row.sessions) == (hosts.host_name, "http://10.0.0.1", 0)
        assert not row.draining
        assert row.left_s > 0 <= row.lag_s

    async def test_a_host_that_left_is_not_listed(self, store: Store, elsewhere: Store) -> None:
        self.capable(elsewhere, Hosts).announce(None)
        await elsewhere.renew([])
        assert len(await self.rows(store)) == 1
        await elsewhere.aclose()
        assert await self.rows(store) == []

    async def test_a_host_that_is_drained_learns_of_it_when_it_renews(self, store: Store) -> None:
        hosts = self.capable(store, Hosts)
        assert not await to_thread.run_sync(hosts.drain, "nobody")
        hosts.announce(None)
        await store.renew([])
        assert not hosts.draining
        assert await to_thread.run_sync(hosts.drain, hosts.host_name)
        await store.renew([])
        assert hosts.draining
        assert [each.draining for each in await self.rows(store)] == [True]
