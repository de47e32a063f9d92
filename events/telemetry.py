"""Structured logs: to structlog where the program has configured it, else to the standard library's logging.

A library writes nothing to stdout, which is the program's. So an event goes to the standard logger "treering" as long as
nobody configured structlog: to the handlers that the program set up, and where it set up none, warnings and errors go
to stderr, as the standard library has it. The record's message is the event and its fields, and the fields stand in
`record.treering` too. docs/logging.md lists the events.

Events are named by what happened, with the session's id bound; message content is never among their fields. So an
error is logged by its type and by where it was raised: what it says, and what the frames of its traceback hold, may be
anything that a user said.
"""

from __future__ import annotations

import logging
import sys
from typing import Protocol


class Logger(Protocol):
    """What logs events; a part of what structlog's loggers can do."""

    def debug(self, event: str, /, **fields: object) -> object:
        """Log what only somebody who looks for an error wants to know."""
        ...

    def info(self, event: str, /, **fields: object) -> object:
        """Log what went as it should."""
        ...

    def warning(self, event: str, /, **fields: object) -> object:
        """Log what somebody should look at."""
        ...

    def error(self, event: str, /, **fields: object) -> object:
        """Log what went wrong."""
        ...


class _StandardLogger:
    """Logs events by the standard library."""

    def debug(self, event: str, /, **fields: object) -> None:
        _log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        _log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        _log(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        _log(logging.ERROR, event, fields)


_CALLER = 3
"""How many calls lie between the standard logger and whoever logs, so that a record names that one."""

_standard = _StandardLogger()


def logger() -> Logger:
    """Return treering's logger: structlog's where the program has configured structlog, else the standard library's."""
    if "structlog" in sys.modules:  # a program that configured it has imported it; nobody else need wait for it
        import structlog

        if structlog.is_configured():
            bound: Logger = structlog.get_logger("treering")
            return bound
    return _standard


def _log(level: int, event: str, fields: dict[str, object]) -> None:
    standard = logging.getLogger("treering")
    if standard.isEnabledFor(level):
        said = " ".join([event, *(f"{name}={value!r}" for name, value in fields.items())])
        standard.log(level, said, extra={"treering": fields}, stacklevel=_CALLER)


def failure_of(error: BaseException) -> dict[str, object]:
    """Return the fields that say which error it was and where it was raised, the innermost call last."""
    calls: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        calls.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_qualname}")
        trace = trace.tb_next
    return {"error": type(error).__qualname__, "raised_at": calls}
