"""Generates docs/api.md, the library on one page, from the docstrings of its members and the texts below.

python docs/api_page.py > docs/api.md
"""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator

from msgspec import Struct

import treering
from treering import (
    AgentSession,
    EntrySubscription,
    FileStore,
    KeyedSessions,
    MemoryStore,
    Session,
    SessionHost,
    Store,
    SyncHost,
    SyncKeyedSessions,
    SyncSession,
    TransientSubscription,
    TreeringError,
)
from treering.actors.host.host import Starting
from treering.events.entries import EntryBase, OpaqueEntry

NOT_FOR_PROGRAMS: dict[type, set[str]] = {
    SessionHost: {"core"},
    Session: {"log"},
    EntrySubscription: {"cursor_before"},
    TransientSubscription: {"cursor_before"},
}
"""Members for internal use by other layers, as their docstrings say."""

COUNTERPARTS: set[type] = {SyncHost, SyncSession, SyncKeyedSessions}
"""Classes that have the methods of others, which the page lists."""

ITERATED = {
    "follow_requests": "async with",
    "search": "async for",
    "stream": "async with",
    "stream_resume": "async with",
    "stream_retry": "async with",
    "subscribe": "async with",
    "subscribe_sessions": "async with",
}
"""Members that return an object at once, for use with `async with` or `async for`."""

ATTRIBUTES = {
    "host": "The host of the conversations.",
    "id": "The session's id, as in its header.",
    "ref": "The name of its log in the store.",
}
"""Descriptions of attributes that have no docstring."""


ALIASES = {
    "AgentEvent": "Any event of a turn.",
    "Content": "Any part of a message.",
    "ContentLike": "What functions that take content accept: a string, a part, or a sequence of both.",
    "Durability": 'The durabilities of a host: "os", "file" or "group".',
    "Entry": "Any entry.",
    "ExportFormat": "The names of the formats of `export`.",
    "LeavePolicy": "An async function of `LeftWork` that returns whether to make a summary of it.",
    "ModelEvent": "What a model yields while it answers: `TextDelta`, `ThinkingDelta`, `ToolCallStarted`, `Completed`.",
    "Payload": "What `append` takes: the content of an entry of any type.",
    "SessionLike": "What names a session: a handle, a row of the listing, an id, a name, or a path.",
    "Summarizer": "An async function of `SummaryRequest` that returns a text, or messages, whose usage counts too.",
    "SyncSessionLike": "What names a session for a `SyncHost`: a handle, a row, an id, a name, or a path.",
    "TreeChange": "What a subscription to a tree yields as changes: `NodeAdded`, `LabelChanged` or `LeafChanged`.",
    "__version__": "The version of the library.",
}
"""Descriptions of names that cannot have a docstring."""


class Part(Struct, frozen=True):
    """Members of a class with a common purpose, and a text about them."""

    title: str
    names: str
    text: str = ""


class Section(Struct, frozen=True):
    """A class, with its members in parts."""

    of: type
    text: str
    parts: tuple[Part, ...]


INTRODUCTION = """\
# The library on one page

This page is generated from the docstrings, by `python docs/api_page.py`. Each name can be imported from
`treering`, and each name that can is here; `help()` shows arguments, results and errors.

**Awaiting.** The index of a session (its leaf, paths, tree, labels, counts, metadata) is in memory and answers at once.
Members that read the content of entries, or write, are awaited. Subscriptions are opened with `async with` and iterated
with `async for`; a search is iterated directly. `SyncHost` is the same host without an event loop: every member below
has a blocking counterpart with the same name and arguments in `SyncHost`, `SyncSession` and `SyncKeyedSessions`;
`async for` and `async with` become `for` and `with`. Only `save_every` takes one more, the event that ends it, and
`AgentSession` has no counterpart.

**Blocking.** Short reads, and appends to a disk that answers at once, run on the event loop, since a thread would take
longer; everything else runs in threads ([durability.md](durability.md) says how to choose). Folds (`stats`, `view`),
including your own projections, run on the loop, at most one megabyte of lines at a time, which takes some ten
milliseconds.

**Ownership.** Returned values are frozen or belong to the caller: changing them changes nothing that is stored.
"""

SECTIONS = (
    Section(
        SessionHost,
        "The owner of all sessions under a root: `async with SessionHost(root) as host`. `root` is any directory; "
        "`default_root()` "
        "is the one that the command uses, and without a root everything is in memory. A host reads no settings "
        "file by itself: "
        'pass `settings=Settings.load("config.toml")`.',
        (
            Part(
                "Opening and closing without a block",
                "start aclose",
                """\
A host belongs to its event loop, not to a task: where `async with` does not fit (a notebook, the lifespan of an
application, a fixture), any task may open it, and any other close it. If none does, nothing is lost: the host closes
itself when the loop ends, and a `ResourceWarning` names it. `SyncHost` has no such calls.
""",
            ),
            Part(
                "Getting a session",
                "create open load get_or_create find_by_key find_recent continue_recent",
                """\
| you have | it must exist: otherwise an error or None | it is created if necessary |
|---|---|---|
| an exact id | `load` (`SessionNotFound`) | `open` |
| a unique prefix of an id, a name, "last", a path | `load` (`SessionNotFound`, `AmbiguousSession`) | |
| your own key, such as "telegram:1" | `find_by_key` (None) | `get_or_create` |
| a directory, or nothing | `find_recent` (None) | `continue_recent` |
| nothing, and you want a new one | | `create`; an id or key that is taken raises `SessionExists` |
""",
            ),
            Part(
                "Rows of the listing",
                "list_sessions get_session resolve subscribe_sessions current_session set_current_session",
                "These open no session, take no lock, and return `SessionSummary` rows. If a text matches no "
                "session, `resolve` "
                "raises, and `get_session` returns None.\n",
            ),
            Part("Searching", "search"),
            Part(
                "Copies and imports",
                "fork_from put import_sessions",
                "`fork_from` makes another session, with a new id; `put` adds one under its own id; "
                "`import_sessions` reads files, also "
                "those of other programs, and keeps their times ([formats.md](formats.md)).\n",
            ),
            Part("Keeping and deleting", "archive unarchive apply_retention delete"),
            Part("Maintenance of the host", "statistics flush passivate_idle"),
        ),
    ),
    Section(
        Session,
        "One conversation, as returned by its host. A handle is small, and you may get another one at any time; all "
        "handles of one "
        "session refer to the same session.",
        (
            Part(
                "Appending",
                "append append_many append_message append_model_change append_thinking_level_change "
                "append_custom_entry "
                "append_custom_message append_context_edit append_usage append_tool_execution save_turn set_label",
                "Each returns the id of its entry, or a list of ids, once the entries are in the file and in every "
                "view. All take "
                "`AppendOptions`: `below`, `aside`, `command_id`, `expected_leaf`, `expected_seq`.\n",
            ),
            Part(
                "Reading messages and entries",
                "messages history all_messages stored_message entry entries iter_entries tool_executions open_calls",
                "`messages()` and `history()` return the same list: the messages of the context, without ids. "
                "`context().messages` is the "
                "same with the id of each entry, `all_messages()` every message ever appended, `entries()` every "
                "entry.\n",
            ),
            Part(
                "Contexts that fit a model",
                "context build_context used_tokens budget find_safe_cut",
                "`context()` returns the whole context, whatever its size; `build_context(budget)` makes it fit.\n",
            ),
            Part(
                "Shortening the context",
                "compact dry_compact append_compaction truncate_history set_history summary_for_range",
                "All of these append; nothing is removed. `compact` finds a cut and gets a summary from a "
                "summarizer, "
                "`append_compaction` takes both as arguments, `truncate_history` keeps a number of messages, with "
                "your summary or "
                "none, and `set_history` starts a new root.\n",
            ),
            Part(
                "Branches",
                "branch reset_leaf branch_with_summary summarize_branch leaf_id path children tree",
                "`branch` moves the leaf and appends nothing; `branch_with_summary` also appends your summary, and "
                "`summarize_branch` "
                "gets one from a summarizer.\n",
            ),
            Part("Labels", "label labels find_by_label"),
            Part(
                "Copies",
                "fork create_branched_session export",
                "`fork` copies all branches, `create_branched_session` one path; both make new sessions with this "
                "one as their parent.\n",
            ),
            Part(
                "Title and metadata",
                "title name set_title append_session_info update_metadata metadata summary set_summary rebind",
                "`set_title` sets only the name. `update_metadata` sets the given ones of name, description and "
                "provider, and merges "
                "`metadata` key by key with the stored object, even if others change it at the same time. "
                "`append_session_info` "
                "appends the entry itself: its `metadata` replaces the whole free object. `name` is what a person "
                "set; `title` "
                "falls back to the title in the file's header, and a row of the listing to the first user message.\n",
            ),
            Part(
                "Statistics",
                "stats total_tokens total_usage event_count message_count created updated",
            ),
            Part(
                "Subscriptions and projections",
                "subscribe view rebuild emit cursor",
                "`view` computes a projection's value once, `subscribe` follows it.\n",
            ),
            Part("After a crash", "recover close_open_calls"),
            Part(
                "The handle",
                "id ref header file_path refresh flush passivate close",
                "Calling these is optional: an append is stored when it returns, and the host closes everything.\n",
            ),
        ),
    ),
    Section(
        KeyedSessions,
        "Conversations by key, for programs that do not need trees: `KeyedSessions(host)`. What concerns one "
        "conversation is also a member of the `Session` that `get_or_create` returns. [keyed.md](keyed.md)",
        (
            Part(
                "Methods",
                "host get_or_create add_message add_full_message history set_history truncate_history summary "
                "set_summary save "
                "save_all save_every keys delete",
            ),
        ),
    ),
    Section(
        AgentSession,
        "A model, its tools and a session: `AgentSession(model, session=session, tools=[...])`. [agents.md](agents.md)",
        (
            Part(
                "Turns",
                "respond stream resume stream_resume retry stream_retry switch",
                "The methods that begin with `stream` do the same, and yield the turn's events while it runs.\n",
            ),
            Part("What was sent", "last_request follow_requests"),
        ),
    ),
)

VALUES = (
    Part(
        "Content",
        "text thinking tool_use tool_result image file_text message plain_text malformed_arguments Content ContentLike "
        "TextPart ThinkingPart ToolUsePart ToolResultPart ImagePart",
        "The parts of a message, and functions that make and read them. The fields of a part are those of "
        "[format.md](format.md): "
        "`part.type`, `part.text.content`, `part.tool_use.input`, `part.tool_result.is_error`.\n",
    ),
    Part(
        "Payloads",
        "Message BashExecution Usage ModelChange ThinkingLevel Label SessionInfo Provider Compaction BranchSummary "
        "Custom CustomMessage ToolExecution UsageRecord ContextEdit Payload AppendOptions",
        "The contents of entries: `session.append(Message(...))`.\n",
    ),
    Part(
        "Entries",
        "Header Entry MessageEntry ModelChangeEntry ThinkingLevelEntry LabelEntry SessionInfoEntry CompactionEntry "
        "BranchSummaryEntry CustomEntry CustomMessageEntry ToolExecutionEntry UsageEntry ContextEditEntry OpaqueEntry",
        "Each entry has `type`, `id`, `parent_id`, `timestamp`, `seq`, `aside`, `command_id` and `batch`, as in "
        "[format.md](format.md), and its payload. `isinstance(entry, MessageEntry)` selects entries of one type, also "
        "for a type checker; `type` is a string, since a file may hold types that treering does not know.\n",
    ),
    Part(
        "What subscriptions yield",
        "EntrySubscription TransientSubscription Reset Transient Cursor ViewSubscription Snapshot Changed Context "
        "ContextMessage ModelRef ContextChange Tree TreeNode TreeChange NodeAdded LabelChanged LeafChanged TreeReplica "
        "LabelChange SessionsSubscription SessionChanged RequestSubscription Search Hit",
        """\
`subscribe()` yields entries, and a `Reset` when the log was replaced. A subscriber that draws only once for many of
them takes all that have arrived. In bursts, `for entry in await entries.receive_many()` costs a third less than
`async for`.

`entries.cursor` is that of the last entry received. A client that comes back with it gets what follows, or a `Reset` if
the log was replaced meanwhile, which a bare seq does not reveal. This is the sending half of a stream of server-sent
events, whose browsers return the last `id` when they reconnect. `str(cursor)` is a text that fits into headers and
URLs as it is, and `Cursor.parse` reads it, or raises `InvalidInput`, for which a server answers 400:

<!-- run: until the host closes -->
```python
import msgspec
from treering import Cursor

last_event_id = ""  # the request's header of this name
cursor = Cursor.parse(last_event_id) if last_event_id else 0
async with session.subscribe(after=cursor) as entries:
    async for entry in entries:
        event = f"id: {entries.cursor}\\ndata: {msgspec.json.encode(entry).decode()}\\n\\n"
```

A subscription to a view yields a `Snapshot`, then a `Changed` for each change; after too many missed changes, another
`Snapshot`. This keeps the messages of a context current, and encodes each step as JSON for the clients of a server.
For a tree, `TreeReplica(step.value)` takes the place of the list, and `replica.apply(step.change)` that of the
assignment to a slice:

<!-- run: until the host closes -->
```python
import msgspec
from treering import Changed, ContextMessage

messages: list[ContextMessage] = []
async with session.subscribe("context") as steps:
    async for step in steps:
        if isinstance(step, Changed):
            change = step.change
            messages[change.start : change.start + change.delete] = change.insert
        else:
            messages = list(step.value.messages)
        line = msgspec.json.encode(step)
```
""",
    ),
    Part(
        "Rows, metadata and figures",
        "SessionSummary SessionMetadata SessionStats StoredMessage UsageTotals ModelUsage UsedTokens HostStatistics "
        "SessionStatistics Latency",
    ),
    Part(
        "Projections",
        "Projection Valued UsageProjection WorkProjection WorkState",
        "Views of your own, for `view` and `subscribe`.\n",
    ),
    Part(
        "Building and shortening contexts",
        "calculate_budget ContextBudget ContextBuilder ContextBuildResult ContextStrategy ContextSource StrategyResult "
        "StrategyFailure safe_start NeededSummary StoredSummary compose Tokenizer MessageTokenizer ByteEstimator "
        "Summarizer summarizer_of SummaryRequest SummarizerOptions CompactionReport BranchReport",
        "[contexts.md](contexts.md), [tokens.md](tokens.md)\n",
    ),
    Part(
        "Arguments and reports of a host",
        "Settings Limits Durability default_root SessionLike SessionKey ImportReport ImportReports Finding LeftOut "
        "Where ExportFormat Redaction RetentionReport Retired Spared Recovery OpenCall TornTail __version__",
    ),
    Part(
        "Of agents",
        "ConversationSession AgentOptions AgentHooks TurnInput LeavePolicy LeftWork tool Tool ToolSpec ToolOutput "
        "Suspend Model ModelRequest ModelEvent TextDelta ThinkingDelta ToolCallStarted Completed Turn TurnStream "
        "AgentEvent Recovered RequestSent MessageEnd ToolExecutionEnd Compacted NotCompacted Retrying TurnEnd "
        "SentContext",
    ),
    Part(
        "Without an event loop",
        "SyncHost SyncSession SyncKeyedSessions SyncSessionLike SyncSubscription SyncEntrySubscription "
        "SyncTransientSubscription SyncSearch",
    ),
)
"""All public names that are not a section, a store or an error, in parts."""

VALUES_TEXT = """\
## Values

What the members take and return, with their fields, properties and methods.
"""

STORES = """\
## Stores

`SessionHost(root)` makes a `FileStore`, `SessionHost()` a `MemoryStore`, and `SessionHost(store=...)` takes any
`Store`. Programs call none of their methods. To write a store, implement `Store`, declare by `capability` what it can
do beyond that, and run `treering.testing.stores.StoreSuite` on it.
[examples/sqlite_store.py](../examples/sqlite_store.py) shows how, in 300 lines.

A package offers its store for URLs by an entry point of the group `treering.stores`, whose name is their scheme: with
`sqlite = "my_package:SqliteStore"`, `SessionHost("sqlite:/srv/sessions.db")` uses it.

| store | |
|---|---|
"""

ERRORS = """\
## Errors

All are `TreeringError`, except that a failed read of the operating system raises its own `OSError`. An error says what
happened and what to do. After `InvalidInput`, nothing was written.

| error | is a | |
|---|---|---|
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join(_page())


def public(of: type) -> set[str]:
    """Return the public members of a class."""
    members = {name for name in dir(of) if not name.startswith("_")}
    return members - NOT_FOR_PROGRAMS.get(of, set())


def _page() -> Iterator[str]:
    yield INTRODUCTION
    yield "\n".join((*map(_contents_of, SECTIONS), f"- [Values](#values): {_links(VALUES)}"))
    yield "- [Stores](#stores), [Errors](#errors)\n"
    for section in SECTIONS:
        yield f"## {section.of.__name__}\n\n{section.text}\n"
        for part in section.parts:
            yield f"### {part.title}\n"
            if part.text:
                yield part.text
            yield "| | | |\n|---|---|---|"
            yield from (_row(section.of, name) for name in part.names.split())
            yield ""
    yield VALUES_TEXT
    for part in VALUES:
        yield f"### {part.title}\n"
        if part.text:
            yield part.text
        yield "| | | |\n|---|---|---|"
        yield from map(_value, part.names.split())
        yield ""
    yield (
        STORES
        + "\n".join(f"| `{each.__name__}` | {_summary(each)} |" for each in (FileStore, MemoryStore, Store))
        + "\n"
    )
    yield ERRORS + "\n".join(map(_error, _errors())) + "\n"


def _contents_of(section: Section) -> str:
    name = section.of.__name__
    return f"- [{name}](#{_anchor(name)}): {_links(section.parts)}"


def _links(parts: tuple[Part, ...]) -> str:
    return ", ".join(f"[{part.title}](#{_anchor(part.title)})" for part in parts)


def _anchor(title: str) -> str:
    """Return the anchor of a heading, as GitHub makes it; the headings of this page are distinct."""
    return title.lower().replace(",", "").replace(" ", "-")


def _row(of: type, name: str) -> str:
    member = inspect.getattr_static(of, name)
    if isinstance(member, Starting):
        start = getattr(of, name)
        return f"| await | `{name}({_arguments(start, skipped=0)})` | {_summary(start)} |"
    if not callable(member) and not isinstance(member, property):
        return f"| at once | `{name}` | {_cell(ATTRIBUTES[name])} |"
    if isinstance(member, property):
        return f"| at once | `{name}` | {_summary(member.fget)} |"
    return f"| {_how_to_use(name, member)} | `{name}({_arguments(member)})` | {_summary(member)} |"


def _value(name: str) -> str:
    of = getattr(treering, name)
    if name in ALIASES:
        return f"| `{name}` | | {_cell(ALIASES[name])} |"
    if not isinstance(of, type):
        return f"| `{name}({_arguments(of, skipped=0)})` | | {_summary(of)} |"
    further = () if of in COUNTERPARTS or _is_entry(of) else (*_attributes(of), *_methods(of))
    members = dict.fromkeys([*_fields(of), *further])
    return f"| `{name}` | {', '.join(f'`{member}`' for member in members)} | {_summary(of)} |"


def _fields(of: type) -> Iterator[str]:
    """Yield the fields and properties of a value; for an entry, only those that not all entries have."""
    shared = {*EntryBase.__struct_fields__, "type"} if _is_entry(of) else set[str]()
    fields = [field for field in getattr(of, "__struct_fields__", ()) if field not in shared]
    properties = [name for name, member in vars(of).items() if isinstance(member, property) and name[0] != "_"]
    yield from (field for field in fields if field.removeprefix("raw_") not in properties)
    yield from (name for name in properties if name not in shared)


def _is_entry(of: type) -> bool:
    return issubclass(of, (EntryBase, OpaqueEntry))


def _attributes(of: type) -> Iterator[str]:
    """Yield the inherited properties, the attributes that a docstring lists, and the keys of a dictionary."""
    if typing.is_typeddict(of):
        yield from inspect.get_annotations(of)
    elif not hasattr(of, "__struct_fields__"):
        listed = (inspect.getdoc(of) or "").partition("\nAttributes:\n")[2].partition("\n\n")[0]
        yield from re.findall(r"^    (\w+):", listed, re.MULTILINE)
        yield from (name for name, member in _public_members(of) if isinstance(member, property))


def _methods(of: type) -> Iterator[str]:
    """Yield the methods with their required arguments."""
    for name, member in _public_members(of):
        if isinstance(member, (classmethod, staticmethod)):
            yield f"{name}({_arguments(getattr(of, name), skipped=0)})"
        elif inspect.isfunction(member):
            yield f"{name}({_arguments(member)})"


def _public_members(of: type) -> Iterator[tuple[str, object]]:
    """Yield the members that a class or its bases in this library define and that are for programs."""
    for base in of.__mro__:
        if base.__module__.startswith("treering."):
            yield from ((name, member) for name, member in vars(base).items() if name in public(of))


def _how_to_use(name: str, member: Callable[..., object]) -> str:
    if inspect.isasyncgenfunction(member):
        return "async for"
    if inspect.iscoroutinefunction(member):
        return "await"
    return ITERATED.get(name, "at once")


def _arguments(member: Callable[..., object], skipped: int = 1) -> str:
    """Return the required arguments after those skipped, and an ellipsis if there are optional ones."""
    given = list(inspect.signature(member).parameters.values())[skipped:]
    needed = [each.name for each in given if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    return ", ".join([*needed, *(["…"] if len(needed) < len(given) else [])])


def _summary(of: object) -> str:
    return _cell((inspect.getdoc(of) or "").partition("\n\n")[0])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _errors() -> Iterator[type[TreeringError]]:
    """Yield the public errors, each after its base."""

    def below(of: type[TreeringError]) -> Iterator[type[TreeringError]]:
        for each in sorted(of.__subclasses__(), key=lambda kind: kind.__name__):
            first = next(base for base in each.__bases__ if issubclass(base, TreeringError))
            if first is of and getattr(treering, each.__name__, None) is each:
                yield each
                yield from below(each)

    return below(TreeringError)


def _error(of: type[TreeringError]) -> str:
    kinds = [base.__name__ for base in of.__bases__ if base is not TreeringError]
    return f"| `{of.__name__}` | {' '.join(f'`{kind}`' for kind in kinds)} | {_summary(of)} |"


if __name__ == "__main__":
    sys.stdout.write(page())
