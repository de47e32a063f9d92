"""The state of the work in words, for a model that has seen nothing else of a session.

It is derived from the entries of a path by fixed rules and without a model:

- The task is the text of the first user message.
- Files are those that tools created, modified or deleted (`projections.state`).
- The status consists of the plan, the calls that are open at the end, and the beginning of the last answer.
- Blockers are blocked steps of the plan, and tools whose last execution on the same target failed.
- Decisions are lines of the conversation marked as such: "Decision: ...", "We decided to ...".

It is a fold: a path that has grown is continued where it was left (`Work.add`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from ...events.content import ToolResultPart, ToolUsePart, plain_text
from ...events.entries import EPOCH, Entry, Message, MessageEntry
from ..context import ContextMessage, message_of
from ..state import FileTouch, WorkProjection, WorkState
from .budget import INTERRUPTED
from .pairing import Unanswered

STATUS_CHARS = 300
"""The maximum length of the last answer in the status."""

LINE_CHARS = 200
"""The maximum length of a decision or a blocker."""

LISTED = 20
"""The maximum number of decisions and of blockers; the last ones are listed."""

CALLS_KEPT = 1_000
"""The number of the last calls of which a result is still told by tool and target."""

_DECISION = re.compile(
    r"^[ \t>*#-]*(?:(?:key |design |final )?decision(?: made)?\**\s*:\**\s*(?P<labelled>\S.*)"
    r"|(?P<sentence>(?:we(?:'ve| have)? |i(?:'ve| have)? )?(?:decided|agreed|settled|opted) (?:to|on|for|that) \S.*))$",
    re.IGNORECASE | re.MULTILINE,
)
_PROJECTION = WorkProjection()
_NO_WORK = WorkState()
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


class Work:
    """The work on a path so far, entry by entry."""

    __slots__ = ("_answer", "_calls", "_decisions", "_failed", "_unanswered", "_work")

    def __init__(self) -> None:
        self._work = _NO_WORK
        self._unanswered = Unanswered()
        self._answer = ""
        self._calls: dict[str, tuple[str, str]] = {}  # the tool and its target, by call
        self._failed: dict[tuple[str, str], str] = {}
        self._decisions: dict[str, None] = {}

    def add(self, entry: Entry) -> None:
        """Fold the next entry of the path."""
        self._work, _ = _PROJECTION.apply(self._work, entry)
        message = message_of(entry)
        if message is not None:
            self._unanswered.add(message)
        if isinstance(entry, MessageEntry):
            self._note_results(entry.message)
            if entry.message.role in ("user", "assistant"):
                self._note_words(entry.message)

    def state(self, project_path: str = "") -> SessionState:
        """Return the state of the work as far as it was added.

        Args:
            project_path: The directory of the project.
        """
        work = self._work
        blocked = [f"{task.title} (blocked)" for task in work.tasks if task.status == "blocked"]
        return SessionState(
            project_path,
            work.original_task or "",
            work.modified_files,
            self._status(),
            (*blocked, *self._failed.values())[-LISTED:],
            tuple(self._decisions)[-LISTED:],
        )

    def _status(self) -> str:
        sentences: list[str] = []
        tasks = self._work.tasks
        if tasks:
            done = sum(task.status in ("completed", "done") for task in tasks)
            sentences.append(f"{done} of {len(tasks)} planned steps are done.")
            sentences += [f"In progress: {task.title}." for task in tasks if task.status == "in_progress"]
        # The calls of an interrupted answer are never executed, so they do not count.
        open_calls = Counter(
            call.name for _, message, call in self._unanswered.calls if message.stop_reason not in INTERRUPTED
        )
        if open_calls:
            names = (name if count == 1 else f"{count} x {name}" for name, count in open_calls.items())
            sentences.append(f"Waiting for {', '.join(names)}.")
        if self._answer:
            sentences.append("Last answer: " + shortened(self._answer, STATUS_CHARS))
        return " ".join(sentences) or "Just started"

    def _note_results(self, message: Message) -> None:
        """Note the last failure of each tool on each target, unless it succeeded since."""
        for part in message.content:
            if isinstance(part, ToolUsePart):
                arguments = part.tool_use.input
                target = next((each for key in _TARGETS if isinstance(each := arguments.get(key), str)), "")
                self._calls[part.tool_use.id] = (part.tool_use.name, target)
                if len(self._calls) > CALLS_KEPT:
                    del self._calls[next(iter(self._calls))]
            elif isinstance(part, ToolResultPart):
                result = part.tool_result
                call = self._calls.get(result.tool_use_id, (message.tool_name or "a tool", ""))
                self._failed.pop(call, None)
                if result.is_error:
                    name = " ".join(filter(None, call))
                    self._failed[call] = shortened(f"{name} failed: {result.text or 'no reason given'}", LINE_CHARS)

    def _note_words(self, message: Message) -> None:
        words = plain_text(message.content)
        for match in _DECISION.finditer(words):
            self._decisions[shortened((match["labelled"] or match["sentence"]).strip(" *"), LINE_CHARS)] = None
        if message.role == "assistant":
            self._answer = words.strip() or self._answer


def extract_session_state(entries: Iterable[Entry], *, project_path: str = "") -> SessionState:
    """Derive the state of the work from the entries of a path.

    Args:
        entries: The entries, oldest first.
        project_path: The directory of the project.
    """
    work = Work()
    for entry in entries:
        work.add(entry)
    return work.state(project_path)


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
