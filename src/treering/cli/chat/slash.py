"""Slash commands: a name of one or two words, arguments, one sentence of help, and a function.

    @slash("rename", "TITLE", "Give this session a title.")
    async def rename(chat: Chat, rest: str) -> None: ...

`slash_commands` has the commands. A line that begins with two slashes is sent to the model, without the first of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from ...events.errors import InvalidInput
from .chat import Chat

Run: TypeAlias = Callable[[Chat, str], Awaitable[None]]
"""The function of a command; it gets the text after the command's name."""


class Slash(Struct, frozen=True):
    """A slash command.

    Attributes:
        name: Its name without the slash, one or two words.
        arguments: Its arguments, as the help shows them.
        help: A description in one sentence.
        run: Its function.
    """

    name: str
    arguments: str
    help: str
    run: Run

    @property
    def usage(self) -> str:
        """The syntax of the command."""
        return f"/{self.name} {self.arguments}".rstrip()


def slash(name: str, arguments: str, help: str) -> Callable[[Run], Slash]:
    """Make a command from a function; see `Slash`."""
    return lambda run: Slash(name, arguments, help, run)


class Slashes:
    """The commands of a chat, in the order of the help.

    Args:
        commands: The commands, with distinct names.
    """

    def __init__(self, commands: Iterable[Slash]) -> None:
        self._commands: dict[str, Slash] = {}
        for each in commands:
            if each.name in self._commands:
                raise InvalidInput(f"two commands are called /{each.name}: rename one of them")
            self._commands[each.name] = each

    def __iter__(self) -> Iterator[Slash]:
        return iter(self._commands.values())

    async def take(self, chat: Chat, line: str) -> None:
        """Process a line of input, which is a command or a message to the model; errors are shown."""
        with chat.showing_errors():
            if line.startswith("/") and not line.startswith("//"):
                command, rest = self.find(line)
                await command.run(chat, rest)
            elif line.strip():
                await chat.say(line.removeprefix("/") if line.startswith("//") else line)

    def find(self, line: str) -> tuple[Slash, str]:
        """Return the command of a line, and the text after its name.

        Raises:
            InvalidInput: There is no such command, or it takes no arguments.
        """
        words = line[1:].split(maxsplit=2)
        for count in (2, 1):
            command = self._commands.get(" ".join(words[:count])) if len(words) >= count else None
            if command is None:
                continue
            rest = line[1:].split(maxsplit=count)[count:]
            if rest and not command.arguments:
                break
            return command, rest[0].strip() if rest else ""
        usages = [each.usage for each in self if words and each.name.partition(" ")[0] == words[0]]
        hint = f"use {' or '.join(usages)}" if usages else "/help lists the commands"
        raise InvalidInput(
            f"there is no command {' '.join(line.split()[:2])!r}, and nothing was sent: {hint}; "
            "to send a text that begins with a slash, begin it with two"
        )
