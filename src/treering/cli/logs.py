"""What the library logs while a command runs, told on stderr as warnings."""

from __future__ import annotations

from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from .output import clean

_TOLD = ("warning", "error", "critical")


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
        elif level in _TOLD:
            warn(_said(name, fields))

    with _logging_to(tell):
        yield


@contextmanager
def holding_logs() -> Generator[None, None, None]:
    """Hold back what is logged while the terminal's screen shows something else, and tell it afterwards, each thing once."""
    held: dict[str, None] = {}

    def hold(level: str, name: str, fields: MutableMapping[str, Any]) -> None:
        if level in _TOLD:
            held[_said(name, fields)] = None

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

    before = structlog.get_config()
    structlog.configure(processors=[processor])
    try:
        yield
    finally:
        structlog.configure(**before)


def _said(name: str, fields: MutableMapping[str, Any]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in fields.items() if key != "exc_info")])
