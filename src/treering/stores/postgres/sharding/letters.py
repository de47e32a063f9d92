"""The letters between hosts over several stores: each goes through the store that holds its log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import anyio

from ....events.errors import StoreUnavailable
from ....events.stores.base import Ref
from ....events.stores.hosts import Answer, Inbox, Letter, Whereabouts
from ....events.telemetry import logger

NOTED_MAX = 65536
"""Of how many letters it is known at most through which store they went; all stores are asked about others."""

_PAUSE_S = 1.0  # before a store is asked again that does not answer


class ShardedInbox(Inbox):
    """An inbox over several stores.

    Args:
        shards: The inbox of each store.
        number_of: Returns which store holds a log.
    """

    def __init__(self, shards: Sequence[Inbox], number_of: Callable[[Ref], int]) -> None:
        self._shards = tuple(shards)
        self._number_of = number_of
        self._through: OrderedDict[str, int] = OrderedDict()
        self._first = 0

    @property
    def letter_bytes_max(self) -> int:
        """See `Inbox.letter_bytes_max`."""
        return min(each.letter_bytes_max for each in self._shards)

    def post(self, letter: Letter, keep_s: float) -> bool:
        """See `Inbox.post`."""
        number = self._number_of(letter.ref)
        self._note(letter.id, number)
        return self._shards[number].post(letter, keep_s)

    def withdraw(self, letter_id: str) -> bool:
        """See `Inbox.withdraw`."""
        return any(self._shards[number].withdraw(letter_id) for number in self._numbers(letter_id))

    def answers(self, letter_ids: Sequence[str]) -> dict[str, Answer]:
        """See `Inbox.answers`; about letters through a store that does not answer, they are waited for further.

        Raises:
            StoreUnavailable: None of the stores that were asked answers.
        """
        asked: dict[int, list[str]] = {}
        for each in letter_ids:
            for number in self._numbers(each):
                asked.setdefault(number, []).append(each)
        found: dict[str, Answer] = {}
        failures: list[StoreUnavailable] = []
        for number, some in asked.items():
            try:
                answers = self._shards[number].answers(some)
            except StoreUnavailable as error:
                failures.append(error)
                answers = dict[str, Answer].fromkeys(some, Whereabouts.WAITING)
            for letter_id, answer in answers.items():
                if found.get(letter_id, Whereabouts.LOST) is Whereabouts.LOST:
                    found[letter_id] = answer
        if failures and len(failures) == len(asked):
            raise failures[0]
        self._warn(failures)
        return found

    def take(self, most: int) -> list[Letter]:
        """See `Inbox.take`; letters of a store that does not answer are taken later.

        Raises:
            StoreUnavailable: None of the stores answers.
        """
        taken: list[Letter] = []
        failures: list[StoreUnavailable] = []
        self._first += 1  # each store has its turn to be the first one
        for step in range(len(self._shards)):
            number = (self._first + step) % len(self._shards)
            if len(taken) >= most:
                break
            try:
                letters = self._shards[number].take(most - len(taken))
            except StoreUnavailable as error:
                failures.append(error)
                continue
            for each in letters:
                self._note(each.id, number)
            taken += letters
        if len(failures) == len(self._shards):
            raise failures[0]
        self._warn(failures)
        return taken

    def answer(self, answers: Mapping[str, bytes]) -> None:
        """See `Inbox.answer`; the stores that answer get theirs also if another one does not.

        Raises:
            StoreUnavailable: One of the stores does not answer; answers that are given again are those of before.
        """
        given: dict[int, dict[str, bytes]] = {}
        for letter_id, answer in answers.items():
            for number in self._numbers(letter_id):
                given.setdefault(number, {})[letter_id] = answer
        failures: list[StoreUnavailable] = []
        for number, some in given.items():
            try:
                self._shards[number].answer(some)
            except StoreUnavailable as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def arrived(self) -> None:
        """See `Inbox.arrived`."""
        async with anyio.create_task_group() as tasks:

            async def wait(shard: Inbox) -> None:
                try:
                    await shard.arrived()
                except StoreUnavailable as error:
                    self._warn([error])
                    await anyio.sleep(_PAUSE_S)
                tasks.cancel_scope.cancel()

            for each in self._shards:
                tasks.start_soon(wait, each)

    def _note(self, letter_id: str, number: int) -> None:
        self._through[letter_id] = number
        self._through.move_to_end(letter_id)
        while len(self._through) > NOTED_MAX:
            self._through.popitem(last=False)

    def _numbers(self, letter_id: str) -> Sequence[int]:
        """Return through which stores a letter may have gone."""
        number = self._through.get(letter_id)
        return range(len(self._shards)) if number is None else (number,)

    @staticmethod
    def _warn(failures: Sequence[StoreUnavailable]) -> None:
        for error in failures:
            logger().warning("inbox_unavailable", error=str(error))
