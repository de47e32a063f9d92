"""The strategy that sends only the state of the work and the last user message.

The state is given in words. It is derived from the entries by fixed rules and without a model:

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
from msgspec.structs import replace

from ...events.content import ToolResultPart, ToolUsePart, plain_text, text
from ...events.entries import EPOCH, Entry, Message, MessageEntry
from ...events.errors import ContextOverflow
from ..context import ContextMessage, message_of
from ..state import FileTouch, WorkState, work_of
from ..tokens import Tokenizer, context_tokens
from .budget import INTERRUPTED
from .pairing import unanswered
from .strategy import ContextSource, StrategyResult

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


_STEPS = ((100, 4000), (40, 1000), (15, 400), (5, 150))
"""Smaller and smaller limits on the lines of a list and the characters of task and status, tried until one fits."""


class MinimalState:
    """Send the state of the work and the last user message."""

    name = "minimal-state"
    priority = 4
    min_tokens = 400

    def build(self, source: ContextSource, budget_tokens: int, tokenizer: Tokenizer) -> StrategyResult:
        """Return the state and the last user message; see `ContextStrategy.build`.

        A state that does not fit is given in less and less detail.

        Raises:
            ContextOverflow: Not even the shortest state fits beside the last user message.
        """
        state = extract_session_state(source.entries or as_entries(source.messages), project_path=source.project_path)
        opening, request = source.messages[: source.opening], last_request(source)
        for candidate in (state, *(_reduced(state, *step) for step in _STEPS)):
            state_message = ContextMessage("", Message("system", (text(format_state_context(candidate)),)))
            messages = (*opening, state_message, request)
            if context_tokens(messages, tokenizer) <= budget_tokens:
                return result_of(source, messages)
        raise ContextOverflow(f"the state of the work and the last user message do not fit into {budget_tokens} tokens")


def last_request(source: ContextSource) -> ContextMessage:
    """Return the last user message without tool results; an empty one if there is none."""
    if source.request < 0:
        return ContextMessage("", Message("user", (text(""),)))
    request = source.messages[source.request]
    content = tuple(part for part in request.content if not isinstance(part, ToolResultPart))
    if len(content) == len(request.content):
        return request
    return ContextMessage(request.entry_id, replace(request.message, content=content))


def result_of(source: ContextSource, messages: tuple[ContextMessage, ...]) -> StrategyResult:
    """Return a result with these messages, in which the state represents all others."""
    included = source.originals(messages)
    return StrategyResult(messages, included, source.originals(source.messages) - included)


def _reduced(state: SessionState, lines: int, chars: int) -> SessionState:
    return replace(
        state,
        original_task=shortened(state.original_task, chars),
        current_status=shortened(state.current_status, chars),
        modified_files=state.modified_files[-lines:],
        blockers=state.blockers[-lines:],
        key_decisions=state.key_decisions[-lines:],
    )
