"""What begins with a slash: a name of one or two words, its arguments, one sentence of help, and what it does.

    @slash("rename", "TITLE", "Give this session a title.")
    async def rename(talk: Talk, rest: str) -> None: ...

Which commands there are is in `registry`.

A line that begins with two slashes is said to the model, without the first of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ...events.errors import InvalidInput

if TYPE_CHECKING:
    from .talk import Talk

Run: TypeAlias = "Callable[[Talk, str], Awaitable[None]]"
"""What a command does; it gets what stands behind its name."""


class Slash(Struct, frozen=True):
    """A slash command.

    Attributes:
        name: Its name, without the slash: one word, or two.
        arguments: What may stand behind it, as help shows it.
        help: What it does, in one sentence.
        run: Does it.
    """

    name: str
    arguments: str
    help: str
    run: Run

    @property
    def usage(self) -> str:
        """How it is written."""
        return f"/{self.name} {self.arguments}".rstrip()


def slash(name: str, arguments: str, help: str) -> Callable[[Run], Slash]:
    """Make a command of what does it; see `Slash`."""
    return lambda run: Slash(name, arguments, help, run)


class Slashes:
    """The commands of a chat, in the order in which help shows them.

    Args:
        commands: The commands; no two have one name.
    """

    def __init__(self, commands: Iterable[Slash]) -> None:
        self._commands: dict[str, Slash] = {}
        for each in commands:
            if each.name in self._commands:
                raise InvalidInput(f"two commands are called /{each.name}: give one of them another name")
            self._commands[each.name] = each

    def __iter__(self) -> Iterator[Slash]:
        return iter(self._commands.values())

    def find(self, line: str) -> tuple[Slash, str]:
        """Return the command that a line means, and what stands behind its name.

        Raises:
            InvalidInput: There is no such command, or it takes nothing behind its name.
        """
        words = line[1:].split(maxsplit=2)
        for count in (2, 1):
            found = self._commands.get(" ".join(words[:count])) if len(words) >= count else None
            if found is None:
                continue
            rest = line[1:].split(maxsplit=count)[count:]
            if rest and not found.arguments:
                break
            return found, rest[0].strip() if rest else ""
        known = [each.usage for each in self if words and each.name.partition(" ")[0] == words[0]]
        instead = f"write {' or '.join(known)}" if known else "/help tells which there are"
        raise InvalidInput(
            f"there is no command {' '.join(line.split()[:2])!r}, and nothing was sent: {instead}; "
            "a text that begins with a slash is sent with two of them"
        )


def is_command(line: str) -> bool:
    """Tell whether a line is a command, and nothing that is said to the model."""
    return line.startswith("/") and not line.startswith("//")
