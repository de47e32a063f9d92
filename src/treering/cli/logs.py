"""Log events of the library as warnings on stderr: as sentences, and with --verbose in full."""

from __future__ import annotations

from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from .log_sentences import details_of, sentence_of
from .output import clean

_SHOWN = ("warning", "error", "critical")


class _Mode:
    """The logging mode of the program, shared by all of its threads."""

    verbose = False


def be_verbose(*, verbose: bool) -> None:
    """Show log events with all of their fields, or only as sentences."""
    _Mode.verbose = verbose


def warn(message: str) -> None:
    """Write a warning to stderr, on one line."""
    click.echo(f"treering: warning: {clean(message)}", err=True)


@contextmanager
def logs_on_stderr(note_damaged: Callable[[int], None] | None = None) -> Generator[None, None, None]:
    """Print log events to stderr, and restore the program's logging configuration afterwards.

    Args:
        note_damaged: Called with the seq of each damaged line, which is then not printed here.
    """

    def show(level: str, name: str, fields: MutableMapping[str, Any]) -> None:
        if note_damaged is not None and name == "line_damaged":
            note_damaged(int(fields.get("seq", 0)))
        elif (message := _warning_of(level, name, fields)) is not None:
            warn(message)

    with _logging_to(show):
        yield


@contextmanager
def logs_held_back() -> Generator[None, None, None]:
    """Hold log events back while the alternate screen is shown, then print each distinct one once."""
    held: dict[str, None] = {}

    def hold(level: str, name: str, fields: MutableMapping[str, Any]) -> None:
        if (message := _warning_of(level, name, fields)) is not None:
            held[message] = None

    try:
        with _logging_to(hold):
            yield
    finally:
        for message in held:
            warn(message)


@contextmanager
def _logging_to(take: Callable[[str, str, MutableMapping[str, Any]], None]) -> Generator[None, None, None]:
    import structlog

    def processor(_: object, level: str, event: MutableMapping[str, Any]) -> NoReturn:
        take(level, str(event.pop("event", "")), event)
        raise structlog.DropEvent

    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(processors=[processor])
    try:
        yield
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)


def _warning_of(level: str, name: str, fields: MutableMapping[str, Any]) -> str | None:
    """Return the warning for an event, or None if there is none."""
    if level not in _SHOWN:
        return None
    message = sentence_of(name, fields)
    if not _Mode.verbose:
        return message
    details = details_of(name, fields)
    return details if message is None else f"{message} [{details}]"
