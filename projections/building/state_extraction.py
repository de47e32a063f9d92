"""The state of the work in words, derived from the entries by fixed rules and without a model.

- The task is the text of the first user message.
- Files are those that tools created, modified or deleted (`projections.state`).
- The status consists of the plan, the calls that are open at the end, and the beginning of the last answer.
- Blockers are blocked steps of the plan, and tools whose last execution on the same target failed.
- Decisions are lines of the conversation marked as such: "Decision: ...", "We decided to ...".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...events.content import ToolResultPart, ToolUsePart, plain_text
from ...events.entries import EPOCH, Entry, MessageEntry
from ..context import ContextMessage, message_of
from ..state import FileTouch, WorkState, work_of
from .budget import INTERRUPTED
from .pairing import unanswered

STATUS_CHARS = 300
"""The maximum length of the last answer in the status."""

LINE_CHARS = 200
"""The maximum length of a decision or a blocker."""

LISTED = 20
"""The maximum number of decisions and of blockers; the last ones are listed."""

_DECISION = re.compile(
    r"^[ \t>*#-]*(?:(?:key |design |final )?decision(?: made)?\**\s*:\**\s*(?P<labelled>\S.*)"
    r"|(?P<sentence>(?:we(?:'ve| have)? |i(?:'ve| have)? )?(?:decided|agreed|settled|opted) (?:to|on|for|that) \S.*))$",
    re.IGNORECASE | re.MULTILINE,
)
_TARGETS = ("path", "file_path", "filePath", "file", "filename", "url")


class SessionState(Struct, frozen=True):
    """The state of a session's work.

    Attributes:
        project_path: The directory of the project.
        original_task: The text of the first user message that a person wrote.
        modified_files: The files that were created, modified or deleted.
        current_status: What is done and what is in progress.
        blockers: The blocked steps and the failures.
        key_decisions: The decisions.
    """

    project_path: str
    original_task: str
    modified_files: tuple[FileTouch, ...]
    current_status: str
    blockers: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()


def extract_session_state(entries: Sequence[Entry], *, project_path: str = "") -> SessionState:
    """Derive the state of the work from the entries of a path.

    Args:
        entries: The entries, oldest first.
        project_path: The directory of the project.
    """
    work = work_of(entries)
    blocked = [f"{task.title} (blocked)" for task in work.tasks if task.status == "blocked"]
    return SessionState(
        project_path,
        work.original_task or "",
        work.modified_files,
        _status(work, entries),
        (*blocked, *_failures(entries))[-LISTED:],
        tuple(dict.fromkeys(_decisions(entries)))[-LISTED:],
    )


def as_entries(messages: Iterable[ContextMessage]) -> list[Entry]:
    """Return messages as entries, for use when the entries of the path are not available."""
    return [
        MessageEntry(id=each.entry_id or "-", parent_id=None, timestamp=EPOCH, message=each.message)
        for each in messages
    ]


def format_state_context(state: SessionState) -> str:
    """Return the state of the work as text for a model."""
    files = "\n".join(f"- {each.path} ({each.action})" for each in state.modified_files) or "- None yet"
    decisions = "".join(f"\n- {each}" for each in state.key_decisions)
    blockers = "".join(f"\n- {each}" for each in state.blockers)
    return "\n\n".join(
        [
            "You are continuing a coding session.",
            f"PROJECT: {state.project_path}",
            f"ORIGINAL TASK: {state.original_task}",
            f"FILES MODIFIED THIS SESSION:\n{files}",
            f"CURRENT STATUS: {state.current_status}",
            f"KEY DECISIONS MADE:{decisions}" if decisions else "",
            f"CURRENT BLOCKERS:{blockers}" if blockers else "",
            "Continue assisting with the user's request below.",
        ]
    )


def shortened(value: str, chars: int) -> str:
    """Return a text on one line, cut to a number of characters."""
    line = " ".join(value.split())
    return line if len(line) <= chars else line[: max(0, chars - 3)] + "..."


def _status(work: WorkState, entries: Sequence[Entry]) -> str:
    sentences: list[str] = []
    if work.tasks:
        done = sum(task.status in ("completed", "done") for task in work.tasks)
        sentences.append(f"{done} of {len(work.tasks)} planned steps are done.")
        sentences += [f"In progress: {task.title}." for task in work.tasks if task.status == "in_progress"]
    open_calls = Counter(_open_calls(entries))
    if open_calls:
        names = (name if count == 1 else f"{count} x {name}" for name, count in open_calls.items())
        sentences.append(f"Waiting for {', '.join(names)}.")
    answer = next(
        (
            content
            for entry in reversed(entries)
            if isinstance(entry, MessageEntry) and entry.message.role == "assistant"
            if (content := plain_text(entry.message.content).strip())
        ),
        "",
    )
    if answer:
        sentences.append("Last answer: " + shortened(answer, STATUS_CHARS))
    return " ".join(sentences) or "Just started"


def _open_calls(entries: Sequence[Entry]) -> Iterable[str]:
    """Yield the names of the calls that may still be answered: those at the end of the path.

    The calls of an interrupted answer are never executed, so they do not count.
    """
    messages = [message for entry in entries if (message := message_of(entry)) is not None]
    for position, call in unanswered(messages):
        if messages[position].stop_reason not in INTERRUPTED:
            yield call.name


def _failures(entries: Sequence[Entry]) -> list[str]:
    """Return the last failure of each tool on each target, unless it succeeded since."""
    calls: dict[str, tuple[str, str]] = {}
    failed: dict[tuple[str, str], str] = {}
    for entry in entries:
        if not isinstance(entry, MessageEntry):
            continue
        for part in entry.message.content:
            if isinstance(part, ToolUsePart):
                arguments = part.tool_use.input
                target = next((each for key in _TARGETS if isinstance(each := arguments.get(key), str)), "")
                calls[part.tool_use.id] = (part.tool_use.name, target)
            elif isinstance(part, ToolResultPart):
                result = part.tool_result
                call = calls.get(result.tool_use_id, (entry.message.tool_name or "a tool", ""))
                failed.pop(call, None)
                if result.is_error:
                    name = " ".join(filter(None, call))
                    failed[call] = shortened(f"{name} failed: {result.text or 'no reason given'}", LINE_CHARS)
    return list(failed.values())


def _decisions(entries: Sequence[Entry]) -> Iterable[str]:
    for entry in entries:
        if isinstance(entry, MessageEntry) and entry.message.role in ("user", "assistant"):
            for match in _DECISION.finditer(plain_text(entry.message.content)):
                yield shortened((match["labelled"] or match["sentence"]).strip(" *"), LINE_CHARS)
