"""Structured logs, loaded when the first line is logged.

Events are named by what happened, with the session's id bound; message content is never among their fields. So an
error is logged by its type and by where it was raised: what it says, and what the frames of its traceback hold, may be
anything that a user said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def logger() -> FilteringBoundLogger:
    """Return treering's logger, configured as the program configured structlog."""
    import structlog

    bound: FilteringBoundLogger = structlog.get_logger("treering")
    return bound


def failure_of(error: BaseException) -> dict[str, object]:
    """Return the fields that say which error it was and where it was raised, the innermost call last."""
    calls: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        calls.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_qualname}")
        trace = trace.tb_next
    return {"error": type(error).__qualname__, "raised_at": calls}
