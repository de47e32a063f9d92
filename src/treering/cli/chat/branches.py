"""Slash commands on the tree: draw it, branch, label, retry, compact."""

from __future__ import annotations

from ...events.errors import InvalidInput, NotFound
from ...events.texts import counted
from ..commands.compact import report_lines
from ..commands.tree import tree_pages
from ..descriptions import LABEL_CHARS_MAX, short
from ..opening import find_entry
from ..output import short_line
from .chat import Chat
from .slash import slash


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
