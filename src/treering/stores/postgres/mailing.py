"""The inbox: letters from hosts that got a command to the host that owns its session.

Each host listens on a channel of its own, on which it is told of letters and of answers alike. What a lost notification
would have told is found `LOOK_S` seconds later, since the host then looks at the table all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio

from ...events.errors import TooLarge, TooMany
from ...events.offload import Offload
from ...events.stores.hosts import Answer, Letter, Whereabouts
from .connections import Connections
from .owning import Holdings
from .statements import Statements
from .watching import LOOK_S, Listener, Watch

LETTER_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of the call of one letter."""

LETTERS_MAX = 1024
"""How many letters may wait for one log; further ones are refused."""

TAKEN_BYTES_MAX = 8 * 1024 * 1024
"""The size in bytes at which a host takes no further letters at once."""

_UNTOLD_MAX = 3
_KEPT_S = 60.0  # for how long a letter is kept after nobody may take it any more


class Mailing:
    """The letters of one store. Every method but `arrived` blocks.

    Args:
        connections: The connections.
        holdings: What this store holds.
        statements: The SQL.
        channel: What the names of the hosts' channels begin with.
        offload: Runs blocking work.
    """

    def __init__(
        self, connections: Connections, holdings: Holdings, statements: Statements, channel: str, offload: Offload
    ) -> None:
        self._connections = connections
        self._statements = statements
        self._me = holdings.owner
        self._channel = f"{channel}_"
        self._listener = Listener(connections, None, self._channel + self._me, offload)
        self._watch: Watch | None = None
        self._was_told = True
        self._untold = 0  # how often in a row something was found that nothing had told of

    async def arrived(self) -> None:
        """See `Inbox.arrived`."""
        if self._watch is None:
            self._watch = self._listener.watch([self._me])
        if self._untold >= _UNTOLD_MAX:
            self._untold = 0
            self._listener.reset()
        with anyio.move_on_after(LOOK_S) as wait:
            await anext(self._watch)
        self._was_told = not wait.cancelled_caught

    def post(self, letter: Letter, keep_s: float) -> bool:
        """See `Inbox.post`."""
        if len(letter.call) > LETTER_BYTES_MAX:
            raise TooLarge(
                f"{letter.ref} is owned by another host, and the command is larger than a letter to it may be "
                f"({LETTER_BYTES_MAX} bytes): send it in parts, or to that host"
            )
        wanted = {
            "id": letter.id,
            "ref": letter.ref,
            "sender": self._me,
            "call": letter.call,
            "keep_s": keep_s,
            "most": LETTERS_MAX,
            "channel": self._channel,
        }
        with self._connections.use() as connection:
            is_posted, is_owned = connection.execute(self._statements.post, wanted).fetchone() or (False, False)
        if is_owned and not is_posted:
            raise TooMany(f"{LETTERS_MAX} letters wait for the host that owns {letter.ref}: send this one later")
        return bool(is_posted)

    def withdraw(self, letter_id: str) -> bool:
        """See `Inbox.withdraw`."""
        with self._connections.use() as connection:
            return connection.execute(self._statements.withdraw, {"id": letter_id}).fetchone() is not None

    def answers(self, letter_ids: Sequence[str]) -> dict[str, Answer]:
        """See `Inbox.answers`."""
        with self._connections.use() as connection:
            rows = connection.execute(self._statements.answers, {"ids": list(letter_ids)}, binary=True).fetchall()
        found = {letter_id: _whereabouts(*state) if answer is None else answer for letter_id, answer, *state in rows}
        self._note_found(any(isinstance(each, bytes) for each in found.values()))
        return found

    def take(self, most: int) -> list[Letter]:
        """See `Inbox.take`."""
        wanted = {"owner": self._me, "most": most, "bytes": TAKEN_BYTES_MAX, "kept_s": _KEPT_S}
        with self._connections.use() as connection:
            rows = connection.execute(self._statements.take, wanted, binary=True).fetchall()
        self._note_found(bool(rows))
        return [Letter(*letter) for _, *letter in sorted(rows, key=lambda row: row[0])]

    def answer(self, answers: Mapping[str, bytes]) -> None:
        """See `Inbox.answer`."""
        wanted = {"owner": self._me, "ids": list(answers), "answers": list(answers.values()), "channel": self._channel}
        with self._connections.use() as connection:
            connection.execute(self._statements.answer, wanted)

    def _note_found(self, is_anything: bool) -> None:
        if is_anything:
            self._untold = 0 if self._was_told else self._untold + 1

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


def _whereabouts(is_there: bool, is_taken: bool, is_owned: bool, taker_lives: bool) -> Whereabouts:
    if not is_there:
        return Whereabouts.LOST
    if is_taken:
        return Whereabouts.WAITING if taker_lives else Whereabouts.STRANDED
    return Whereabouts.WAITING if is_owned else Whereabouts.UNOWNED
