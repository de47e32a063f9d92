"""What a person sees: answers as they come, notes beside them, errors on one line. Plain text, so that nothing flickers."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from ...events.errors import TreeringError
from ..output import clean, echo_lines, sentence


class Screen:
    """Writes to the terminal, or to pipes.

    Args:
        interactive: Whether a person looks at it. Otherwise stdout gets answers and what was asked for, and stderr notes.
        quiet: Show no answers and no notes: somebody prints the whole later.
    """

    def __init__(self, *, interactive: bool, quiet: bool = False) -> None:
        self._interactive = interactive
        self._quiet = quiet
        self._in_line = False

    def piece(self, text: str) -> None:
        """Write a piece of an answer, as it comes."""
        if text and not self._quiet:
            sys.stdout.write(clean(text))
            sys.stdout.flush()
            self._in_line = not text.endswith("\n")

    def end_line(self) -> None:
        """Begin a new line, unless one was just begun."""
        if self._in_line:
            self._in_line = False
            click.echo()

    def end_answer(self) -> None:
        """End an answer; a person gets an empty line after it."""
        self.end_line()
        if self._interactive:
            click.echo()

    def lines(self, lines: Iterable[str]) -> None:
        """Write what was asked for."""
        self.end_line()
        echo_lines(lines)

    def note(self, text: str) -> None:
        """Say something beside the conversation."""
        if not self._quiet:
            self.end_line()
            click.secho(clean(text), dim=True, err=not self._interactive)

    def error(self, error: TreeringError | OSError) -> None:
        """Say on one line what went wrong."""
        self.end_line()
        click.echo(f"treering: {one_line(error)}", err=True)


def one_line(error: TreeringError | OSError) -> str:
    """Say what went wrong on one line, whatever a server has put into its words; commands in a chat have no options."""
    return " ".join(sentence(error).split()).replace(", or --force", "")
