"""Keys, as a terminal sends them: bytes become the names of keys and the characters that were typed."""

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
    """Takes what a terminal sends, in pieces of any size, and gives the keys in it.

    A key is a character, or a name: enter, tab, backspace, escape, up, down, home, end, page-up, page-down, erase (Ctrl-U),
    interrupt (Ctrl-C), end-of-input (Ctrl-D). Keys that have no meaning here are left out.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = ""

    @property
    def unfinished(self) -> bool:
        """Whether what came last may be the beginning of a key: Escape alone is one only if nothing follows."""
        return bool(self._waiting)

    def take(self, data: bytes) -> list[str]:
        """Return the keys that are complete with these bytes."""
        text = self._waiting + self._decoder.decode(data)
        found: list[str] = []
        at = 0
        while at < len(text):
            size, key = _next(text[at:])
            if not size:
                break
            at += size
            if key:
                found.append(key)
        self._waiting = text[at:]
        return found

    def finish(self) -> list[str]:
        """Return what the unfinished key is, since nothing followed."""
        waiting, self._waiting = self._waiting, ""
        return ["escape"] if waiting else []


def _next(text: str) -> tuple[int, str]:
    """Return how many characters the first key takes, and the key; 0 where it is not complete, "" where it means nothing."""
    if text[0] != "\x1b":
        named = _NAMED.get(text[0], "")
        return 1, named or (text[0] if text[0].isprintable() else "")
    if len(text) == 1:
        return 0, ""
    if text[1] not in "[O":
        return 1, "escape"  # what follows is a key of its own
    for at, char in enumerate(text[2:_LONGEST], 2):
        if "@" <= char <= "~":
            number = text[2:at].split(";")[0]
            return at + 1, _NUMBERED.get(number, "") if char == "~" else _FINAL.get(char, "")
    return (2, "escape") if len(text) >= _LONGEST else (0, "")
