"""Slash commands on the tree: draw it, branch, label, retry, compact."""

from __future__ import annotations

from ...events.errors import InvalidInput, NotFound
from ...events.wording import counted
from ..compact import report_lines
from ..descriptions import short
from ..opening import find_entry
from ..output import clean
from ..tree import tree_lines
from .slash import slash
from .talk import Talk


@slash("tree", "", "Draw all branches of this session.")
async def tree(talk: Talk, rest: str) -> None:
    session = talk.conversation.session
    if session.leaf_id is None and not session.message_count:
        talk.note("nothing has been said yet")
        return
    talk.lines(await tree_lines(session))


@slash("branch", "ENTRY", "Continue from another entry, by its label or id; the current branch stays.")
async def branch(talk: Talk, rest: str) -> None:
    conversation = talk.conversation
    report = await conversation.go_to_entry(await _entry_id(talk, rest))
    note = f"continuing from {short(conversation.session.leaf_id)}"
    if report is not None and report.entry_id is not None:
        note += f", with a summary of {counted(report.message_count, 'message')}"
    talk.note(note)


@slash("retry", "", "Get a new answer to your last message; the old answer stays on a branch.")
async def retry(talk: Talk, rest: str) -> None:
    await talk.stream(talk.conversation.answer_again())


@slash(
    "label",
    "[ENTRY LABEL]",
    "Label an entry (`.` is the latest); `-` removes the label; without arguments, list the labels.",
)
async def label(talk: Talk, rest: str) -> None:
    session = talk.conversation.session
    if not rest:
        labels = session.labels()
        talk.lines(f"{short(entry_id)}  {clean(name)}" for entry_id, name in labels)
        if not labels:
            talk.note("no entry has a label yet")
        return
    entry, _, name = rest.partition(" ")
    if not name.strip():
        raise InvalidInput("give an entry and a label: /label ENTRY LABEL")
    entry_id = await _entry_id(talk, entry)
    await session.set_label(entry_id, None if name.strip() == "-" else name.strip())
    new = session.label(entry_id)
    talk.note(f"{short(entry_id)} is labelled {new!r}" if new else f"{short(entry_id)} has no label now")


@slash("compact", "[--apply] [--keep-tokens N]", "Show what a compaction would do; with --apply, do it.")
async def compact(talk: Talk, rest: str) -> None:
    apply, keep_tokens = _compact_options(rest)
    report = await talk.conversation.compact(apply=apply, keep_tokens=keep_tokens)
    talk.lines(report_lines(report))
    if not report.applied and not report.reason:
        talk.note("nothing was written: use /compact --apply to compact")


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


async def _entry_id(talk: Talk, text: str) -> str:
    """Return the id of an entry given as `.`, a label, an id, or a unique prefix of one.

    Raises:
        EntryNotFound: There is no such entry.
        NotFound: There are several.
        InvalidInput: The text is empty, or there is no latest entry.
    """
    session = talk.conversation.session
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
