"""The library on one page, docs/api.md, made of what its members say of themselves, with a word on how they differ.

python tests/docs/api_page.py > docs/api.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator

from msgspec import Struct

import treering
from treering import AgentSession, FileStore, KeyedSessions, MemoryStore, Session, SessionHost, Store, TreeringError

NOT_FOR_PROGRAMS = {SessionHost: {"core"}, Session: {"log"}}
"""Members that the layers above need; their docstrings say so."""

ITERATED = {
    "follow_requests": "async with",
    "search": "async for",
    "stream": "async with",
    "stream_resume": "async with",
    "stream_retry": "async with",
    "subscribe": "async with",
    "subscribe_sessions": "async with",
}
"""What returns at once something that is gone through."""

ATTRIBUTES = {
    "host": "The host whose sessions they are.",
    "id": "The session's id, as its header says it.",
    "ref": "The name of its log in the store.",
}
"""Attributes that have no docstring of their own."""


class Part(Struct, frozen=True):
    """Members of a class that serve one purpose, and what is to be said of them together."""

    title: str
    names: str
    said: str = ""


class Section(Struct, frozen=True):
    """A class."""

    of: type
    said: str
    parts: tuple[Part, ...]


INTRODUCTION = """\
# The library on one page

This page is made of the docstrings, by `python tests/docs/api_page.py`. Each name is importable from `treering`; `help()` tells
arguments, results and errors.

**What is awaited.** What the index of a session knows (its leaf, paths, tree, labels, counts, metadata) is in memory and answers at
once. What reads what entries say, or writes, is awaited. Subscriptions are opened by `async with` and iterated by `async for`; a
search is iterated at once. `SyncHost` gives the same host without an event loop: every member below has a twin of the same name and
arguments in `SyncHost`, `SyncSession` and `SyncKeyedSessions`, which blocks instead; `async for` and `async with` become `for` and
`with`. `AgentSession` has no twin.

**What blocks the loop.** Little reads, and appends to a disk that answers at once, are done on the loop, since a thread would take
longer; everything else goes to threads ([durability.md](durability.md) says how to choose). Folds (`stats`, `view`) run on the loop, at
most one megabyte of lines at a time, which takes some ten milliseconds, and so does what a projection of yours computes.

**Whose it is.** What is returned is frozen or the caller's own: changing it changes nothing that is stored.
"""

SECTIONS = (
    Section(
        SessionHost,
        "Where sessions live: `async with SessionHost(root) as host`. `root` is any folder; `default_root()` is the one that the "
        "command uses, and without one everything is in memory. A host reads no file of settings by itself: "
        '`settings=Settings.load("config.toml")` does.',
        (
            Part(
                "Getting a session",
                "create open load get_or_create find_by_key find_recent continue_recent",
                """\
| you have | it is there, or an error or None | it is there, or it is made |
|---|---|---|
| an exact id | `load` (`SessionNotFound`) | `open` |
| a beginning of an id, a name, "last", a path | `load` (`SessionNotFound`, `AmbiguousSession`) | |
| a key of your own, such as "telegram:1" | `find_by_key` (None) | `get_or_create` |
| a folder, or nothing | `find_recent` (None) | `continue_recent` |
| nothing, and want a new one | | `create`; with an id or key that is taken, `SessionExists` |
""",
            ),
            Part(
                "Rows of the listing",
                "list_sessions get_session resolve subscribe_sessions current_session set_current_session",
                "These open no session, take no lock, and return `SessionSummary` rows. `resolve` raises where a text means none, "
                "`get_session` returns None.\n",
            ),
            Part("Searching", "search"),
            Part(
                "Copies, and sessions from elsewhere",
                "fork_from put import_sessions",
                "`fork_from` makes another session, with a new id; `put` moves one in under its own id; `import_sessions` reads files, of "
                "other programs too.\n",
            ),
            Part("Keeping and deleting", "archive unarchive apply_retention delete"),
            Part("Looking after the host", "statistics flush passivate_idle"),
        ),
    ),
    Section(
        Session,
        "One conversation, as its host gives it. A handle is small and may be made again at any time; all handles of one session "
        "are the same session.",
        (
            Part(
                "Appending",
                "append append_many append_message append_model_change append_thinking_level_change append_custom_entry "
                "append_custom_message append_context_edit append_usage append_tool_execution save_turn set_label",
                "Each returns the id of its entry, or their ids, when the entry is in the file and in every view. All take "
                "`AppendOptions`: `below`, `aside`, `command_id`, `expected_leaf`, `expected_seq`.\n",
            ),
            Part(
                "Reading messages and entries",
                "messages history all_messages stored_message entry entries iter_entries tool_executions open_calls",
                "`messages()` and `history()` are the same list: what the context shows, without ids. `context().messages` is the same "
                "with the id of each entry, `all_messages()` all that was ever said, `entries()` all that was ever appended.\n",
            ),
            Part(
                "Contexts that fit a model",
                "context build_context used_tokens budget find_safe_cut",
                "`context()` is what the tree says, whatever its size; `build_context(budget)` makes it fit.\n",
            ),
            Part(
                "Making it shorter",
                "compact dry_compact append_compaction truncate_history set_history summary_for_range",
                "All of these append; nothing is taken away. `compact` finds the cut and has a summary made, `append_compaction` "
                "is given both, `truncate_history` keeps a number of messages with no summary or with yours, `set_history` begins a "
                "new root.\n",
            ),
            Part(
                "Branches",
                "branch reset_leaf branch_with_summary summarize_branch leaf_id path children tree",
                "`branch` moves the leaf and writes nothing; `branch_with_summary` takes your summary along, `summarize_branch` has "
                "one made.\n",
            ),
            Part("Labels", "label labels find_by_label"),
            Part(
                "Copies",
                "fork create_branched_session export",
                "`fork` copies all branches, `create_branched_session` one path; both are new sessions whose parent this is.\n",
            ),
            Part(
                "What is said of the session",
                "title name set_title append_session_info update_metadata metadata summary set_summary rebind",
                "`set_title` sets the name and nothing else. `update_metadata` sets what is given of name, description and "
                "provider, and merges `extra` key by key with what is there, whoever else does. `append_session_info` is the entry "
                "itself: its `metadata` takes the place of the whole free object. `name` is what a person set; `title` falls back to "
                "what the file came with, a row of the listing to the first thing that was said.\n",
            ),
            Part(
                "Figures",
                "stats total_tokens total_usage event_count message_count created updated",
            ),
            Part(
                "Following, and views of your own",
                "subscribe view rebuild emit cursor",
                "`view` computes a projection's value once, `subscribe` follows it.\n",
            ),
            Part("After a crash", "recover close_open_calls"),
            Part(
                "The handle",
                "id ref header file_path refresh flush passivate close",
                "None of these has to be called: an append is kept when it returns, and the host closes what is open.\n",
            ),
        ),
    ),
    Section(
        KeyedSessions,
        "Conversations by key, for programs that know nothing of trees: `KeyedSessions(host)`. Each call is the one of `Session` "
        "with the key before it. [keyed.md](keyed.md)",
        (
            Part(
                "All of it",
                "host get_or_create add_message add_full_message history set_history truncate_history summary set_summary save "
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
                "What begins with `stream` does the same and shows the turn's events while it runs.\n",
            ),
            Part("What was sent", "last_request follow_requests"),
        ),
    ),
)

STORES = """\
## Stores

`SessionHost(root)` makes a `FileStore` with what it is given; `SessionHost()` a `MemoryStore`. `SessionHost(store=...)` takes any
`Store`. Programs call none of their methods; who writes a store finds what each has to do in `Store`, and a suite that tries it
in `treering.testing`.

| store | |
|---|---|
"""

ERRORS = """\
## Errors

All are `TreeringError`, and what an operating system refuses to read is the `OSError` that it is. An error says what happened and
what to do. Where it is `InvalidInput`, nothing was written.

| error | is a | |
|---|---|---|
"""


def page() -> str:
    """Return the page."""
    return "\n".join(_page())


def public(of: type) -> set[str]:
    """Return the members of a class that are for programs."""
    members = {name for name in dir(of) if not name.startswith("_")}
    return members - NOT_FOR_PROGRAMS.get(of, set())


def _page() -> Iterator[str]:
    yield INTRODUCTION
    yield "\n".join(map(_listed, SECTIONS)) + "\n- [Stores](#stores), [Errors](#errors)\n"
    for section in SECTIONS:
        yield f"## {section.of.__name__}\n\n{section.said}\n"
        for part in section.parts:
            yield f"### {part.title}\n"
            if part.said:
                yield part.said
            yield "| | | |\n|---|---|---|"
            yield from (_row(section.of, name) for name in part.names.split())
            yield ""
    yield (
        STORES + "\n".join(f"| `{each.__name__}` | {_said(each)} |" for each in (FileStore, MemoryStore, Store)) + "\n"
    )
    yield ERRORS + "\n".join(map(_error, _errors())) + "\n"


def _listed(section: Section) -> str:
    name = section.of.__name__
    parts = ", ".join(f"[{part.title}](#{_anchor(part.title)})" for part in section.parts)
    return f"- [{name}](#{_anchor(name)}): {parts}"


def _anchor(title: str) -> str:
    """Return how a heading is linked to, as GitHub does; no two headings of this page are alike."""
    return title.lower().replace(",", "").replace(" ", "-")


def _row(of: type, name: str) -> str:
    member = inspect.getattr_static(of, name)
    if not callable(member) and not isinstance(member, property):
        return f"| at once | `{name}` | {_cell(ATTRIBUTES[name])} |"
    if isinstance(member, property):
        return f"| at once | `{name}` | {_said(member.fget)} |"
    return f"| {_manner(name, member)} | `{name}({_arguments(member)})` | {_said(member)} |"


def _manner(name: str, member: Callable[..., object]) -> str:
    if inspect.isasyncgenfunction(member):
        return "async for"
    if inspect.iscoroutinefunction(member):
        return "await"
    return ITERATED.get(name, "at once")


def _arguments(member: Callable[..., object]) -> str:
    """Return the arguments that have to be given, and dots where others may be."""
    given = list(inspect.signature(member).parameters.values())[1:]
    needed = [each.name for each in given if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    return ", ".join([*needed, *(["…"] if len(needed) < len(given) else [])])


def _said(of: object) -> str:
    return _cell((inspect.getdoc(of) or "").partition("\n\n")[0])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _errors() -> Iterator[type[TreeringError]]:
    """Yield the errors that programs can catch, each below the one that it is a kind of."""

    def below(of: type[TreeringError]) -> Iterator[type[TreeringError]]:
        for each in sorted(of.__subclasses__(), key=lambda kind: kind.__name__):
            first = next(base for base in each.__bases__ if issubclass(base, TreeringError))
            if first is of and getattr(treering, each.__name__, None) is each:
                yield each
                yield from below(each)

    return below(TreeringError)


def _error(of: type[TreeringError]) -> str:
    kinds = [base.__name__ for base in of.__bases__ if base is not TreeringError]
    return f"| `{of.__name__}` | {' '.join(f'`{kind}`' for kind in kinds)} | {_said(of)} |"


if __name__ == "__main__":
    sys.stdout.write(page())
