"""The state of the work in words, read off the entries by fixed rules and without a model.

- The task is what the first user message says.
- Files are those that tools created, modified or deleted (`projections.state`).
- The status is what the plan says, the calls that are open at the end, and the beginning of the last answer.
- Blockers are steps of the plan that are blocked, and tools whose last run on the same target failed.
- Decisions are lines of the conversation that say that they are one: "Decision: ...", "We decided to ...".
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
from .measured import BROKEN_OFF
from .pairing import unanswered

STATUS_CHARS = 300
"""How much of the last answer the status tells."""

LINE_CHARS = 200
"""How long a decision or a blocker may be."""

LISTED = 20
"""How many decisions and blockers are listed at most: the last ones."""

_DECISION = re.compile(
    r"^[ \t>*#-]*(?:(?:key |design |final )?decision(?: made)?\**\s*:\**\s*(?P<said>\S.*)"
    r"|(?P<told>(?:we(?:'ve| have)? |i(?:'ve| have)? )?(?:decided|agreed|settled|opted) (?:to|on|for|that) \S.*))$",
    re.IGNORECASE | re.MULTILINE,
)
_TARGETS = ("path", "file_path", "filePath", "file", "filename", "url")


class SessionState(Struct, frozen=True):
    """How the work of a session stands.

    Attributes:
        project_path: The directory that it works in.
        original_task: What the first user message asked for.
        modified_files: The files that were created, modified or deleted.
        current_status: What is done and what is going on.
        blockers: What stands in the way.
        key_decisions: What was decided.
    """

    project_path: str
    original_task: str
    modified_files: tuple[FileTouch, ...]
    current_status: str
    blockers: tuple[str, ...] = ()
    key_decisions: tuple[str, ...] = ()


def extract_session_state(entries: Sequence[Entry], *, project_path: str = "") -> SessionState:
    """Read the state of the work off the entries of a path.

    Args:
        entries: The entries, oldest first.
        project_path: The directory that the session works in.
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
    """Take messages for entries, where the entries of the path are not at hand."""
    return [
        MessageEntry(id=each.entry_id or "-", parent_id=None, timestamp=EPOCH, message=each.message)
        for each in messages
    ]


def format_state_context(state: SessionState) -> str:
    """Tell a model of the state of the work."""
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
    told: list[str] = []
    if work.tasks:
        done = sum(task.status in ("completed", "done") for task in work.tasks)
        told.append(f"{done} of {len(work.tasks)} planned steps are done.")
        told += [f"In progress: {task.title}." for task in work.tasks if task.status == "in_progress"]
    waiting = Counter(_open_calls(entries))
    if waiting:
        shown = (name if count == 1 else f"{count} x {name}" for name, count in waiting.items())
        told.append(f"Waiting for {', '.join(shown)}.")
    answer = next(
        (
            said
            for entry in reversed(entries)
            if isinstance(entry, MessageEntry) and entry.message.role == "assistant"
            if (said := plain_text(entry.message.content).strip())
        ),
        "",
    )
    if answer:
        told.append("Last answer: " + shortened(answer, STATUS_CHARS))
    return " ".join(told) or "Just started"


def _open_calls(entries: Sequence[Entry]) -> Iterable[str]:
    """Return the names of the calls that may still be answered, which is so at the end of the path alone.

    What was broken off in the middle is no call that anybody carries out.
    """
    messages = [message for entry in entries if (message := message_of(entry)) is not None]
    for position, call in unanswered(messages):
        if messages[position].stop_reason not in BROKEN_OFF:
            yield call.name


def _failures(entries: Sequence[Entry]) -> list[str]:
    """Return what failed last on each target, and was not done since."""
    calls: dict[str, tuple[str, str]] = {}
    failed: dict[tuple[str, str], str] = {}
    for entry in entries:
        if not isinstance(entry, MessageEntry):
            continue
        for part in entry.message.content:
            if isinstance(part, ToolUsePart):
                given = part.tool_use.input
                target = next((each for key in _TARGETS if isinstance(each := given.get(key), str)), "")
                calls[part.tool_use.id] = (part.tool_use.name, target)
            elif isinstance(part, ToolResultPart):
                result = part.tool_result
                call = calls.get(result.tool_use_id, (entry.message.tool_name or "a tool", ""))
                failed.pop(call, None)
                if result.is_error:
                    what = " ".join(filter(None, call))
                    failed[call] = shortened(f"{what} failed: {result.text or 'no reason given'}", LINE_CHARS)
    return list(failed.values())


def _decisions(entries: Sequence[Entry]) -> Iterable[str]:
    for entry in entries:
        if isinstance(entry, MessageEntry) and entry.message.role in ("user", "assistant"):
            for found in _DECISION.finditer(plain_text(entry.message.content)):
                yield shortened((found["said"] or found["told"]).strip(" *"), LINE_CHARS)
