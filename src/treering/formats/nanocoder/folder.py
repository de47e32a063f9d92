"""nanocoder: reading the folder of one session, as its design describes it.

    session-<id>/metadata.json      the project, the times, the provider, the title
                 messages.jsonl     one message per line
                 tools.jsonl        one run of a tool per line
                 summaries/*.json   one summary of a range of messages per file

Each run of a tool becomes a record after the tool result that it produced; if the messages lack the result, it is taken
from the run. The summary that the metadata names becomes a compaction at the point at which it was made; the others are
kept as summaries that a context may reuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from ...events.content import ToolResultPart, ToolUsePart, tool_result
from ...events.entries import (
    EPOCH,
    NATIVE_VERSION,
    Entry,
    Header,
    KnownEntry,
    Message,
    ModelChange,
    Provider,
    SessionInfo,
)
from ...events.errors import ForeignFormatError, Where
from ..base import ForeignSession
from ..chain import Chain
from ..json_lines import Line, Notes, document, objects, unheard
from ..values import Object, as_count, as_object, as_text, as_time
from .lines import (
    Run,
    SeqCheck,
    Summary,
    answered_call,
    note_unread_of_message,
    note_unread_of_run,
    note_unread_of_summary,
    read_message,
    read_run,
    read_tokens,
)
from .records import Records, is_derived_run

NAME = "nanocoder"
METADATA = "metadata.json"
MESSAGES = "messages.jsonl"
TOOLS = "tools.jsonl"
SUMMARIES = "summaries"
PREFIX = "session-"
"""The prefix of a session folder's name; the session's id follows."""
VERSION = 1
"""The version of the schema."""

_START = b'{"id"'


def read_folder(folder: Path) -> ForeignSession:
    """Read the folder of one session.

    Raises:
        ForeignFormatError: A newer program wrote the folder, or it holds neither metadata nor messages.
    """
    notes = Notes(folder / METADATA)
    metadata = _metadata(folder, notes)
    version = as_count(metadata.get("version"))
    if version > VERSION:
        message = f"a newer program wrote this session in version {version}, this program reads up to {VERSION}"
        raise ForeignFormatError(message, where=Where(str(folder / METADATA)))
    project, times = as_object(metadata.get("project")), as_object(metadata.get("timestamps"))
    created = as_time(times.get("createdAt")) or as_time(metadata.get("createdAt"))
    display = as_object(metadata.get("display"))
    header = Header(
        id=as_text(metadata.get("id")) or folder.name.removeprefix(PREFIX),
        version=NATIVE_VERSION,
        timestamp=created or _first_time(folder / MESSAGES) or EPOCH,
        cwd=as_text(project.get("path")) or as_text(metadata.get("projectPath")) or None,
        title=as_text(display.get("title")) or as_text(metadata.get("title")) or None,
    )
    entries = _Reading(folder, header, metadata, notes).entries()
    return ForeignSession(
        header=header, entries=entries, findings=notes.findings, restate=restated, is_implied=is_derived_run
    )


def restated(entry: Entry) -> Iterator[Message]:
    """Yield the nanocoder messages to which an entry is converted; see `Restate`."""
    records = Records((entry,), lambda _: 0)
    for source, line in zip(records.sources, records.messages, strict=True):
        message = read_message(line)
        if message is not None and source.result is not None and source.result.is_error:  # the run of the tool says so
            result = tool_result(source.result.tool_use_id, source.text, is_error=True)
            message = replace(message, content=(result,))
        if message is not None:
            yield message


def _metadata(folder: Path, notes: Notes) -> Object:
    path = folder / METADATA
    try:
        metadata = document(path)
        if isinstance(metadata, dict):
            return metadata
        reason = "this is not session metadata"
    except FileNotFoundError:
        reason = "the session has no metadata"
    except ForeignFormatError as error:
        reason = error.message
    if not (folder / MESSAGES).is_file():
        raise ForeignFormatError(f"{reason}, and there are no messages", where=Where(str(path)))
    notes.add("damaged", "error", f"{reason}: the title, project and provider are unknown")
    return {}


def _first_time(path: Path) -> datetime | None:
    return next(filter(None, (as_time(line.value.get("timestamp")) for line in _lines(path, unheard()))), None)


def _lines(path: Path, notes: Notes) -> Iterator[Line]:
    """Yield the lines of a file; none if it does not exist."""
    return objects(path, notes, _START) if path.is_file() else iter(())


class _Reading:
    """One pass through the files of a session."""

    def __init__(self, folder: Path, header: Header, metadata: Object, notes: Notes) -> None:
        self._folder = folder
        self._metadata = metadata
        self._findings = notes.findings
        self._on_metadata = notes
        self._notes = Notes(folder / MESSAGES, notes.findings)
        self._chain = Chain(NAME, header.id, header.timestamp)
        self._tail_by_message: dict[str, str] = {}  # the last entry made from each message, by message id
        self._last_message = ""  # the id of the message read last
        self._cumulative: dict[str, int] = {}
        self._runs_by_call: dict[str, list[Run]] = {}  # by call id, which may be used again
        self._runs_by_message: dict[str, list[Run]] = {}  # by message id, if the call id is missing
        self._open_calls: dict[str, tuple[str, str]] = {}  # calls without a result: the answer's entry, the tool's name
        self._results_to_come = Counter[str]()  # by call id: results in messages that were not read so far

    def entries(self) -> Iterator[KnownEntry]:
        """Yield the entries that the files hold."""
        yield from self._provider()
        self._read_runs()
        summaries = self._summaries()
        seq_check = SeqCheck(self._notes)
        path, count = self._folder / MESSAGES, 0
        if not path.is_file():
            self._notes.add("damaged", "error", "the session has metadata but no messages")
        self._results_to_come.update(answered_call(line.value) for line in _lines(path, unheard()))
        for line in _lines(path, self._notes):
            seq_check.check(line)
            time = as_time(line.value.get("timestamp"))
            for summary in [each for each in summaries if each.is_due(time)]:
                summaries.remove(summary)
                yield self._chain.add(summary.payload(), id=summary.id, time=summary.created)
            note_unread_of_message(line.value, self._notes, line=line.number, byte=line.byte)
            message = read_message(line.value)
            if message is None:
                self._notes.at(
                    line,
                    "damaged",
                    "error",
                    "the message has no known role, or is a tool result without a call id, so it is left out",
                )
                continue
            count += 1
            yield from self._message(line, message, time, summaries)
        yield from self._missing_results()
        yield from self._remaining(summaries)
        self._check_count(count)
        self._notes.close()

    def _provider(self) -> Iterator[KnownEntry]:
        provider_info = as_object(self._metadata.get("provider"))
        provider, model = as_text(provider_info.get("type")), as_text(provider_info.get("model"))
        if provider and model:
            yield self._chain.add(ModelChange(provider, model))
        status = as_text(self._metadata.get("status")) or None
        session_provider = None
        if provider:
            base_url = as_text(provider_info.get("baseUrl")) or None
            session_provider = Provider(provider, model, as_count(provider_info.get("contextWindow")), base_url)
        if session_provider or status:
            yield self._chain.add(SessionInfo(status=status, provider=session_provider))

    def _read_runs(self) -> None:
        path = self._folder / TOOLS
        notes = Notes(path, self._findings)
        seq_check = SeqCheck(notes)
        for line in _lines(path, notes):
            seq_check.check(line)
            note_unread_of_run(line.value, notes)
            run = read_run(line.value)
            if run.record.tool_call_id:
                self._runs_by_call.setdefault(run.record.tool_call_id, []).append(run)
            else:
                self._runs_by_message.setdefault(run.record.message_id or "", []).append(run)
        notes.close()

    def _summaries(self) -> list[Summary]:
        summaries: list[Summary] = []
        folder = self._folder / SUMMARIES
        end_of_active = as_text(as_object(self._metadata.get("context")).get("summaryMessageId"))
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            try:
                stored = as_object(document(path))
                note_unread_of_summary(stored, self._notes)
                summaries.append(Summary(path.stem, stored, end_of_active))
            except ForeignFormatError as error:
                Notes(path, self._findings).add("damaged", "error", error.message)
        return sorted(summaries, key=lambda summary: summary.created or EPOCH)

    def _message(
        self, line: Line, message: Message, time: datetime | None, summaries: list[Summary]
    ) -> Iterator[KnownEntry]:
        if message.role != "tool":
            yield from self._missing_results()
        source_id = as_text(line.value.get("id"))
        if source_id in self._tail_by_message:
            self._notes.at(line, "duplicate_id", "warning", f"the id {source_id!r} is also used by another message")
        self._move_to_parent(line)
        self._check_tokens(line, source_id)
        entry = self._chain.add(message, id=source_id, time=time)
        run = self._run_of(message, entry.id, source_id)
        if run is not None and not run.record.success:
            own = next((part.tool_result.text for part in message.content if isinstance(part, ToolResultPart)), "")
            result = tool_result(run.record.tool_call_id, own or run.content, is_error=True)
            entry = replace(entry, **{entry.type: replace(message, content=(result,))})
        for summary in summaries:
            summary.note_message(source_id, entry.id)
        yield entry
        if run is not None:
            yield self._chain.add(run.record, id=run.id, time=run.time or time)
        self._last_message = source_id
        if source_id and self._chain.leaf is not None:
            self._tail_by_message[source_id] = self._chain.leaf

    def _move_to_parent(self, line: Line) -> None:
        """Set the leaf to the entry under which a line belongs."""
        parent = line.value.get("parentId", self._last_message)
        if parent == self._last_message:
            return
        if parent is None:
            if self._tail_by_message:
                self._chain.leaf = None
        elif as_text(parent) in self._tail_by_message:
            self._chain.leaf = self._tail_by_message[as_text(parent)]
        else:
            self._notes.at(
                line,
                "parent",
                "warning",
                f"its parent {parent!r} does not precede it, so it is placed under the previous message",
            )

    def _check_tokens(self, line: Line, source_id: str) -> None:
        """Report a running total that is not the parent's total plus this message's own count."""
        tokens = read_tokens(line.value)
        if tokens is None:
            return
        count, total = tokens
        parent = line.value.get("parentId", self._last_message)
        expected = self._cumulative.get(as_text(parent), 0) + count
        if total != expected:
            self._notes.at(line, "tokens", "note", f"the line gives {total} tokens so far, but {expected} were counted")
        self._cumulative[source_id] = total

    def _run_of(self, message: Message, entry_id: str, source_id: str) -> Run | None:
        """Remove and return the run of a tool result; for an answer, note its calls and give their ids to its runs."""
        unplaced = self._runs_by_message.pop(source_id, [])
        for part in message.content:
            if isinstance(part, ToolUsePart):
                call = part.tool_use
                self._open_calls[call.id] = (entry_id, call.name)
                run = next((each for each in unplaced if each.record.tool_name == call.name), None)
                if run is not None and not self._runs_by_call.get(call.id):
                    unplaced.remove(run)
                    self._runs_by_call[call.id] = [replace(run, record=replace(run.record, tool_call_id=call.id))]
            elif isinstance(part, ToolResultPart):
                call_id = part.tool_result.tool_use_id
                self._results_to_come[call_id] -= 1
                caller, _ = self._open_calls.pop(call_id, (None, ""))
                return self._take_run(call_id, caller)
        if unplaced:
            self._runs_by_message[source_id] = unplaced
        return None

    def _take_run(self, call_id: str, caller: str | None) -> Run | None:
        """Remove and return the run of a call: the one that names its answer, or else the first."""
        runs = self._runs_by_call.get(call_id, [])
        if not runs:
            return None
        run = next((each for each in runs if each.record.message_id == caller), runs[0])
        runs.remove(run)
        return run if caller is None else replace(run, record=replace(run.record, message_id=caller))

    def _missing_results(self) -> Iterator[KnownEntry]:
        """Yield the results that are missing from the messages but present in the runs."""
        for call_id in [each for each in self._open_calls if not self._results_to_come[each]]:
            caller, name = self._open_calls.pop(call_id)
            run = self._take_run(call_id, caller)
            if run is not None:
                record = run.record
                result = tool_result(call_id, run.content, is_error=not record.success)
                yield self._chain.add(Message("tool", (result,), tool_name=name), time=run.time)
                yield self._chain.add(record, id=run.id)
        if self._last_message and self._chain.leaf is not None:
            self._tail_by_message[self._last_message] = self._chain.leaf

    def _remaining(self, summaries: list[Summary]) -> Iterator[KnownEntry]:
        """Yield the summaries that were made last, and the runs that belong to no message."""
        for summary in summaries:
            if summary.is_past_range:
                yield self._chain.add(summary.payload(), id=summary.id, time=summary.created)
            else:
                self._notes.add(
                    "orphan", "warning", f"summary {summary.id!r} covers messages that are missing, so it is left out"
                )
        left = (*self._runs_by_call.values(), *self._runs_by_message.values())
        for run in (run for runs in left for run in runs):
            record = replace(run.record, tool_call_id=run.record.tool_call_id or "unknown")
            self._notes.add(
                "orphan",
                "warning",
                f"a run of {record.tool_name} belongs to no call in the messages; its record is kept",
            )
            yield self._chain.add(record, id=run.id, time=run.time)

    def _check_count(self, count: int) -> None:
        stats = as_object(self._metadata.get("stats"))
        recorded_count = stats.get("messageCount", self._metadata.get("messageCount"))
        if recorded_count is not None and as_count(recorded_count) != count:
            message = f"the metadata counts {as_count(recorded_count)} messages, but {count} were found"
            self._on_metadata.add("count", "warning", message)
