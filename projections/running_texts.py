"""The texts of a session that are being written, such as answers, kept for those who come late."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ..events.index import LogIndex
from ..events.kinds import Kind
from .feed_events import TextPiece, text_piece

TEXT_CHARS_MAX = 1024 * 1024
"""How much of a text that is being written is kept for subscribers that come late."""


class RunningText(Struct):
    """A text that is being written: its message, its pieces from the beginning on, and the end of the log then."""

    message: str
    pieces: list[str]
    length: int
    since: int


class RunningTexts:
    """The texts of one session that are being written, by the name of their events.

    A text is over when an assistant's message follows in the log, or when another text of its name begins.
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[str, RunningText] = {}

    def add(self, name: str, message: str, text: str, head: Callable[[], int]) -> TextPiece:
        """Add the next piece of a text, and return it.

        Args:
            name: The name of the event.
            message: The text; another one than before begins anew.
            text: The piece.
            head: Returns the seq of the last line of the log, for the beginning of a text.
        """
        running = self._texts.get(name)
        if running is None or running.message != message:
            running = self._texts[name] = RunningText(message, [], 0, head())
        offset = running.length
        running.length += len(text)
        if running.length <= TEXT_CHARS_MAX:
            running.pieces.append(text)
        else:
            running.pieces.clear()
        return text_piece(name, message, offset, text)

    def take(self, piece: TextPiece, head: Callable[[], int]) -> None:
        """Take a piece that another host made; one that neither begins its text nor continues what is here is known."""
        running = self._texts.get(piece.name)
        if piece.offset == 0:
            self._texts[piece.name] = RunningText(piece.message, [piece.text], piece.end, head())
        elif running is not None and (running.message, running.length) == (piece.message, piece.offset):
            self.add(piece.name, piece.message, piece.text, head)

    def so_far(self, index: LogIndex) -> list[TextPiece]:
        """Return the texts that are not over, each as one piece from its beginning on; none that became too long."""
        texts: list[TextPiece] = []
        for name, running in list(self._texts.items()):
            if Kind.ASSISTANT in index.kinds[running.since + 1 :]:
                del self._texts[name]
            elif running.pieces:
                running.pieces = ["".join(running.pieces)]
                texts.append(text_piece(name, running.message, 0, running.pieces[0]))
        return texts
