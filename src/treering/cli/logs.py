"""What the library logs while a command runs, told on stderr as warnings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, MutableMapping
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
    import structlog

    def tell(_: object, level: str, event: MutableMapping[str, Any]) -> NoReturn:
        name = event.pop("event", "")
        if met is not None and name == "line_damaged":
            met(int(event.get("seq", 0)))
        elif level in _TOLD:
            warn(" ".join([str(name), *_fields(event.items())]))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[tell])
    try:
        yield
    finally:
        structlog.configure(**before)


def _fields(items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    return (f"{key}={value}" for key, value in items if key != "exc_info")
