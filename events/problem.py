"""What a server and its remote clients both know: problem documents, and the errors that they stand for.

A problem (RFC 9457) holds the class of an error, its text, its place and its attributes, so that the caller of
`treering.remote` gets the error that the library raised behind the server: `error_of(problem)`.
"""

from __future__ import annotations

import re
from inspect import signature
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from . import errors
from .errors import TreeringError, Where

MEDIA_TYPE = "application/problem+json"
"""The media type of a problem."""

ErrorClass: TypeAlias = type[TreeringError]

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TEXT = frozenset({"message", "where"})
_NOT_TOLD = _TEXT | {"address"}
"""What a problem says elsewhere, and the addresses of hosts, which are not for clients."""


class Current(Struct, frozen=True):
    """The state of a session that a precondition did not meet."""

    leaf: str | None
    cursor: str


class FilePosition(Struct, frozen=True, omit_defaults=True):
    """A place in a file, without the folders above it."""

    path: str
    line: int | None = None
    byte: int | None = None


class Problem(Struct, frozen=True, omit_defaults=True):
    """A problem document.

    Attributes:
        type: A stable name of the kind of problem.
        title: The kind of problem, in a sentence.
        status: The HTTP status.
        detail: What happened here and what to do, in a sentence.
        instance: The id of the request.
        error: The class of the error, by which a client raises the same one.
        where: The place in a file that it refers to.
        field: The field of the request that is wrong, as a JSON path.
        retry: Whether the same request is safe to repeat, and may succeed.
        current: What a precondition was compared with.
        attributes: What the error says beside its text, by the names of its attributes.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    error: str | None = None
    where: FilePosition | None = None
    field: str | None = None
    retry: bool = False
    current: Current | None = None
    attributes: dict[str, Any] = {}  # any JSON


def public_class(error: TreeringError) -> ErrorClass:
    """Return the class by which a client knows an error: the nearest one that the error tree itself defines."""
    return next(each for each in type(error).__mro__ if each.__module__ == TreeringError.__module__)


def names_of(kind: ErrorClass) -> tuple[str, str]:
    """Return the type of a class's problems, and their title."""
    name = kind.__name__
    return f"urn:treering:problem:{_WORDS.sub('-', name).lower()}", _WORDS.sub(" ", name).lower().capitalize()


def attributes_of(error: TreeringError) -> dict[str, Any]:
    """Return what an error says beside its text, which its public class declares."""
    if type(error) is not public_class(error):  # what a subclass adds is not for clients
        return {}
    return {
        name: value
        for name, value in vars(error).items()
        if name not in _NOT_TOLD and not name.startswith("_") and value not in (None, ())
    }


def error_of(problem: Problem) -> TreeringError:
    """Return the error that a problem tells of: of the same class, with the same text, place and attributes.

    A class that this version does not know is told as a `RequestError`.
    """
    kind = getattr(errors, problem.error or "", None)
    if not (isinstance(kind, type) and issubclass(kind, TreeringError)):
        return errors.RequestError(problem.detail)
    where = None if problem.where is None else Where(*msgspec.structs.astuple(problem.where))
    error = kind.__new__(kind)
    TreeringError.__init__(error, problem.detail, where=where)
    for name, default in _declared(kind).items():
        value = problem.attributes.get(name, default)
        setattr(error, name, tuple(value) if isinstance(default, tuple) else value)
    return error


def _declared(kind: ErrorClass) -> dict[str, Any]:
    """Return the attributes that a class and its bases declare, with what they are where a problem does not say."""
    found: dict[str, Any] = {}
    for each in kind.__mro__:
        if issubclass(each, TreeringError):
            for name, parameter in signature(each).parameters.items():
                if name not in _TEXT:
                    found.setdefault(name, "" if parameter.default is parameter.empty else parameter.default)
    return found
