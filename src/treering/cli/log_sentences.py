"""What the library logs, as people say it: a sentence for each event that can reach the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SENTENCES = {
    "line_damaged": "{where}: this line is no JSON object and was skipped",
    "more_lines_damaged": "{count} more damaged lines were skipped: `treering doctor` tells which",
    "log_unreadable": "{ref} cannot be read just now: {error}",
    "folder_unreadable": "{path} may not be listed ({why}), so what lies in it was left out",
    "search_index_unavailable": "the search index cannot be used, so the sessions themselves are read: {why}",
    "search_index_damaged": "the search index was damaged, and is made anew: {path}",
    "search_index_foreign": "{path} was no search index of treering, and is {moved_to} now",
    "watch_polls": "the system does not tell of changed files ({error}), so they are looked at now and then",
    "watch_failed": "{ref} cannot be followed just now ({error}), which is tried again",
    "replay_waits": "what a journal holds of {ref} cannot be brought back yet: {why}",
    "replay_without_header": "a journal holds lines of {ref}, but not its beginning: `treering doctor` tells more",
    "journal_unknown": "{journal} is no journal that this version reads: it was left as it is",
    "journal_not_dropped": "the journal {journal} cannot be taken away: {error}",
    "checkpoint_failed": "{place} could not be flushed, so the journal keeps what it holds of it: {error}",
    "archive_left": "{path} was left where it is: {why}",
    "background_failed": "the {work} failed and is tried again ({error})",
    "retention_failed": "old sessions could not be archived ({error}): `treering gc` tries it again",
    "passivation_failed": "session {session_id} could not be let go in order ({error})",
    "actor_failed": "session {session_id} had to be given up ({error}): what it acknowledged is in its file",
    "projection_failed": "the view {projection!r} of session {session_id} failed ({error})",
    "checkpoint_ignored": "what was kept of the view {projection!r} is of no use ({error}): it is made anew",
    "checkpoint_not_saved": "the view {projection!r} could not be kept ({error}): it is made anew the next time",
    "not_summarized": "an answer that failed was left without a summary of it ({error})",
    "tool_cancelled": "the tool {tool!r} was cancelled before it answered",
    "tool_failed": "the tool {tool!r} failed ({error})",
    "tool_timed_out": "the tool {tool!r} gave no answer within {timeout_s} seconds",
}
_TOLD_ELSEWHERE = frozenset({"not_compacted"})  # by the chat itself, which gets it as an event
_NUMBERED = re.compile(r"\[Errno -?\d+\] ")


def sentence_of(name: str, fields: Mapping[str, object]) -> str | None:
    """Return an event as a sentence; None where somebody else tells it.

    Args:
        name: The event.
        fields: What was logged with it.
    """
    if name in _TOLD_ELSEWHERE:
        return None
    known = {key: _NUMBERED.sub("", value) if isinstance(value, str) else value for key, value in fields.items()}
    known.setdefault("place", known.get("ref", known.get("folder", "a session")))
    try:
        return _SENTENCES[name].format_map(known)
    except KeyError:  # an event of a newer library, or one that says less
        of = f" (session {known['session_id']})" if "session_id" in known else ""
        return f"{name.replace('_', ' ')}{of}; `treering --verbose` tells more"


def details_of(name: str, fields: Mapping[str, object]) -> str:
    """Return all that was logged, for whoever looks for a fault."""
    return " ".join([name, *(f"{key}={value}" for key, value in fields.items() if key != "exc_info")])
