"""Output of the chat: answers as they arrive, notes, and one-line errors, as plain text that does not flicker."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from ...events.errors import TreeringError
from ..output import clean, echo_lines, sentence


class Screen:
    """Writes to the terminal, or to pipes.

    Args:
        interactive: Whether a person reads it. Otherwise answers and results go to stdout, and notes to stderr.
        quiet: Suppress answers and notes, because the complete answer is printed later.
    """

    def __init__(self, *, interactive: bool, quiet: bool = False) -> None:
        self._interactive = interactive
        self._quiet = quiet
        self._in_line = False

    def piece(self, text: str) -> None:
        """Write a piece of an answer."""
        if text and not self._quiet:
            sys.stdout.write(clean(text))
            sys.stdout.flush()
            self._in_line = not text.endswith("\n")

    def end_line(self) -> None:
        """End the current line, if there is one."""
        if self._in_line:
            self._in_line = False
            click.echo()

    def end_answer(self) -> None:
        """End an answer, with an empty line for a person."""
        self.end_line()
        if self._interactive:
            click.echo()

    def lines(self, lines: Iterable[str]) -> None:
        """Write result lines."""
        self.end_line()
        echo_lines(lines)

    def note(self, text: str) -> None:
        """Write a note on the conversation."""
        if not self._quiet:
            self.end_line()
            click.secho(clean(text), dim=True, err=not self._interactive)

    def error(self, error: TreeringError | OSError) -> None:
        """Report an error on one line."""
        self.end_line()
        click.echo(f"treering: {one_line(error)}", err=True)


def one_line(error: TreeringError | OSError) -> str:
    """Return an error on one line; line breaks in a server's message are joined, and advice on options is removed."""
    return " ".join(sentence(error).split()).removesuffix(", or --force")
