"""What goes wrong, in one sentence: errors that end a command, and log events of the library as warnings on stderr.

Each event that can reach the command line has its sentence here. With --verbose, an event is printed in full.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from ..events.errors import (
    ExportExists,
    ForeignFormatError,
    InvalidInput,
    NotASession,
    ReadOnly,
    RedactedSession,
    SessionLocked,
    TreeringError,
)
from ..events.telemetry import logging_to
from .output import clean, line

# -- log events


_SENTENCES = {
    "line_damaged": "{where}: this line is not a JSON object and was skipped",
    "more_lines_damaged": "{count} more damaged lines were skipped: `treering doctor` lists them",
    "log_unreadable": "{ref} cannot be read at the moment: {error}",
    "folder_unreadable": "{path} cannot be listed ({why}), so its contents were skipped",
    "search_index_unavailable": "the search index is not available, so the sessions are read instead: {why}",
    "search_index_damaged": "the search index was damaged and is being rebuilt: {path}",
    "search_index_foreign": "{path} was not a search index of treering and was renamed to {moved_to}",
    "watch_polls": "the system does not report file changes ({error}), so files are polled",
    "program_not_shown": "session {session_id} of {program} cannot be shown as it is now ({error})",
    "watch_failed": "{ref} cannot be followed at the moment ({error}); this is retried",
    "replay_waits": "journal entries of {ref} cannot be restored yet: {why}",
    "replay_without_header": "a journal has lines of {ref}, but not its beginning: run `treering doctor` for details",
    "journal_unknown": "{journal} is not a journal that this version can read; it was left as it is",
    "journal_not_dropped": "the journal {journal} cannot be removed: {error}",
    "checkpoint_failed": "{place} could not be flushed, so the journal keeps its entries: {error}",
    "archive_left": "{path} was left where it is: {why}",
    "background_failed": "the background task {work} failed and is retried ({error})",
    "retention_failed": "old sessions could not be archived ({error}): retry with `treering gc`",
    "host_failed": "the host was closed by a failure ({error}): everything acknowledged is in its files",
    "passivation_failed": "session {session_id} could not be closed cleanly ({error})",
    "lease_lost": "another host took session {session_id}, since this program had not answered for a while",
    "inbox_unavailable": "commands of other hosts cannot be read at the moment ({error}); this is retried",
    "no_answer": "{error}; this is retried",
    "not_sent": "pieces of the answer could not be sent to those who follow it ({error})",
    "letter_failed": "a command of another host for {ref} failed ({error}); its sender is told so",
    "leases_not_renewed": "the leases of {sessions} sessions could not be renewed ({error}); this is retried",
    "release_failed": "the database did not answer ({error}), so others wait for what this program held",
    "actor_failed": "session {session_id} was abandoned ({error}): everything acknowledged is in its file",
    "projection_failed": "the view {projection!r} of session {session_id} failed ({error})",
    "object_left": "{object} could not be deleted ({error}): `treering postgres sweep` does that",
    "checkpoint_ignored": "the checkpoint of the view {projection!r} cannot be used ({error}): the view is rebuilt",
    "checkpoint_not_saved": "the checkpoint of the view {projection!r} could not be saved ({error})",
    "not_summarized": "a failed answer was abandoned without a summary ({error})",
    "tool_cancelled": "the tool {tool!r} was cancelled before it answered",
    "tool_failed": "the tool {tool!r} failed ({error})",
    "tool_timed_out": "the tool {tool!r} did not answer within {timeout_s} seconds",
}
_REPORTED_ELSEWHERE = frozenset({"not_compacted"})  # the chat reports it itself, since it gets it as an event
_NUMBERED = re.compile(r"\[Errno -?\d+\] ")


def sentence_of(name: str, fields: Mapping[str, object]) -> str | None:
    """Return an event as a sentence, or None if it is reported elsewhere.

    Args:
        name: The event.
        fields: The fields that were logged with it.
    """
    if name in _REPORTED_ELSEWHERE:
        return None
    values = {key: _NUMBERED.sub("", value) if isinstance(value, str) else value for key, value in fields.items()}
    values.setdefault("place", values.get("ref", values.get("folder", "a session")))
    try:
        return _SENTENCES[name].format_map(values)
    except KeyError:  # an event without a sentence, or without one of its fields
        session = f" (session {values['session_id']})" if "session_id" in values else ""
        return f"{name.replace('_', ' ')}{session}; run `treering --verbose` for details"


class _Mode:
    """The logging mode of the program, shared by all of its threads."""

    verbose = False


def be_verbose(*, verbose: bool) -> None:
    """Show log events with all of their fields, or only as sentences."""
    _Mode.verbose = verbose


def warn(message: str) -> None:
    """Write a warning to stderr, on one line."""
    click.echo(f"treering: warning: {clean(message)}", err=True)


class _Warnings:
    """A logger that hands on the warnings of events, and drops everything below a warning.

    It needs no logging library: loading one takes as long as a whole short command.

    Args:
        print_: Called with each warning.
        note_damaged: Called with the seq of each damaged line, in place of `print_`.
    """

    def __init__(self, print_: Callable[[str], object], note_damaged: Callable[[int], None] | None = None) -> None:
        self._print = print_
        self._note_damaged = note_damaged

    def debug(self, event: str, /, **fields: object) -> None:
        """Drop the event."""

    info = debug

    def warning(self, event: str, /, **fields: object) -> None:
        """Hand on the event's warning, if it has one."""
        if self._note_damaged is not None and event == "line_damaged":
            seq = fields.get("seq")
            self._note_damaged(seq if isinstance(seq, int) else 0)
        elif (message := _warning_of(event, fields)) is not None:
            self._print(message)

    error = warning


@contextmanager
def logs_on_stderr(note_damaged: Callable[[int], None] | None = None) -> Generator[None, None, None]:
    """Print log events to stderr.

    Args:
        note_damaged: Called with the seq of each damaged line, which is then not printed here.
    """
    with logging_to(_Warnings(warn, note_damaged)):
        yield


@contextmanager
def logs_held_back() -> Generator[None, None, None]:
    """Hold log events back while the alternate screen is shown, then print each distinct one once."""
    held: dict[str, None] = {}
    try:
        with logging_to(_Warnings(held.setdefault)):
            yield
    finally:
        for message in held:
            warn(message)


def _warning_of(name: str, fields: dict[str, object]) -> str | None:
    """Return the warning for an event, or None if there is none."""
    message = sentence_of(name, fields)
    if not _Mode.verbose:
        return message
    details = " ".join([name, *(f"{key}={value}" for key, value in fields.items() if key != "exc_info")])
    return details if message is None else f"{message} [{details}]"


# -- errors


_AS_OPTIONS: tuple[tuple[type[TreeringError], str, str], ...] = (
    (ExportExists, "overwrite=True", "--force"),
    (InvalidInput, "export without a path, and write the bytes there", "leave out -o, and redirect stdout there"),
    (RedactedSession, "without `redact`", "without --redact"),
    (SessionLocked, "open it read-only, or wait until the owner lets go", "close it there, or wait; viewing it works"),
    (ReadOnly, "load it with `read_only=True`, or see to its permissions", "check its permissions"),
    (ReadOnly, "; what exists can be loaded with `read_only=True`", "; viewing works"),
)
"""Advice at the end of the library's error messages, and its equivalent on the command line."""


def advice_on(path: str) -> str | None:
    """Return what a foreign file is and how to import it, or None if its format is unknown."""
    import shlex

    from ..formats.opening import head_of
    from ..formats.programs import formats

    source = Path(path)
    try:
        head = head_of(source)
        format = next((each for each in formats() if each.detects(source, head)), None)
    except (ForeignFormatError, OSError):  # it is gone or unreadable, which has been reported already
        return None
    if format is None or format.is_dialect:
        return None
    return f"it is a session of {format.title}: import it with `treering import {shlex.quote(path)}`"


def sentence(error: TreeringError | OSError) -> str:
    """Return an error as one sentence, with advice for programs replaced by command-line options."""
    if isinstance(error, TreeringError):
        message = str(error)
        for kind, advice, option in _AS_OPTIONS:
            if isinstance(error, kind) and message.endswith(advice):  # earlier, it would be part of a name
                message = message.removesuffix(advice) + option
        if isinstance(error, NotASession) and error.where is not None:
            import_advice = advice_on(error.where.path)
            message += f"; {import_advice}" if import_advice else ""
        return line(message)
    if isinstance(error, FileNotFoundError) and error.filename is None:  # as that of a missing working directory has
        try:
            os.getcwd()
        except FileNotFoundError:
            return "the current directory no longer exists: change to another one"
    what = error.strerror or str(error) or type(error).__name__
    return line(f"{os.fsdecode(error.filename)}: {what}" if isinstance(error.filename, str | bytes) else what)
