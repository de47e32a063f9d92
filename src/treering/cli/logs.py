"""Log events of the library as warnings on stderr: as sentences, and with --verbose in full."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import click

from ..events.telemetry import logging_to
from .log_sentences import details_of, sentence_of
from .output import clean


class _Mode:
    """The logging mode of the program, shared by all of its threads."""

    verbose = False


def be_verbose(*, verbose: bool) -> None:
    """Show log events with all of their fields, or only as sentences."""
    _Mode.verbose = verbose


def warn(message: str) -> None:
    """Write a warning to stderr, on one line."""
    click.echo(f"treering: warning: {clean(message)}", err=True)


class _Warnings:
    """A logger that hands on the warnings of events, and drops everything below a warning.

    It needs no logging library: loading one takes as long as a whole short command.

    Args:
        print_: Called with each warning.
        note_damaged: Called with the seq of each damaged line, in place of `print_`.
    """

    def __init__(self, print_: Callable[[str], object], note_damaged: Callable[[int], None] | None = None) -> None:
        self._print = print_
        self._note_damaged = note_damaged

    def debug(self, event: str, /, **fields: object) -> None:
        """Drop the event."""

    def info(self, event: str, /, **fields: object) -> None:
        """Drop the event."""

    def warning(self, event: str, /, **fields: object) -> None:
        """Hand on the event's warning, if it has one."""
        if self._note_damaged is not None and event == "line_damaged":
            seq = fields.get("seq")
            self._note_damaged(seq if isinstance(seq, int) else 0)
        elif (message := _warning_of(event, fields)) is not None:
            self._print(message)

    def error(self, event: str, /, **fields: object) -> None:
        """Hand on the event's warning, as `warning` does."""
        self.warning(event, **fields)


@contextmanager
def logs_on_stderr(note_damaged: Callable[[int], None] | None = None) -> Generator[None, None, None]:
    """Print log events to stderr.

    Args:
        note_damaged: Called with the seq of each damaged line, which is then not printed here.
    """
    with logging_to(_Warnings(warn, note_damaged)):
        yield


@contextmanager
def logs_held_back() -> Generator[None, None, None]:
    """Hold log events back while the alternate screen is shown, then print each distinct one once."""
    held: dict[str, None] = {}
    try:
        with logging_to(_Warnings(held.setdefault)):
            yield
    finally:
        for message in held:
            warn(message)


def _warning_of(name: str, fields: dict[str, object]) -> str | None:
    """Return the warning for an event, or None if there is none."""
    message = sentence_of(name, fields)
    if not _Mode.verbose:
        return message
    details = details_of(name, fields)
    return details if message is None else f"{message} [{details}]"
