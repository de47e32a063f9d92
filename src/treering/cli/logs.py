"""What the library logs while a command runs, told on stderr as warnings: in sentences, and with --verbose all of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from .log_sentences import details_of, sentence_of
from .output import clean

_TOLD = ("warning", "error", "critical")


class _Telling:
    """How the program tells what is logged; what is asked of a command holds in all threads that it starts."""

    verbose = False


def be_verbose(*, verbose: bool) -> None:
    """Have all that is logged told, as it was logged; or only in sentences."""
    _Telling.verbose = verbose


def warn(message: str) -> None:
    """Write a warning to stderr, on one line."""
    click.echo(f"treering: warning: {clean(message)}", err=True)


@contextmanager
def telling_logs(met: Callable[[int], None] | None = None) -> Generator[None, None, None]:
    """Have what the library logs told on stderr, and the program's own settings put back afterwards.

    Args:
        met: Takes the ordinal of each damaged line that is met, which is then not told here.
    """

    def tell(level: str, name: str, fields: MutableMapping[str, Any]) -> None:
        if met is not None and name == "line_damaged":
            met(int(fields.get("seq", 0)))
        elif (message := _said(level, name, fields)) is not None:
            warn(message)

    with _logging_to(tell):
        yield


@contextmanager
def holding_logs() -> Generator[None, None, None]:
    """Hold back what is logged while the terminal's screen shows something else, and tell it afterwards, each thing once."""
    held: dict[str, None] = {}

    def hold(level: str, name: str, fields: MutableMapping[str, Any]) -> None:
        if (message := _said(level, name, fields)) is not None:
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


def _said(level: str, name: str, fields: MutableMapping[str, Any]) -> str | None:
    """Return what is told of an event; None where nothing is."""
    if level not in _TOLD:
        return None
    message = sentence_of(name, fields)
    if not _Telling.verbose:
        return message
    details = details_of(name, fields)
    return details if message is None else f"{message} [{details}]"
