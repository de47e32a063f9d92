"""Refusals in the form in which OpenAI's clients expect them, at the paths that speak as its API does."""

from __future__ import annotations

from msgspec import Struct

from ...events.problem import Problem

PATHS = "/openai/"
"""What the paths begin with."""

_CONFLICT = 409
_STATUS = {412: _CONFLICT, 423: _CONFLICT, 422: 400}  # those for which its clients have no class of errors
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class OpenAIError(Struct, frozen=True):
    """What went wrong.

    Attributes:
        message: What happened, and what to do.
        type: The kind of error.
        param: The field that it is about, if any.
        code: The error's name in the tree of treering's errors, if it is one of these.
    """

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIRefusal(Struct, frozen=True):
    """The body of a refusal."""

    error: OpenAIError


def refusal_of(problem: Problem) -> tuple[int, OpenAIRefusal]:
    """Return the status and the body by which a problem is told to OpenAI's clients."""
    status = _STATUS.get(problem.status, problem.status)
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = problem.type.rpartition(":")[2].replace("-", "_")
    return status, OpenAIRefusal(OpenAIError(problem.detail, kind, problem.field, code))
