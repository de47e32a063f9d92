"""That a projection raised: remembered until it is rebuilt, and told to each who asks by an error of its own.

An error that is raised again and again would gather the frames of all who met it, and what they hold.
"""

from __future__ import annotations

from typing import Self

from msgspec import Struct

from ..events.errors import ProjectionFailed
from ..events.telemetry import failure_of, logger


class Failure(Struct, frozen=True):
    """Why a projection stands still.

    Attributes:
        told: What is said of it.
        cause: What the projection raised.
    """

    told: str
    cause: BaseException | None

    @classmethod
    def of(cls, name: str, session_id: str, error: Exception) -> Self:
        """Log what a projection raised, and remember it."""
        logger().error("projection_failed", projection=name, session_id=session_id, **failure_of(error))
        return cls(f"the projection {name!r} raised {type(error).__name__}: mend it and call `rebuild`", error)

    @classmethod
    def told_by(cls, error: ProjectionFailed) -> Self:
        """Remember what another one has logged."""
        return cls(str(error), error.__cause__)

    def error(self) -> ProjectionFailed:
        """Make an error that tells of it, to be raised once."""
        made = ProjectionFailed(self.told)
        made.__cause__ = self.cause
        return made
