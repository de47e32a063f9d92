"""nanocoder's folder of one session, as its design describes it: reading.

    session-<id>/metadata.json      the project, the times, the provider, the title
                 messages.jsonl     one message a line
                 tools.jsonl        one run of a tool a line
                 summaries/*.json   one summary of a range of messages a file

Each run of a tool becomes a record behind the result that it led to; a result that the messages lack is taken from the
run. The summary that the metadata names
becomes a compaction at the place at which it was made; the others are kept as summaries that a context may use again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from ..content import ToolResultPart, ToolUsePart, tool_result
from ..entries import EPOCH, NATIVE_VERSION, Entry, Header, KnownEntry, Message, ModelChange, Provider, SessionInfo
from ..errors import ForeignFormatError, Where
from ..findings import Finding
from .base import ForeignSession
from .chain import Chain
from .json_lines import Line, Notes, document, objects
from .nanocoder_lines import Numbers, Run, Summary, read_message, read_run, read_tokens
from .nanocoder_records import Records
from .values import Object, as_count, as_object, as_text, as_time

NAME = "nanocoder"
METADATA = "metadata.json"
MESSAGES = "messages.jsonl"
TOOLS = "tools.jsonl"
SUMMARIES = "summaries"
PREFIX = "session-"
"""How the names of the folders begin; the session's id follows."""
VERSION = 1
"""The version of the schema."""

_START = b'{"id"'


def read_folder(folder: Path) -> ForeignSession:
    """Read the folder of one session.

    Raises:
        ForeignFormatError: A newer program wrote it, or there are neither metadata nor messages.
    """
    findings: list[Finding] = []
    metadata = _metadata(folder, findings)
    version = as_count(metadata.get("version"))
    if version > VERSION:
        message = f"a newer program wrote this session, in version {version}; this one reads up to {VERSION}"
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
    entries = _Reading(folder, header, metadata, findings).entries()
    return ForeignSession(header=header, entries=entries, findings=findings, restate=restated)


def restated(entry: Entry) -> Iterator[Message]:
    """Yield the messages of nanocoder that an entry becomes; see `Restate`."""
    return filter(None, map(read_message, Records((entry,), lambda _: 0).messages))


def _metadata(folder: Path, findings: list[Finding]) -> Object:
    path = folder / METADATA
    try:
        metadata = document(path)
        if isinstance(metadata, dict):
            return metadata
        reason = "this is no session's metadata"
    except FileNotFoundError:
        reason = "the session has no metadata"
    except ForeignFormatError as error:
        reason = error.message
    if not (folder / MESSAGES).is_file():
        raise ForeignFormatError(f"{reason}, and there are no messages", where=Where(str(path)))
    message = f"{reason}: its title, project and provider are not known"
    findings.append(Finding(str(path), None, None, "damaged", "error", message))
    return {}


def _first_time(path: Path) -> datetime | None:
    if not path.is_file():
        return None
    times = (as_time(line.value.get("timestamp")) for line in objects(path, Notes(path, []), _START))
    return next(filter(None, times), None)


class _Reading:
    """One pass through the files of a session."""

    def __init__(self, folder: Path, header: Header, metadata: Object, findings: list[Finding]) -> None:
        self._folder = folder
        self._metadata = metadata
        self._findings = findings
        self._notes = Notes(folder / MESSAGES, findings)
        self._chain = Chain(NAME, header.id, header.timestamp)
        self._tails: dict[str, str] = {}  # of each message, the last entry that was made of it
        self._last = ""  # the message that was read last
        self._cumulative: dict[str, int] = {}
        self._runs: dict[str, Run] = {}  # by the call
        self._unplaced: dict[str, list[Run]] = {}  # by the message, where the call is not said
        self._open: dict[str, tuple[str, str]] = {}  # calls of the last answer: its entry, the tool's name

    def entries(self) -> Iterator[KnownEntry]:
        """Yield what the files say."""
        yield from self._provider()
        self._read_runs()
        summaries = self._summaries()
        numbers = Numbers(self._notes)
        path, count = self._folder / MESSAGES, 0
        if not path.is_file():
            self._notes.add("damaged", "error", "the session has metadata and no messages")
        for line in objects(path, self._notes, _START) if path.is_file() else ():
            numbers.check(line)
            time = as_time(line.value.get("timestamp"))
            for summary in [each for each in summaries if each.due(time)]:
                summaries.remove(summary)
                yield self._chain.add(summary.payload(), id=summary.id, time=summary.created)
            message = read_message(line.value)
            if message is None:
                self._notes.at(line, "damaged", "error", "a message without a role, or to no call, is left out")
                continue
            count += 1
            yield from self._message(line, message, time, summaries)
        yield from self._answers()
        yield from self._rest(summaries)
        self._check_count(count)

    def _provider(self) -> Iterator[KnownEntry]:
        given = as_object(self._metadata.get("provider"))
        provider, model = as_text(given.get("type")), as_text(given.get("model"))
        if provider and model:
            yield self._chain.add(ModelChange(provider, model))
        status = as_text(self._metadata.get("status")) or None
        who = None
        if provider:
            base_url = as_text(given.get("baseUrl")) or None
            who = Provider(provider, model, as_count(given.get("contextWindow")), base_url)
        if who or status:
            yield self._chain.add(SessionInfo(status=status, provider=who))

    def _read_runs(self) -> None:
        path = self._folder / TOOLS
        if not path.is_file():
            return
        notes = Notes(path, self._findings)
        numbers = Numbers(notes)
        for line in objects(path, notes, _START):
            numbers.check(line)
            run = read_run(line.value)
            if run.record.tool_call_id:
                self._runs[run.record.tool_call_id] = run
            else:
                self._unplaced.setdefault(run.record.message_id or "", []).append(run)

    def _summaries(self) -> list[Summary]:
        found: list[Summary] = []
        folder = self._folder / SUMMARIES
        last_in_force = as_text(as_object(self._metadata.get("context")).get("summaryMessageId"))
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            try:
                found.append(Summary(path.stem, as_object(document(path)), last_in_force))
            except ForeignFormatError as error:
                self._findings.append(Finding(str(path), None, None, "damaged", "error", error.message))
        return sorted(found, key=lambda summary: summary.created or EPOCH)

    def _message(
        self, line: Line, message: Message, time: datetime | None, summaries: list[Summary]
    ) -> Iterator[KnownEntry]:
        if message.role != "tool":
            yield from self._answers()
        original = as_text(line.value.get("id"))
        if original in self._tails:
            self._notes.at(line, "duplicate_id", "warning", f"the id {original!r} is used for another message, too")
        self._go_below(line)
        self._check_tokens(line, original)
        entry = self._chain.add(message, id=original, time=time)
        run = self._run_of(message, entry.id, original)
        if run is not None and not run.record.success:
            result = tool_result(run.record.tool_call_id, run.content, is_error=True)
            entry = replace(entry, **{entry.type: replace(message, content=(result,))})
        for summary in summaries:
            summary.see(original, entry.id)
        yield entry
        if run is not None:
            yield self._chain.add(run.record, id=run.id, time=run.time or time)
        self._last = original
        if original and self._chain.leaf is not None:
            self._tails[original] = self._chain.leaf

    def _go_below(self, line: Line) -> None:
        """Go to the entry below which a line belongs."""
        parent = line.value.get("parentId", self._last)
        if parent == self._last:
            return
        if parent is None:
            if self._tails:
                self._chain.leaf = None
        elif as_text(parent) in self._tails:
            self._chain.leaf = self._tails[as_text(parent)]
        else:
            self._notes.at(
                line, "parent", "warning", f"its parent {parent!r} is not before it: it follows the line before"
            )

    def _check_tokens(self, line: Line, original: str) -> None:
        """Note a running total that is not that of the message above and this message's own."""
        told = read_tokens(line.value)
        if told is None:
            return
        parent = line.value.get("parentId", self._last)
        expected = self._cumulative.get(as_text(parent), 0) + told[0]
        if told[1] != expected:
            self._notes.at(line, "tokens", "note", f"it says {told[1]} tokens so far, where {expected} were counted")
        self._cumulative[original] = told[1]

    def _run_of(self, message: Message, entry_id: str, original: str) -> Run | None:
        """Take the run that a result is of; of an answer, remember its calls and give their ids to its runs."""
        unplaced = self._unplaced.pop(original, [])
        for part in message.content:
            if isinstance(part, ToolUsePart):
                call = part.tool_use
                self._open[call.id] = (entry_id, call.name)
                run = next((each for each in unplaced if each.record.tool_name == call.name), None)
                if run is not None and call.id not in self._runs:
                    unplaced.remove(run)
                    self._runs[call.id] = replace(run, record=replace(run.record, tool_call_id=call.id))
            elif isinstance(part, ToolResultPart):
                call_id = part.tool_result.tool_use_id
                caller, _ = self._open.pop(call_id, (None, ""))
                run = self._runs.pop(call_id, None)
                return None if run is None else self._linked(run, caller)
        if unplaced:
            self._unplaced[original] = unplaced
        return None

    def _linked(self, run: Run, caller: str | None) -> Run:
        return run if caller is None else replace(run, record=replace(run.record, message_id=caller))

    def _answers(self) -> Iterator[KnownEntry]:
        """Yield the results that the messages lack and the runs have."""
        for call_id, (caller, name) in self._open.items():
            run = self._runs.pop(call_id, None)
            if run is not None:
                record = self._linked(run, caller).record
                result = tool_result(call_id, run.content, is_error=not record.success)
                yield self._chain.add(Message("tool", (result,), tool_name=name), time=run.time)
                yield self._chain.add(record, id=run.id)
        self._open.clear()
        if self._last and self._chain.leaf is not None:
            self._tails[self._last] = self._chain.leaf

    def _rest(self, summaries: list[Summary]) -> Iterator[KnownEntry]:
        """Yield the summaries that were made last, and the runs that belong to no message."""
        for summary in summaries:
            if summary.passed:
                yield self._chain.add(summary.payload(), id=summary.id, time=summary.created)
            else:
                self._notes.add(
                    "orphan", "warning", f"summary {summary.id!r} is of messages that are not here: left out"
                )
        for run in (*self._runs.values(), *(run for runs in self._unplaced.values() for run in runs)):
            record = replace(run.record, tool_call_id=run.record.tool_call_id or "unknown")
            self._notes.add("orphan", "warning", f"a run of {record.tool_name} is of no call here: its record is kept")
            yield self._chain.add(record, id=run.id, time=run.time)

    def _check_count(self, count: int) -> None:
        stats = as_object(self._metadata.get("stats"))
        told = stats.get("messageCount", self._metadata.get("messageCount"))
        if told is not None and as_count(told) != count:
            message = f"the metadata tells of {as_count(told)} messages, and {count} are here"
            self._findings.append(Finding(str(self._folder / METADATA), None, None, "count", "warning", message))
