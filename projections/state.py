"""The state of the work: the task, the files that tools touched, the calls that are open, the plan.

All of it is read off the entries, by fixed rules and without a model, so the same entries always give the same state. A
tool is known by its name, whatever its case and punctuation: `write_file`, `WriteFile` and `write-file` are one. What a
call is going to do counts once it succeeded, by its result or by the record of its run. What a shell command does to
files is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..events.content import JSON, ToolResultPart, ToolUsePart, json_object, plain_text
from ..events.entries import EPOCH, Entry, Header, MessageEntry, ToolExecutionEntry
from .base import OWN, replay

Action: TypeAlias = Literal["read", "created", "modified", "deleted"]
"""What was done to a file, on balance."""

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
_PATCH_MARKS: tuple[tuple[str, Action], ...] = (
    ("*** Add File: ", "created"),
    ("*** Update File: ", "modified"),
    ("*** Delete File: ", "deleted"),
    ("*** Move to: ", "created"),
)
_PLAN_KEYS = ("todos", "plan", "tasks", "items")
_TITLE_KEYS = ("content", "step", "title", "text", "description", "task")
_NO_HEADER = Header(id="", version=1, timestamp=EPOCH)


class FileTouch(Struct, frozen=True):
    """A file, and what was done to it."""

    path: str
    action: Action


class Task(Struct, frozen=True):
    """A step of the plan, and the status that the model gave it."""

    title: str
    status: str


class PendingCall(Struct, frozen=True):
    """A tool call that has no result yet, and what it does if it succeeds."""

    id: str
    name: str
    entry_id: str
    touches: tuple[FileTouch, ...] = ()
    tasks: tuple[Task, ...] | None = None


class WorkState(Struct, frozen=True):
    """How the work stands.

    Attributes:
        original_task: What the first user message says.
        files: The files that were touched, in the order of the first touch. A file that was created stays so when it is
            modified; one that was only read is listed as "read".
        open_calls: The calls without a result, in the order in which they were made.
        tasks: The plan, as it was last written.
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
    """What an entry made of the state of the work: files as they now stand, calls by their ids, a new plan."""

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
        """Take in an entry; see `Projection.apply`."""
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
    """Return the state of the work after some entries."""
    return replay(WorkProjection(), _NO_HEADER, entries)


def apply_change(state: WorkState, change: WorkChange) -> WorkState:
    """Return the state as it is after a change."""
    gone = {*change.closed, *(call.id for call in change.opened)}
    calls = tuple(call for call in state.open_calls if call.id not in gone) if gone else state.open_calls
    return WorkState(
        change.original_task if change.original_task is not None else state.original_task,
        _noted(state.files, change.files),
        calls + change.opened,
        state.tasks if change.tasks is None else change.tasks,
    )


def _change(state: WorkState, entry: Entry) -> WorkChange | None:
    """Return what an entry changes, or None."""
    change = WorkChange()
    if isinstance(entry, ToolExecutionEntry):
        if entry.tool_execution.success:
            run = entry.tool_execution
            touches, tasks = _effects(run.tool_name, json_object(run.raw_arguments))
            change = replace(change, files=_standing(state, touches), tasks=tasks)
    elif isinstance(entry, MessageEntry):
        if entry.message.role == "user" and state.original_task is None:
            change = replace(change, original_task=plain_text(entry.message.content) or None)
        opened, closed, done = _calls(state, entry)
        tasks = next((call.tasks for call in reversed(done) if call.tasks is not None), None)
        touches = tuple(touch for call in done for touch in call.touches)
        change = replace(change, files=_standing(state, touches), opened=opened, closed=closed, tasks=tasks)
    if change.tasks == state.tasks:
        change = replace(change, tasks=None)
    return None if change == WorkChange() else change


def _calls(state: WorkState, entry: MessageEntry) -> tuple[tuple[PendingCall, ...], tuple[str, ...], list[PendingCall]]:
    """Return the calls that a message makes, the ids of those that it answers, and those that succeeded."""
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


def _standing(state: WorkState, touches: tuple[FileTouch, ...]) -> tuple[FileTouch, ...]:
    """Return how the touched files stand after the touches, where that is news."""
    if not touches:
        return ()
    paths = {touch.path for touch in touches}
    before: dict[str, Action] = {each.path: each.action for each in state.files if each.path in paths}
    after = before.copy()
    for touch in touches:
        after[touch.path] = _balance(after.get(touch.path), touch.action)
    return tuple(FileTouch(path, action) for path, action in after.items() if before.get(path) != action)


def _noted(files: tuple[FileTouch, ...], news: tuple[FileTouch, ...]) -> tuple[FileTouch, ...]:
    """Return the files with how some of them stand now; those that are new come last."""
    if not news:
        return files
    changed = {each.path: each for each in news}
    kept = tuple(changed.pop(each.path, each) for each in files)
    return kept + tuple(changed.values())


def _balance(before: Action | None, action: Action) -> Action:
    """Put two actions on one file together."""
    if before is None or action == "deleted":
        return action
    if action == "read" or before == "created":
        return before
    # Tools that write whole files do not say whether the file was there; one that was read or changed was.
    return "created" if before == "deleted" and action == "created" else "modified"


def _effects(name: str, arguments: dict[str, JSON]) -> tuple[tuple[FileTouch, ...], tuple[Task, ...] | None]:
    """Return what a call of a tool does to files, and the plan that it writes."""
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
            yield from _patched(patch)
    else:
        action = _action(tool, arguments)
        if action is not None:
            yield from (FileTouch(path, action) for path in _strings(arguments, _PATH_KEYS))


def _action(tool: str, arguments: dict[str, JSON]) -> Action | None:
    if tool.endswith(("strreplaceeditor", "strreplacebasededittool", "texteditor")):
        # One tool with a command; undoing an edit leaves the file modified as far as anyone can tell.
        command = arguments.get("command")
        return "read" if command == "view" else "created" if command == "create" else "modified"
    known: tuple[tuple[frozenset[str], Action], ...] = (
        (_READING, "read"),
        (_CREATING, "created"),
        (_CHANGING, "modified"),
        (_DELETING, "deleted"),
    )
    return next((action for names, action in known if tool in names), None)


def _patched(patch: str) -> Iterator[FileTouch]:
    """Read the files off a patch in the form that begins with `*** Begin Patch`."""
    source = ""
    for line in patch.splitlines():
        for mark, action in _PATCH_MARKS:
            if line.startswith(mark):
                path = line.removeprefix(mark).strip()
                if mark == "*** Move to: " and source:
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
        found = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str) and each]
        if found:
            return found
    return []
