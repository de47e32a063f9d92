"""Problems: the error tree as documents of RFC 9457, by one table.

A problem says what happened in words (`title`, `detail`), in a stable type (`urn:treering:problem:leaf-moved`) and by
the error's class, by which a remote caller gets the same error again. It holds no stack trace, and no path outside the
root of the sessions.
"""

from __future__ import annotations

import errno
import re

from ...events.errors import (
    AgentError,
    AppendError,
    AppendFailed,
    AppendInDoubt,
    Closed,
    Conflict,
    ContextError,
    ContextOverflow,
    DialectCannot,
    ExtraMissing,
    ForeignFormatError,
    InvalidEntry,
    InvalidInput,
    LeafMoved,
    LeaseLost,
    LogError,
    ModelError,
    NotAuthorized,
    NotFound,
    NotLive,
    ProgramFailed,
    ProjectionFailed,
    ReadOnly,
    RequestError,
    RequestTooLong,
    SessionLocked,
    StoreUnavailable,
    SummaryRefused,
    TooLarge,
    TooMany,
    TreeringError,
    Unavailable,
    UnsafeCut,
)
from ...events.problem import Current, ErrorClass, FilePosition, Problem, attributes_of, names_of, public_class


class Malformed(InvalidInput):
    """The request is not what the interface describes: its JSON, its query, a header or its media type.

    Attributes:
        status: 400; 415 for the media type, 408 for a body that does not come. 422 for what a description cannot rule
            out: parameters each of which is right, but not beside the other one, and bounds that a server may set.
    """

    def __init__(self, message: str, *, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


class NoSuchRoute(NotFound):
    """No route has this path."""


class WrongMethod(RequestError):
    """The route has other methods.

    Attributes:
        allowed: Those.
    """

    def __init__(self, message: str, *, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        super().__init__(message)


class WrongHost(RequestError):
    """The request is for another host than this server answers to."""


class Stale(LeafMoved):
    """A precondition of the request does not hold; nothing was written.

    Attributes:
        leaf: The session's leaf now.
        cursor: The end of its log now.
    """

    def __init__(self, message: str, *, leaf: str | None, cursor: str) -> None:
        self.leaf = leaf
        self.cursor = cursor
        super().__init__(message)


_STATUS: tuple[tuple[tuple[ErrorClass, ...], int], ...] = (
    ((NotAuthorized,), 401),
    ((TooLarge,), 413),
    ((TooMany,), 429),
    ((Unavailable, StoreUnavailable), 503),
    ((WrongMethod,), 405),
    ((WrongHost,), 421),
    ((NotFound,), 404),
    (
        (RequestTooLong, UnsafeCut, InvalidEntry, DialectCannot, ContextOverflow, SummaryRefused, ForeignFormatError),
        422,
    ),
    ((InvalidInput,), 400),
    ((LeafMoved,), 412),
    ((Conflict, LogError, NotLive, ContextError, AgentError), 409),
    ((SessionLocked,), 423),
    ((ReadOnly,), 403),
    ((AppendError, Closed), 503),
    ((ModelError, ProgramFailed), 502),
    ((ExtraMissing,), 501),
    ((ProjectionFailed,), 500),
)
"""The status of each error; the first line that matches counts."""

_SAFE_TO_REPEAT = (AppendInDoubt, Closed, LeaseLost, StoreUnavailable, TooMany, Unavailable)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_FIELD = re.compile(r"at `\$\.?([^`]*)`")


def status_of(error: TreeringError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, (TooLarge, Malformed)):
        return error.status
    if isinstance(error, NotAuthorized):
        return 403 if error.known else 401
    if isinstance(error, AppendFailed) and isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL:
        return 507
    return next((status for classes, status in _STATUS if isinstance(error, classes)), 500)


def problem_of(error: BaseException, *, root: str | None = None, instance: str | None = None) -> Problem:
    """Return the document that tells a client of an error.

    Args:
        error: The error. One outside the tree is told as "internal error" alone, since its text may hold anything.
        root: The folder of the sessions; its path is cut wherever it stands.
        instance: The id of the request.
    """
    if not isinstance(error, TreeringError):
        return Problem(
            "urn:treering:problem:internal-error",
            "Internal error",
            500,
            "the server failed at this request; its log says why",
            instance,
        )
    kind = public_class(error)
    urn, title = names_of(kind)
    detail = without_paths(error.message, root)
    field = _FIELD.search(error.message)
    where = None
    if error.where is not None:
        where = FilePosition(without_paths(error.where.path, root), error.where.line, error.where.byte)
    return Problem(
        urn,
        title,
        status_of(error),
        detail,
        instance,
        error=kind.__name__,
        where=where,
        field=field[1] if field else None,
        retry=isinstance(error, _SAFE_TO_REPEAT),
        current=Current(error.leaf, error.cursor) if isinstance(error, Stale) else None,
        attributes=attributes_of(error),
    )


_ABSOLUTE = re.compile(r"(?<![\w/.])/(?!(?:openapi\.json|v1)(?:[\s:]|$))(?:[^\s:'\",;()/]+/)*[^\s:'\",;()/]+")


def without_paths(text: str, root: str | None = None) -> str:
    """Return a text in which paths below the root are relative to it, and others are their last part alone."""
    if root is not None:
        text = text.replace(f"{root.rstrip('/')}/", "").replace(root.rstrip("/") or "/", "the root")
    return _ABSOLUTE.sub(lambda match: match[0].rsplit("/", 1)[-1], text)
