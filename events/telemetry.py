"""Structured logs, loaded when the first line is logged.

Events are named by what happened, with the session's id bound; message content is never among their fields.
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
