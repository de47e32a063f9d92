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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        widest = max(map(len, self.list_commands(ctx)), default=0)
        for section in self.sections:
            with formatter.section(section.title):
                formatter.write_dl([(name.ljust(widest), place.help) for name, place in section.commands.items()])
