"""Structured logs: to structlog if the program has configured it, otherwise to the standard library's logging.

A library must not write to stdout, which belongs to the program. Unless structlog is configured, an event therefore
goes to the standard logger "treering" and the handlers that the program set up; if it set up none, warnings and errors
go to stderr, which is the standard library's default. The record's message is the event and its fields; the fields are
also in `record.treering`. docs/logging.md lists the events.

Events are named by what happened, with the session's id bound; message content is never among their fields. An error is
therefore logged by its type and by where it was raised: its message, and the frames of its traceback, may contain
anything that a user wrote.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol


class Logger(Protocol):
    """The interface for logging events, a subset of that of structlog's loggers."""

    def debug(self, event: str, /, **fields: object) -> object:
        """Log details that matter only when looking for an error."""
        ...

    def info(self, event: str, /, **fields: object) -> object:
        """Log normal operation."""
        ...

    def warning(self, event: str, /, **fields: object) -> object:
        """Log something that deserves attention."""
        ...

    def error(self, event: str, /, **fields: object) -> object:
        """Log a failure."""
        ...


class _StandardLogger:
    """Logs events through the standard library."""

    def debug(self, event: str, /, **fields: object) -> None:
        _log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        _log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        _log(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        _log(logging.ERROR, event, fields)


_CALLER = 3
"""The number of stack frames from the standard logger to the caller that logs, so that a record names the caller."""

_standard = _StandardLogger()
_python_logger = logging.getLogger("treering")


_redirected: list[Logger] = []


@contextmanager
def logging_to(other: Logger) -> Generator[None]:
    """Send all events to a logger of the program's own, such as one that prints them as sentences."""
    _redirected.append(other)
    try:
        yield
    finally:
        _redirected.remove(other)


def logger() -> Logger:
    """Return treering's logger: structlog's if the program has configured structlog, else the standard library's."""
    if _redirected:
        return _redirected[-1]
    if "structlog" in sys.modules:  # a program that configured it has imported it; others are spared the import
        import structlog

        if structlog.is_configured():
            bound: Logger = structlog.get_logger("treering")
            return bound
    return _standard


def informed() -> bool:
    """Return whether anybody reads of normal operation, so that an event that is frequent need be made."""
    return logger() is not _standard or _python_logger.isEnabledFor(logging.INFO)


def _log(level: int, event: str, fields: dict[str, object]) -> None:
    if _python_logger.isEnabledFor(level):
        message = " ".join([event, *(f"{name}={value!r}" for name, value in fields.items())])
        _python_logger.log(level, message, extra={"treering": fields}, stacklevel=_CALLER)


def failure_of(error: BaseException, trace: TracebackType | None = None) -> dict[str, object]:
    """Return log fields for an error: its type, and the calls that led to it, the innermost last.

    Args:
        error: The error.
        trace: The part of its traceback to log; by default all of it.
    """
    calls: list[str] = []
    trace = trace or error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        calls.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_qualname}")
        trace = trace.tb_next
    return {"error": type(error).__qualname__, "raised_at": calls}
