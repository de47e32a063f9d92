"""The failure of a projection: remembered until it is rebuilt, and reported to each caller by a new exception.

Raising the same exception object again and again would accumulate the tracebacks of all callers, and keep their frames
alive.
"""

from __future__ import annotations

from typing import Self

from msgspec import Struct

from ..events.errors import ProjectionFailed
from ..events.telemetry import failure_of, logger


class Failure(Struct, frozen=True):
    """The reason why a projection does not advance.

    Attributes:
        message: The error message for callers.
        cause: The exception that the projection raised.
    """

    message: str
    cause: BaseException | None

    @classmethod
    def of(cls, name: str, session_id: str, error: Exception) -> Self:
        """Log an exception that a projection raised, and remember it."""
        logger().error("projection_failed", projection=name, session_id=session_id, **failure_of(error))
        return cls(f"the projection {name!r} raised {type(error).__name__}: fix it and call `rebuild`", error)

    @classmethod
    def from_error(cls, error: ProjectionFailed) -> Self:
        """Remember a failure that has been logged already."""
        return cls(str(error), error.__cause__)

    def error(self) -> ProjectionFailed:
        """Return a new exception for this failure, to be raised once."""
        error = ProjectionFailed(self.message)
        error.__cause__ = self.cause
        return error
