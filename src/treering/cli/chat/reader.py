"""Reading the messages of a person, with the editing and history of `readline` if it is available.

A line that ends in a backslash continues on the next one. Pasted text keeps its line breaks and arrives as one message
if the terminal brackets pastes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType

PROMPT, CONTINUED = "> ", "... "
_PASTE_MARKS = re.compile("\x1b\\[20[01]~")  # some terminals bracket pastes without being asked to


class Reader:
    """Reads lines from stdin.

    Args:
        interactive: Whether to show prompts and use `readline`.
        completed: The words that Tab completes at the beginning of a line.
    """

    def __init__(self, *, interactive: bool, completed: Sequence[str] = ()) -> None:
        self._interactive = interactive
        self._readline = _readline(completed) if interactive else None

    def next_message(self) -> str | None:
        """Return the next message, of one or more lines, or None at the end of the input.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        lines: list[str] = []
        while True:
            line = self._line(CONTINUED if lines else PROMPT)
            if line is None:
                return "\n".join(lines) if lines else None
            if not line.endswith("\\"):
                lines.append(line)
                break
            lines.append(line[:-1])
        if self._readline is not None and len(lines) == 1 and lines[0].strip():
            self._readline.add_history(lines[0])
        return "\n".join(lines)

    def answer(self, question: str) -> str:
        """Ask a question and return the answer, "" at the end of the input."""
        return (self._line(question) or "").strip()

    def _line(self, prompt: str) -> str | None:
        try:
            line = input(prompt if self._interactive else "")
        except EOFError:
            if self._interactive:
                sys.stdout.write("\n")
            return None
        return _PASTE_MARKS.sub("", line)


def _readline(completed: Sequence[str]) -> ModuleType | None:
    """Set up line editing if the system has `readline`."""
    try:
        import readline
    except ImportError:
        return None

    def complete(text: str, state: int) -> str | None:
        matches = [each for each in completed if text.startswith("/") and each.startswith(text)]
        return matches[state] if state < len(matches) else None

    readline.set_completer_delims("\n")
    readline.set_completer(complete)
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    with suppress(AttributeError):  # some libedit builds lack it; answers are then in the history too
        readline.set_auto_history(False)
    return readline
