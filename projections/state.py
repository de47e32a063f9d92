"""The state of the work: the task, the files touched by tools, the open calls, the plan.

It is derived from the entries by fixed rules and without a model, so the same entries always give the same state. Tools
are recognized by name, ignoring case and punctuation: `write_file`, `WriteFile` and `write-file` are the same. The
effects of a call count once it has succeeded, according to its result or to the record of its execution. The effects of
shell commands on files are not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..events.content import ToolResultPart, ToolUsePart
from ..events.entries import EPOCH, Entry, Header, MessageEntry, ToolExecutionEntry, asked_text
from ..events.json_values import JSON, json_object
from .base import OWN, replay

Action: TypeAlias = Literal["read", "created", "modified", "deleted"]
"""The net effect on a file."""

_READING = frozenset({"read", "readfile", "view", "viewfile", "cat", "openfile", "notebookread", "readmanyfiles"})
_CREATING = frozenset({"create", "createfile", "newfile", "write", "writefile", "writetofile", "savefile"})
_CHANGING = frozenset(
    {
        *("edit", "editfile", "multiedit", "notebookedit", "replace", "replaceinfile", "strreplace", "stringreplace"),
        *("insert", "insertlines", "replacelines", "deletelines", "appendfile", "update"),
    }
)
_DELETING = frozenset({"delete", "deletefile", "remove", "removefile", "rm", "unlink"})
_MOVING = frozenset({"move", "movefile", "rename", "renamefile", "mv"})
_PATCHING = frozenset({"applypatch", "patch"})
_PLANNING = frozenset({"todowrite", "todo", "updateplan", "writetodos", "updatetodos", "todolist"})

_PATH_KEYS = ("path", "file_path", "filePath", "filepath", "file", "filename", "notebook_path", "target_file", "paths")
_SOURCE_KEYS = ("source", "src", "from", "old_path", "oldPath", "source_path")
_TARGET_KEYS = ("destination", "dest", "to", "new_path", "newPath", "destination_path", "target")
_PATCH_KEYS = ("input", "patch", "patchText", "patch_text")
_MOVE_MARK = "*** Move to: "
_PATCH_MARKS: tuple[tuple[str, Action], ...] = (
    ("*** Add File: ", "created"),
    ("*** Update File: ", "modified"),
    ("*** Delete File: ", "deleted"),
    (_MOVE_MARK, "created"),
)
_PLAN_KEYS = ("todos", "plan", "tasks", "items")
_TITLE_KEYS = ("content", "step", "title", "text", "description", "task")
_NO_HEADER = Header(id="", version=1, timestamp=EPOCH)


class FileTouch(Struct, frozen=True):
    """A file, and the net effect on it."""

    path: str
    action: Action


class Task(Struct, frozen=True):
    """A step of the plan, with the status that the model gave it."""

    title: str
    status: str


class PendingCall(Struct, frozen=True):
    """A tool call without a result so far, and its effects in case it succeeds."""

    id: str
    name: str
    entry_id: str
    touches: tuple[FileTouch, ...] = ()
    tasks: tuple[Task, ...] | None = None


class WorkState(Struct, frozen=True):
    """The state of the work.

    Attributes:
        original_task: The text of the first user message that a person wrote.
        files: The touched files, in the order of their first touch. A created file remains "created" when it is
            modified; a file that was only read is listed as "read".
        open_calls: The calls without a result, in the order in which they were made.
        tasks: The plan, as last written.
    """

    original_task: str | None = None
    files: tuple[FileTouch, ...] = ()
    open_calls: tuple[PendingCall, ...] = ()
    tasks: tuple[Task, ...] = ()

    @property
    def modified_files(self) -> tuple[FileTouch, ...]:
        """The files that were created, modified or deleted."""
        return tuple(each for each in self.files if each.action != "read")


class WorkChange(Struct, frozen=True):
    """The change that an entry made: the new net effects on files, opened and closed calls, a new plan."""

    original_task: str | None = None
    files: tuple[FileTouch, ...] = ()
    opened: tuple[PendingCall, ...] = ()
    closed: tuple[str, ...] = ()
    tasks: tuple[Task, ...] | None = None


class WorkProjection:
    """The fold of the state of the work."""

    name = OWN + "state"

    def initial(self, header: Header) -> WorkState:
        """Return the state before any work."""
        return WorkState()

    def apply(self, value: WorkState, entry: Entry) -> tuple[WorkState, WorkChange | None]:
        """Fold an entry; see `Projection.apply`."""
        change = _change(value, entry)
        if change is None:
            return value, None
        return apply_change(value, change), change

    def dump(self, value: WorkState) -> bytes:
        """Return the state as bytes for a checkpoint."""
        return msgspec.json.encode(value)

    def load(self, blob: bytes) -> WorkState:
        """Return the state that was dumped."""
        return msgspec.json.decode(blob, type=WorkState)


def work_of(entries: Iterable[Entry]) -> WorkState:
    """Return the state of the work after the entries."""
    return replay(WorkProjection(), _NO_HEADER, entries)


def apply_change(state: WorkState, change: WorkChange) -> WorkState:
    """Return the state after a change."""
    removed = {*change.closed, *(call.id for call in change.opened)}
    calls = tuple(call for call in state.open_calls if call.id not in removed) if removed else state.open_calls
    return WorkState(
        change.original_task if change.original_task is not None else state.original_task,
        _merged(state.files, change.files),
        calls + change.opened,
        state.tasks if change.tasks is None else change.tasks,
    )


def _change(state: WorkState, entry: Entry) -> WorkChange | None:
    """Return the change that an entry makes, or None."""
    change = WorkChange()
    if isinstance(entry, ToolExecutionEntry):
        if entry.tool_execution.success:
            run = entry.tool_execution
            touches, tasks = _effects(run.tool_name, json_object(run.raw_arguments))
            change = replace(change, files=_changed_touches(state, touches), tasks=tasks)
    elif isinstance(entry, MessageEntry):
        if entry.message.role == "user" and state.original_task is None:
            change = replace(change, original_task=asked_text(entry.message) or None)
        opened, closed, done = _calls(state, entry)
        tasks = next((call.tasks for call in reversed(done) if call.tasks is not None), None)
        touches = tuple(touch for call in done for touch in call.touches)
        change = replace(change, files=_changed_touches(state, touches), opened=opened, closed=closed, tasks=tasks)
    if change.tasks == state.tasks:
        change = replace(change, tasks=None)
    return None if change == WorkChange() else change


def _calls(state: WorkState, entry: MessageEntry) -> tuple[tuple[PendingCall, ...], tuple[str, ...], list[PendingCall]]:
    """Return the calls that a message makes, the ids of the calls that it answers, and the calls that succeeded."""
    opened: list[PendingCall] = []
    closed: list[str] = []
    done: list[PendingCall] = []
    for part in entry.message.content:
        if isinstance(part, ToolUsePart):
            use = part.tool_use
            touches, tasks = _effects(use.name, use.input)
            opened.append(PendingCall(use.id, use.name, entry.id, touches, tasks))
        elif isinstance(part, ToolResultPart):
            result = part.tool_result
            answered = [call for call in state.open_calls if call.id == result.tool_use_id]
            closed.extend(call.id for call in answered)
            if not result.is_error:
                done.extend(answered)
    return tuple(opened), tuple(closed), done


def _changed_touches(state: WorkState, touches: tuple[FileTouch, ...]) -> tuple[FileTouch, ...]:
    """Return the net effects that the touches change."""
    if not touches:
        return ()
    paths = {touch.path for touch in touches}
    before: dict[str, Action] = {each.path: each.action for each in state.files if each.path in paths}
    after = before.copy()
    for touch in touches:
        after[touch.path] = _net_effect(after.get(touch.path), touch.action)
    return tuple(FileTouch(path, action) for path, action in after.items() if before.get(path) != action)


def _merged(files: tuple[FileTouch, ...], changed: tuple[FileTouch, ...]) -> tuple[FileTouch, ...]:
    """Return the files with the changed ones replaced; new ones come last."""
    if not changed:
        return files
    by_path = {each.path: each for each in changed}
    merged = tuple(by_path.pop(each.path, each) for each in files)
    return merged + tuple(by_path.values())


def _net_effect(before: Action | None, action: Action) -> Action:
    """Combine two actions on one file."""
    if before is None or action == "deleted":
        return action
    if action == "read" or before == "created":
        return before
    # Tools that write whole files do not say whether the file existed; a file that was read or modified before did.
    return "created" if before == "deleted" and action == "created" else "modified"


def _effects(name: str, arguments: dict[str, JSON]) -> tuple[tuple[FileTouch, ...], tuple[Task, ...] | None]:
    """Return the file touches of a tool call, and the plan that it writes."""
    tool = "".join(char for char in name.rpartition("__")[2] if char.isalnum()).lower()
    if tool in _PLANNING:
        return (), _tasks(arguments)
    return tuple(_touches(tool, arguments)), None


def _touches(tool: str, arguments: dict[str, JSON]) -> Iterator[FileTouch]:
    if tool in _MOVING:
        yield from (FileTouch(path, "deleted") for path in _strings(arguments, _SOURCE_KEYS))
        yield from (FileTouch(path, "created") for path in _strings(arguments, _TARGET_KEYS))
    elif tool in _PATCHING:
        for patch in _strings(arguments, _PATCH_KEYS):
            yield from _patch_touches(patch)
    else:
        action = _action(tool, arguments)
        if action is not None:
            yield from (FileTouch(path, action) for path in _strings(arguments, _PATH_KEYS))


def _action(tool: str, arguments: dict[str, JSON]) -> Action | None:
    if tool.endswith(("strreplaceeditor", "strreplacebasededittool", "texteditor")):
        # One tool with several commands; after an undo the file still counts as modified.
        match arguments.get("command"):
            case "view":
                return "read"
            case "create":
                return "created"
            case _:
                return "modified"
    known: tuple[tuple[frozenset[str], Action], ...] = (
        (_READING, "read"),
        (_CREATING, "created"),
        (_CHANGING, "modified"),
        (_DELETING, "deleted"),
    )
    return next((action for names, action in known if tool in names), None)


def _patch_touches(patch: str) -> Iterator[FileTouch]:
    """Yield the touches of a patch in the format that begins with `*** Begin Patch`."""
    source = ""
    for line in patch.splitlines():
        mark, action = next((each for each in _PATCH_MARKS if line.startswith(each[0])), ("", None))
        if action is None:
            continue
        path = line.removeprefix(mark).strip()
        if mark == _MOVE_MARK and source:
            yield FileTouch(source, "deleted")
        source = path if action == "modified" else ""
        yield FileTouch(path, action)


def _tasks(arguments: dict[str, JSON]) -> tuple[Task, ...] | None:
    listed = next((value for key in _PLAN_KEYS if isinstance(value := arguments.get(key), list)), None)
    if listed is None:
        return None
    tasks: list[Task] = []
    for each in listed:
        if isinstance(each, dict):
            status = each.get("status")
            titles = _strings(each, _TITLE_KEYS)
            tasks.extend(Task(title, status if isinstance(status, str) else "pending") for title in titles)
    return tuple(tasks)


def _strings(arguments: dict[str, JSON], keys: tuple[str, ...]) -> list[str]:
    """Return the string, or the list of strings, under the first of the keys that has one."""
    for key in keys:
        value = arguments.get(key)
        strings = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str) and each]
        if strings:
            return strings
    return []
