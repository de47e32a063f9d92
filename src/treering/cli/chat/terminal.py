"""The two sides of the terminal: reading what a person types, and writing answers as they arrive, notes and errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from ...events.errors import TreeringError
from ..messages import sentence
from ..output import clean, echo_lines

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

PROMPT = "> "


class Reader:
    """Reads the messages of a person.

    At a terminal, prompt_toolkit edits a message, keeps the history and completes slash commands. Pasted text keeps its
    line breaks and arrives as one message.

    Args:
        interactive: Whether a person is at the terminal; otherwise messages are lines of stdin.
        completed: The words that Tab completes at the beginning of a message.
    """

    def __init__(self, *, interactive: bool, completed: Sequence[str] = ()) -> None:
        self._editor = _editor(completed) if interactive else None

    def next_message(self) -> str | None:
        """Return the next message, or None at the end of the input; a backslash at the end of a line continues it.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        if self._editor is not None:
            return _typed(self._editor, PROMPT)
        lines: list[str] = []
        while (line := _next_line()) is not None:
            if not line.endswith("\\"):
                return "\n".join([*lines, line])
            lines.append(line[:-1])
        return "\n".join(lines) if lines else None

    def answer(self, question: str) -> str:
        """Ask a question and return the answer, "" at the end of the input."""
        line = _next_line() if self._editor is None else _typed(_editor(), question)
        return (line or "").strip()


def _next_line() -> str | None:
    try:
        return input()
    except EOFError:
        return None


def _typed(editor: PromptSession[str], prompt: str) -> str | None:
    try:
        return editor.prompt(prompt)
    except EOFError:
        return None


def _editor(completed: Sequence[str] = ()) -> PromptSession[str]:
    """Return an editor of messages: Enter sends, and after a backslash begins a new line in its place."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.output import create_output
    from prompt_toolkit.output.vt100 import Vt100_Output
    from prompt_toolkit.shortcuts import CompleteStyle

    keys, output = KeyBindings(), create_output()
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False  # some terminals do not answer where their cursor is

    @keys.add("enter", filter=Condition(lambda: editor.default_buffer.document.text_before_cursor.endswith("\\")))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.delete_before_cursor()
        event.current_buffer.newline(copy_margin=False)

    editor: PromptSession[str] = PromptSession(
        completer=WordCompleter(completed, sentence=True) if completed else None,
        complete_style=CompleteStyle.READLINE_LIKE,
        complete_while_typing=False,
        reserve_space_for_menu=0,
        enable_suspend=True,
        key_bindings=keys,
        output=output,
    )
    return editor


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
