"""Decoding the bytes that a terminal sends into keys: names of keys, and typed characters."""

from __future__ import annotations

import codecs

_NAMED = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x03": "interrupt",
    "\x04": "end-of-input",
    "\x15": "erase",
    "\x0e": "down",
    "\x10": "up",
}
_FINAL = {"A": "up", "B": "down", "H": "home", "F": "end"}
_NUMBERED = {"1": "home", "4": "end", "5": "page-up", "6": "page-down", "7": "home", "8": "end"}
_LONGEST = 32


class Keys:
    """An incremental decoder of terminal input, which may come in pieces of any size.

    A key is a character, or a name: enter, tab, backspace, escape, up, down, home, end, page-up, page-down, erase
    (Ctrl-U), interrupt (Ctrl-C), end-of-input (Ctrl-D). Other keys are ignored.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    @property
    def unfinished(self) -> bool:
        """Whether the input may end in the middle of a key: Escape is a key only if nothing follows."""
        return bool(self._pending)

    def take(self, data: bytes) -> list[str]:
        """Return the keys that these bytes complete."""
        text = self._pending + self._decoder.decode(data)
        keys: list[str] = []
        at = 0
        while at < len(text):
            size, key = _next(text[at:])
            if not size:
                break
            at += size
            if key:
                keys.append(key)
        self._pending = text[at:]
        return keys

    def finish(self) -> list[str]:
        """Return the unfinished key, when nothing followed."""
        pending, self._pending = self._pending, ""
        return ["escape"] if pending else []


def _next(text: str) -> tuple[int, str]:
    """Return the length of the first key, 0 if it is incomplete, and the key, "" if it is ignored."""
    if text[0] != "\x1b":
        named = _NAMED.get(text[0], "")
        return 1, named or (text[0] if text[0].isprintable() else "")
    if len(text) == 1:
        return 0, ""
    if text[1] not in "[O":
        return 1, "escape"  # what follows is another key
    for at, char in enumerate(text[2:_LONGEST], 2):
        if "@" <= char <= "~":
            number = text[2:at].split(";")[0]
            return at + 1, _NUMBERED.get(number, "") if char == "~" else _FINAL.get(char, "")
    return (2, "escape") if len(text) >= _LONGEST else (0, "")
