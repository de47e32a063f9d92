"""All errors that treering raises deliberately, in one tree.

    TreeringError
    ├── NotFound
    │   ├── SessionNotFound      (also a FileNotFoundError)
    │   ├── AmbiguousSession
    │   └── EntryNotFound        (also a KeyError)
    ├── InvalidInput             (also a ValueError; refused before a byte is written)
    │   ├── InvalidSessionId
    │   ├── InvalidEntry
    │   ├── UnsafeCut
    │   └── DialectCannot
    ├── Conflict
    │   ├── CommandConflict
    │   ├── LeafMoved
    │   ├── SessionExists
    │   └── ExportExists         (also a FileExistsError)
    ├── SessionLocked
    ├── LogError
    │   ├── NotASession
    │   ├── UnsupportedVersion
    │   ├── CorruptTree
    │   ├── LogDamaged
    │   └── LogReplaced
    ├── AppendError
    │   ├── AppendFailed
    │   └── AppendInDoubt
    ├── Closed
    │   ├── SessionClosed
    │   └── HostClosed
    ├── ContextError
    │   ├── ContextOverflow
    │   ├── CompactionLoop
    │   ├── SummaryRefused
    │   └── RequestTooLong       (also a ModelError)
    ├── ModelError
    │   ├── RequestRefused
    │   ├── RateLimited
    │   ├── ModelUnavailable
    │   └── AnswerCutOff
    ├── AgentError
    │   ├── TurnTooLong
    │   ├── TurnSuspended
    │   └── NotSuspended
    ├── ForeignFormatError
    │   └── RedactedSession
    ├── ProgramFailed
    ├── ExtraMissing             (also an ImportError)
    ├── RequestError             (of a server)
    │   ├── NotAuthorized
    │   ├── TooLarge
    │   ├── TooMany
    │   └── Unavailable
    ├── NotLive
    ├── ReadOnly
    ├── WrongThread
    └── ProjectionFailed

To catch any error of the session layer::

    try:
        await session.append_message("user", "Hello")
    except treering.TreeringError as error:
        ...

This module holds nothing but errors and imports nothing, so that every other module can import it.
"""

from __future__ import annotations


class Where:
    """A place in a file: its path, the line counted from 1, the byte offset at which that line begins."""

    __slots__ = ("byte", "line", "path")

    def __init__(self, path: str, line: int | None = None, byte: int | None = None) -> None:
        self.path = path
        self.line = line
        self.byte = byte

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.path, self.line, self.byte) if part is not None)

    def __repr__(self) -> str:
        return f"Where({str(self)!r})"


_MESSAGE_HALF_MAX = 2_000  # characters


class TreeringError(Exception):
    """The base of all errors that treering raises deliberately.

    Args:
        message: What happened and what to do about it, in one sentence.
        where: The place in a file that the message refers to; it is put in front of the message.
    """

    def __init__(self, message: str, *, where: Where | None = None) -> None:
        if len(message) > 2 * _MESSAGE_HALF_MAX:  # it quotes something huge
            message = f"{message[:_MESSAGE_HALF_MAX]} ... {message[-_MESSAGE_HALF_MAX:]}"
        self.message = message
        self.where = where
        super().__init__(f"{where}: {message}" if where else message)

    def __str__(self) -> str:
        return str(self.args[0])


class NotFound(TreeringError):
    """A session or entry that was requested does not exist, or the request is ambiguous."""


class SessionNotFound(NotFound, FileNotFoundError):
    """No session has this id, name or path."""


class AmbiguousSession(NotFound):
    """The text matches several sessions.

    Attributes:
        candidates: Their ids, the most recently used first.
    """

    def __init__(self, message: str, *, candidates: tuple[str, ...] = ()) -> None:
        self.candidates = candidates
        super().__init__(message)


class EntryNotFound(NotFound, KeyError):
    """No entry of the session has this id."""

    def __init__(self, entry_id: str) -> None:
        self.entry_id = entry_id
        is_text = isinstance(entry_id, str)  # pyright: ignore[reportUnnecessaryIsInstance]
        named = repr(entry_id) if is_text else f"of type `{type(entry_id).__name__}`"  # which may be nested without end
        super().__init__(f"entry {named} not found: give the id of an entry of this session")


class InvalidInput(TreeringError, ValueError):
    """An argument breaks a rule; nothing was written."""


class InvalidSessionId(InvalidInput):
    """The session id cannot name a file: it is empty, too long, or holds a separator or a control character."""


class InvalidEntry(InvalidInput):
    """The entry lacks a required field or has one of the wrong type; the message names the field as a JSON path."""


class UnsafeCut(InvalidInput):
    """A compaction here would separate a tool call from its result, or keep an entry that is not on the path."""


class DialectCannot(InvalidInput):
    """The file's dialect cannot represent this entry: use a native session for it."""


class Conflict(TreeringError):
    """The session is not in the state that the caller relied on; nothing was written."""


class CommandConflict(Conflict):
    """The command id was already used for a command with a different payload."""


class LeafMoved(Conflict):
    """The leaf (or the head) is no longer the one that the caller expected: read it again before retrying."""


class SessionExists(Conflict):
    """A session with this id or path already exists."""


class ExportExists(Conflict, FileExistsError):
    """The destination of the export already exists: give another path, or `overwrite=True`."""


class LeaseLost(Conflict):
    """Another host took the session over, since this one had not answered for a while; nothing was written."""


class SessionLocked(TreeringError):
    """Another process or host owns the session: open it read-only, or wait until the owner releases it.

    Attributes:
        pid: The owner's process id, if known.
        host: The owner's host name, if known.
        left_s: The seconds until the owner loses it unless it answers before; None if that does not happen by itself.
        address: Where the owner, or another host that takes the session, answers requests; None if it is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        pid: int | None = None,
        host: str | None = None,
        left_s: float | None = None,
        address: str | None = None,
    ) -> None:
        self.pid = pid
        self.host = host
        self.left_s = left_s
        self.address = address
        super().__init__(message)


class LogError(TreeringError):
    """The content of a log does not permit the operation."""


class NotASession(LogError):
    """The file does not begin with a session header; it was left as it is."""


class UnsupportedVersion(LogError):
    """A newer program wrote this file; it was left as it is."""


class CorruptTree(LogError):
    """The path runs into a cycle of parents: no context can be built through it."""


class LogDamaged(LogError):
    """The compressed form of an archived session is damaged; it was left as it is."""


class LogReplaced(LogError):
    """The file was replaced, shortened or removed by another program while it was open here."""


class AppendError(TreeringError):
    """An append was not acknowledged."""


class AppendFailed(AppendError):
    """Nothing of the append is in the file, the state or any view; the error's cause is that of the disk."""


class AppendInDoubt(AppendError):
    """The append may or may not have reached the disk; retrying with the same command id is safe."""


class Closed(TreeringError):
    """The object was closed and cannot be used any more."""


class SessionClosed(Closed):
    """This session handle was closed."""


class HostClosed(Closed):
    """The host was closed, or belongs to the process from which this one was forked."""


class ContextError(TreeringError):
    """The requested context cannot be built or made smaller; the session is unchanged."""


class ContextOverflow(ContextError):
    """Not even the smallest context fits: raise the window, or shorten the system prompt or the last user message.

    A summarizer raises it too, when its input is more than its model accepts; it is then called again with less.

    Attributes:
        needed: The tokens that the smallest context takes, if they were counted.
        available: The tokens that are available, if known.
        failures: Why each strategy failed, in the order in which they were tried.
    """

    def __init__(
        self, message: str, *, needed: int | None = None, available: int | None = None, failures: tuple[str, ...] = ()
    ) -> None:
        self.needed = needed
        self.available = available
        self.failures = failures
        super().__init__(message)


class CompactionLoop(ContextError):
    """Compacting again would not help: earlier compactions did not bring the context below its limit."""


class SummaryRefused(ContextError):
    """The summarizer's answer is empty, a refusal, or not shorter than what it summarizes; nothing was written."""


class ModelError(TreeringError):
    """A request to a model failed; everything before it is in the session.

    Attributes:
        status: The HTTP status of the response, if there was one.
        retry_after_s: The seconds to wait before a retry, if the provider stated them.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        super().__init__(message)


class RequestRefused(ModelError):
    """The provider rejects the request and would reject it again: the key, the model's name or a parameter is wrong."""


class RateLimited(ModelError):
    """The provider limits the rate of requests: retry later."""


class ModelUnavailable(ModelError):
    """The provider cannot be reached, or failed on its side: the same request may succeed later."""


class AnswerCutOff(ModelError):
    """The connection ended in the middle of an answer, so that the answer is incomplete."""


class RequestTooLong(ModelError, ContextOverflow):
    """The request exceeds the model's window, as the provider reports: build a smaller context.

    Attributes:
        needed: The tokens of the request as the provider counts them, if it stated them.
        available: The most tokens that the provider accepts, if it stated them.
    """

    def __init__(
        self, message: str, *, status: int | None = None, needed: int | None = None, available: int | None = None
    ) -> None:
        ContextOverflow.__init__(self, message, needed=needed, available=available)
        self.status, self.retry_after_s = status, None


class AgentError(TreeringError):
    """An agent cannot start or finish a turn; entries that were acknowledged stay."""


class TurnTooLong(AgentError):
    """The turn made as many requests as `requests_max` allows, and the model still calls tools."""


class TurnSuspended(AgentError):
    """The turn waits for external results: pass them to `resume`, or abandon the turn with `close_open_calls`.

    Attributes:
        call_ids: The calls that wait for a result.
    """

    def __init__(self, message: str, *, call_ids: tuple[str, ...] = ()) -> None:
        self.call_ids = call_ids
        super().__init__(message)


class NotSuspended(AgentError):
    """No turn of the session waits for an external result, or not for this one."""


class ForeignFormatError(TreeringError):
    """The file is not in a format that can be imported, or is damaged beyond recovery; it was left as it is."""


class ProgramFailed(TreeringError):
    """Another program that has to take a session in is not installed, or refused it; its message is in this one."""


class RedactedSession(ForeignFormatError):
    """The file is an export from which secrets were removed: it is for reading, and cannot become a session again."""


class ExtraMissing(TreeringError, ImportError):
    """A required package is not installed; the message names the extra that provides it."""


class RequestError(TreeringError):
    """A server refuses a request, whatever the session; nothing was written."""


class NotAuthorized(RequestError):
    """The server does not know who asks, or its role or prefix does not cover this.

    Attributes:
        known: Whether the server knows who asks, so that a token of another role is needed.
    """

    def __init__(self, message: str, *, known: bool = False) -> None:
        self.known = known
        super().__init__(message)


class TooLarge(RequestError):
    """A request exceeds one of the server's bounds on sizes; the message names it.

    Attributes:
        status: The HTTP status: 413 for a body, 414 for a URL, 431 for headers.
    """

    def __init__(self, message: str, *, status: int = 413) -> None:
        self.status = status
        super().__init__(message)


class TooMany(RequestError):
    """As many requests or streams are open as the server allows: repeat it later.

    Attributes:
        retry_after_s: The seconds to wait.
    """

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class Unavailable(RequestError):
    """The server stops, or cannot be reached: the same request may succeed later."""


class StoreUnavailable(TreeringError, OSError):
    """The database of the sessions cannot be reached, or refuses its service: the same call may succeed later."""


class NotLive(TreeringError):
    """The session is passivated and its store cannot be read without waiting: await `refresh` first."""


class ReadOnly(TreeringError):
    """The session was opened read-only, or its file cannot be written; the message says what to do."""


class WrongThread(TreeringError):
    """The handle belongs to another thread's event loop: use `SyncHost` from threads without one."""


class ProjectionFailed(TreeringError):
    """A projection raised while it folded entries; its view does not change until it is rebuilt."""
