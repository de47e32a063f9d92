"""The commands by name, each loaded when it is asked for, so that help and completion are quick.

What stands in the list of commands is told here; a test holds it against what each command says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

import click
from msgspec import Struct

from .output import Commands

_OTHER_NAMES = {
    **dict.fromkeys(("list", "ls"), ("sessions",)),
    **dict.fromkeys(("show", "view", "cat", "print", "read"), ("context", "entries")),
    **dict.fromkeys(("stats", "status", "describe", "usage"), ("info",)),
    **dict.fromkeys(("rm", "remove", "del", "drop"), ("delete",)),
    **dict.fromkeys(("find", "grep"), ("search",)),
    **dict.fromkeys(("log", "logs", "history", "messages"), ("entries", "context")),
    **dict.fromkeys(("tail", "watch"), ("follow",)),
    **dict.fromkeys(("new", "ask", "run"), ("chat",)),
    **dict.fromkeys(("continue", "open", "pick"), ("resume",)),
    **dict.fromkeys(("check", "repair", "fix", "fsck", "verify"), ("doctor",)),
    **dict.fromkeys(("mv", "title", "name"), ("rename",)),
    **dict.fromkeys(("restore", "undelete"), ("unarchive",)),
    **dict.fromkeys(("branch", "branches"), ("tree",)),
    **dict.fromkeys(("bookmark", "tag"), ("label",)),
    "prune": ("gc",),
    "load": ("import",),
}
"""What commands are called elsewhere."""


class Place(Struct, frozen=True):
    """Where a command is.

    Attributes:
        module: The module of this package.
        name: What the command is called in it.
        help: What it does, in one line.
    """

    module: str
    name: str
    help: str


class Section(Struct, frozen=True):
    """Some commands that belong together, under a heading."""

    title: str
    commands: Mapping[str, Place]


class Shelf(Commands):
    """A group of commands that are loaded when they are asked for.

    Args:
        sections: The commands, in the order in which they are listed.
        **options: What every group takes.
    """

    def __init__(self, *, sections: Sequence[Section] = (), **options: Any) -> None:  # noqa: ANN401 - as click has it
        super().__init__(**options)
        self.sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [name for section in self.sections for name in section.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, loading it; None where there is none of this name."""
        loaded = super().get_command(ctx, cmd_name)
        if loaded is not None:
            return loaded
        place = next((each for section in self.sections if (each := section.commands.get(cmd_name))), None)
        if place is None:
            return None
        module = import_module(f".{place.module}", __package__)
        command = cast("click.Command", getattr(module, place.name))  # what stands in the table
        self.add_command(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; of one that is not there, say which ones it may have been.

        Raises:
            UsageError: There is no such command.
        """
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            meant = self._alike(ctx, args[0])
            hint = f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def _alike(self, ctx: click.Context, name: str) -> list[str]:
        """Return the commands that other programs call so, or else those whose names are alike."""
        from difflib import get_close_matches

        return [*_OTHER_NAMES.get(name.lower(), ())] or get_close_matches(name.lower(), self.list_commands(ctx), 2)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        widest = max(map(len, self.list_commands(ctx)), default=0)
        for section in self.sections:
            with formatter.section(section.title):
                formatter.write_dl([(name.ljust(widest), place.help) for name, place in section.commands.items()])
