"""The slash commands of a chat: on sessions, on the tree of the current one, on the chat itself."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...events.content import ThinkingPart, plain_text, shown_text
from ...events.entries import Usage
from ...events.errors import InvalidInput, NotFound
from ...events.texts import counted, preview
from ...projections.context import Context
from ...projections.usage import UsageProjection
from ..commands.contexts import report_lines, sent_lines
from ..commands.info import info_lines, info_of
from ..commands.tree import tree_pages
from ..opening import find_entry
from ..output import as_json, clean, has_terminal, short_line
from ..rows import LABEL_CHARS_MAX, NAMELESS, short, table_of
from .chat import Chat
from .slash import Slash, Slashes, slash
from .terminal import PROMPT

_SHOWN_MAX = 20
_SHOWN_CHARS = 2000


@slash("sessions", "", "List the sessions of this project.")
async def sessions(chat: Chat, rest: str) -> None:
    await _list(chat, chat.conversation.project)


@slash("sessions all", "", "List the sessions of all projects.")
async def sessions_all(chat: Chat, rest: str) -> None:
    await _list(chat, None)


async def _list(chat: Chat, project: str | None) -> None:
    conversation = chat.conversation
    rows = await conversation.host.list_sessions(project=project)
    among = await conversation.host.list_sessions(status="any")
    chat.lines(table_of(rows, among=among, places=project is None, current=conversation.session.ref))
    if not rows:
        chat.note("there are no sessions yet" if project is None else "there are no sessions in this project yet")


@slash("session info", "", "Show the details of this session.")
async def session_info(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    if conversation.session.leaf_id is None:
        chat.note(f"session {conversation.session.id}: nothing has been said yet, so nothing is stored")
        return
    row = await conversation.host.resolve(conversation.session.id)
    details = await info_of(conversation.host, row)
    chat.lines(info_lines(details, ("answers", conversation.model_name)))


@slash("session export", "[FILE]", "Write the conversation as markdown, by default into this directory.")
async def session_export(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    session = conversation.session
    if session.leaf_id is None:
        raise InvalidInput("nothing has been said yet: there is nothing to export")
    path = await session.export("markdown", _target(conversation.project, rest or f"{short(session.id)}.md"))
    chat.note(f"written to {path}")


def _target(folder: str, file: str) -> str:
    return os.path.join(folder, os.path.expanduser(file))


@slash("session archive", "", "Archive this session, and start a new one.")
async def session_archive(chat: Chat, rest: str) -> None:
    archived = await chat.conversation.archive()
    chat.note(f"archived session {short(archived)}; started a new one")


@slash("resume", "[SESSION]", "Resume another session, by its id, the beginning of one, its name, or from a list.")
async def resume(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    if not rest:
        if not (chat.interactive and has_terminal()):
            raise InvalidInput("there is no terminal to choose on: name a session; /sessions lists them")
        picked = await chat.choose()
        if picked.action == "new":
            await _begin(chat)
        if picked.session is None:
            return
        rest = picked.session.path or picked.session.id
    await conversation.resume(rest)
    await show_session(chat)


@slash("new", "", "Start a new session; this one is kept.")
async def new(chat: Chat, rest: str) -> None:
    await _begin(chat)


async def _begin(chat: Chat) -> None:
    await chat.conversation.start()
    chat.note("started a new session")


@slash("rename", "TITLE", "Give this session a title.")
async def rename(chat: Chat, rest: str) -> None:
    if not rest:
        raise InvalidInput("give a title: /rename TITLE")
    await chat.conversation.session.set_title(rest)
    chat.note(f"this session is now called {rest!r}")


async def show_session(chat: Chat) -> None:
    """Show which session was resumed, and its latest messages."""
    conversation = chat.conversation
    session = conversation.session
    context = await session.context()
    title = short_line(session.metadata.title or NAMELESS)
    chat.note(f"session {short(session.id)}, {title!r}: {counted(session.message_count, 'message')}")
    for warning in context.warnings:
        chat.note(f"warning: {warning}")
    chat.lines(_recent_lines(context))
    last = context.model
    if last is not None and (last.provider, last.model_id) != (
        conversation.model.provider,
        conversation.model.model_id,
    ):
        chat.note(
            f"{last.provider}/{last.model_id} answered here before; {conversation.model_name} answers now: see /model"
        )


def _recent_lines(context: Context) -> Iterator[str]:
    """Yield the latest part of a conversation, as the chat showed it."""
    messages = context.messages
    if len(messages) > _SHOWN_MAX:
        yield f"({counted(len(messages) - _SHOWN_MAX, 'earlier message')}: /tree shows all)"
    for each in messages[-_SHOWN_MAX:]:
        if each.role == "user":
            text = PROMPT + plain_text(each.content)
        elif each.role == "assistant":
            text = "\n".join(shown_text(part) for part in each.content if not isinstance(part, ThinkingPart))
        else:
            text = f"({each.role}) {preview(' '.join(map(shown_text, each.content)))}"
        yield clean(text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…")
        if each.role == "assistant":
            yield ""


@slash("tree", "", "Draw all branches of this session.")
async def tree(chat: Chat, rest: str) -> None:
    session = chat.conversation.session
    if session.leaf_id is None and not session.message_count:
        chat.note("nothing has been said yet")
        return
    async for lines in tree_pages(session):
        chat.lines(lines)


@slash("branch", "ENTRY", "Continue from another entry, by its label or id; the current branch stays.")
async def branch(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    report = await conversation.go_to_entry(await _entry_id(chat, rest))
    note = f"continuing from {short(conversation.session.leaf_id)}"
    if report is not None and report.entry_id is not None:
        note += f", with a summary of {counted(report.message_count, 'message')}"
    chat.note(note)


@slash("retry", "", "Get a new answer to your last message; the old answer stays on a branch.")
async def retry(chat: Chat, rest: str) -> None:
    await chat.stream(chat.conversation.answer_again())


@slash(
    "label",
    "[ENTRY LABEL]",
    "Label an entry (`.` is the latest); `-` removes the label; without arguments, list the labels.",
)
async def label(chat: Chat, rest: str) -> None:
    session = chat.conversation.session
    if not rest:
        labels = session.labels()
        chat.lines(f"{short(entry_id)}  {short_line(name, LABEL_CHARS_MAX)}" for entry_id, name in labels)
        if not labels:
            chat.note("no entry has a label yet")
        return
    entry, _, name = rest.partition(" ")
    if not name.strip():
        raise InvalidInput("give an entry and a label: /label ENTRY LABEL")
    entry_id = await _entry_id(chat, entry)
    await session.set_label(entry_id, None if name.strip() == "-" else name.strip())
    new = session.label(entry_id)
    chat.note(f"{short(entry_id)} is labelled {new!r}" if new else f"{short(entry_id)} has no label now")


@slash("compact", "[--apply] [--keep-tokens N]", "Show what a compaction would do; with --apply, do it.")
async def compact(chat: Chat, rest: str) -> None:
    apply, keep_tokens = _compact_options(rest)
    report = await chat.conversation.compact(apply=apply, keep_tokens=keep_tokens)
    chat.lines(report_lines(report))
    if not report.applied and not report.reason:
        chat.note("nothing was written: use /compact --apply to compact")


def _compact_options(rest: str) -> tuple[bool, int | None]:
    words = rest.split()
    apply = "--apply" in words
    words = [each for each in words if each != "--apply"]
    match words:
        case []:
            return apply, None
        case ["--keep-tokens", number] if number.isdecimal():
            return apply, int(number)
        case _:
            raise InvalidInput("usage: /compact [--apply] [--keep-tokens N]; nothing was done")


async def _entry_id(chat: Chat, text: str) -> str:
    """Return the id of an entry given as `.`, a label, an id, or a unique prefix of one.

    Raises:
        EntryNotFound: There is no such entry.
        NotFound: There are several.
        InvalidInput: The text is empty, or there is no latest entry.
    """
    session = chat.conversation.session
    if not text:
        raise InvalidInput("give an entry: /tree shows their ids")
    if text == ".":
        if session.leaf_id is None:
            raise InvalidInput("nothing has been said yet: there is no latest entry")
        return session.leaf_id
    labelled = session.find_by_label(text)
    if len(labelled) > 1:
        raise NotFound(f"{len(labelled)} entries are labelled {text!r}: give the id of one")
    if labelled:
        return labelled[0]
    return await find_entry(session, text)


@slash("debug context", "[--json]", "Show exactly what was sent last, with its strategy and counts.")
async def debug_context(chat: Chat, rest: str) -> None:
    sent = chat.conversation.sent
    if sent is None:
        chat.note("nothing has been sent yet")
    elif rest == "--json":
        chat.lines([as_json(sent.to_json()).decode()])
    else:
        chat.lines(sent_lines(sent))


@slash("model", "[NAME]", "Show which model answers, or switch to another one.")
async def model(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    if rest:
        await conversation.use_model(rest)
    window = conversation.model.context_window
    capacity = "with an unknown window" if window is None else f"with a window of {window} tokens"
    chat.note(f"{conversation.model_name} answers, {capacity}")


@slash("usage", "", "Show the usage on all branches, and how full the window is.")
async def usage(chat: Chat, rest: str) -> None:
    conversation = chat.conversation
    totals = await conversation.session.view(UsageProjection())
    chat.lines(_usage_lines("all branches", totals.total))
    for each in totals.by_model:
        if each.model is not None:
            chat.lines(_usage_lines(f"  {each.provider or '?'}/{each.model}", each.usage))
    used, budget = await conversation.used_tokens(), conversation.budget()
    limit = "of an unknown window" if budget is None else f"of {budget.model_context_window}"
    chat.lines([f"the next request takes about {used.total} tokens {limit}"])


def _usage_lines(scope: str, used: Usage) -> Iterator[str]:
    cached = used.cache_read_tokens + used.cache_write_tokens
    totals = f"{clean(scope)}: {used.input_tokens} tokens in, {used.output_tokens} out"
    yield totals + (f", {cached} cached" if cached else "") + (f", cost {used.cost:.4f}" if used.cost else "")


@slash("help", "", "List the commands.")
async def help_(chat: Chat, rest: str) -> None:
    commands = list(all_commands())
    width = max(len(each.usage) for each in commands)
    chat.lines(f"{each.usage:<{width}}  {each.help}" for each in commands)


@slash("exit", "", "Leave; everything is stored. Ctrl-D does the same.")
async def exit_(chat: Chat, rest: str) -> None:
    chat.leaving = True


_COMMANDS = Slashes(each for each in list(globals().values()) if isinstance(each, Slash))


def all_commands() -> Slashes:
    """Return the slash commands of `treering chat`, in the order in which they are defined here."""
    return _COMMANDS
