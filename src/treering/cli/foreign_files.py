"""Files of other programs: the names of their formats, and advice on one that was given in place of a session."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class FormatName(click.ParamType[str]):
    """The name of a format. Packages may add formats, so all names are looked up when they are asked for.

    Args:
        names: Returns all names.
        known: Some of them, for which the others need not be looked up.
    """

    name = "format"

    def __init__(self, names: Callable[[], Sequence[str]], known: Collection[str] = ()) -> None:
        self._names = names
        self._known = known

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """Return all names, for the help."""
        return click.Choice(self._names()).get_metavar(param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin like this."""
        return click.Choice(self._names()).shell_complete(ctx, param, incomplete)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of a format, or refuse it and list the others."""
        return value if value in self._known else click.Choice(self._names()).convert(value, param, ctx)


def advice_on(path: str) -> str | None:
    """Return what a foreign file is and how to import it, or None if its format is unknown."""
    from ..events.errors import ForeignFormatError
    from ..formats.opening import head_of
    from ..formats.programs import formats

    source = Path(path)
    try:
        head = head_of(source)
        format = next((each for each in formats() if each.detects(source, head)), None)
    except (ForeignFormatError, OSError):  # it is gone or unreadable, which has been reported already
        return None
    if format is None or format.is_dialect:
        return None
    return f"it is a session of {format.title}: import it with `treering import {shlex.quote(path)}`"
