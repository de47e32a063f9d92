"""Commands about the tree: looking at it, moving in it, naming places, having answers made anew, compacting."""

from __future__ import annotations

from ...events.errors import InvalidInput, NotFound
from ...events.wording import counted
from ..compact import report_lines
from ..opening import find_entry
from ..output import clean
from ..telling import short
from ..tree import tree_lines
from .slash import slash
from .talk import Talk


@slash("tree", "", "Draw all branches of this session.")
async def tree(talk: Talk, rest: str) -> None:
    session = talk.conversation.session
    if session.leaf_id is None and not session.message_count:
        talk.note("nothing was said yet")
        return
    talk.lines(await tree_lines(session))


@slash("branch", "ENTRY", "Go on from another entry, by its name or id; what is left stays on a branch of its own.")
async def branch(talk: Talk, rest: str) -> None:
    conversation = talk.conversation
    report = await conversation.go_to_entry(await _entry_id(talk, rest))
    told = f"going on from {short(conversation.session.leaf_id)}"
    if report is not None and report.entry_id is not None:
        told += f", with a summary of {counted(report.message_count, 'message')}"
    talk.note(told)


@slash("retry", "", "Have the last thing that you said answered anew; the answer so far stays on a branch.")
async def retry(talk: Talk, rest: str) -> None:
    await talk.stream(talk.conversation.answer_anew())


@slash(
    "label",
    "[ENTRY NAME]",
    "Name an entry (`.` is the latest); `-` takes a name away; without anything, list the names.",
)
async def label(talk: Talk, rest: str) -> None:
    session = talk.conversation.session
    if not rest:
        labels = session.labels()
        talk.lines(f"{short(entry_id)}  {clean(name)}" for entry_id, name in labels)
        if not labels:
            talk.note("no entry has a name yet")
        return
    entry, _, name = rest.partition(" ")
    if not name.strip():
        raise InvalidInput("give an entry and a name: /label ENTRY NAME")
    entry_id = await _entry_id(talk, entry)
    await session.set_label(entry_id, None if name.strip() == "-" else name.strip())
    talk.note(f"{short(entry_id)} is called {session.label(entry_id)!r}" if session.label(entry_id) else "no name now")


@slash("compact", "[--apply] [--keep-tokens N]", "Tell what a compaction would do; with --apply, do it.")
async def compact(talk: Talk, rest: str) -> None:
    apply, keep_tokens = _compact_options(rest)
    report = await talk.conversation.compact(apply=apply, keep_tokens=keep_tokens)
    talk.lines(report_lines(report))
    if not report.applied and not report.reason:
        talk.note("nothing was written: /compact --apply does it")


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
            raise InvalidInput("write /compact [--apply] [--keep-tokens N]; nothing was done")


async def _entry_id(talk: Talk, given: str) -> str:
    """Return the id of the entry that a person means: `.`, the name of one, its id, or the unique beginning of that.

    Raises:
        EntryNotFound: No entry is called so.
        NotFound: Several are.
        InvalidInput: Nothing is given, or there is no latest entry.
    """
    session = talk.conversation.session
    if not given:
        raise InvalidInput("give an entry: /tree tells their ids")
    if given == ".":
        if session.leaf_id is None:
            raise InvalidInput("nothing was said yet: there is no latest entry")
        return session.leaf_id
    named = session.find_by_label(given)
    if len(named) > 1:
        raise NotFound(f"{len(named)} entries are called {given!r}: give the id of one")
    if named:
        return named[0]
    return await find_entry(session, given)
