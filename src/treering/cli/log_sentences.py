"""Log events as sentences for people, one for each event that can reach the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SENTENCES = {
    "line_damaged": "{where}: this line is not a JSON object and was skipped",
    "more_lines_damaged": "{count} more damaged lines were skipped: `treering doctor` lists them",
    "log_unreadable": "{ref} cannot be read at the moment: {error}",
    "folder_unreadable": "{path} cannot be listed ({why}), so its contents were skipped",
    "search_index_unavailable": "the search index is not available, so the sessions are read instead: {why}",
    "search_index_damaged": "the search index was damaged and is being rebuilt: {path}",
    "search_index_foreign": "{path} was not a search index of treering and was renamed to {moved_to}",
    "watch_polls": "the system does not report file changes ({error}), so files are polled",
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
    "actor_failed": "session {session_id} was abandoned ({error}): everything acknowledged is in its file",
    "projection_failed": "the view {projection!r} of session {session_id} failed ({error})",
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


def details_of(name: str, fields: Mapping[str, object]) -> str:
    """Return an event with all of its fields, for troubleshooting."""
    return " ".join([name, *(f"{key}={value}" for key, value in fields.items() if key != "exc_info")])
