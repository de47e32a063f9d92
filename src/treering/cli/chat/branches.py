"""Commands about the tree: looking at it, moving in it, naming places, having answers made anew, compacting."""

from __future__ import annotations

from ...actors.compaction import CompactionReport
from ...events.errors import InvalidInput
from ...events.findings import counted
from ..opening import find_leaf
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


@slash("branch", "ENTRY", "Go on from another entry; what is left stays on a branch of its own.")
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


@slash("compact", "[--apply] [--keep TOKENS]", "Tell what a compaction would do; with --apply, do it.")
async def compact(talk: Talk, rest: str) -> None:
    apply, keep_tokens = _compact_options(rest)
    report = await talk.conversation.compact(apply=apply, keep_tokens=keep_tokens)
    if report.first_kept_entry_id is None:
        talk.note(f"there is nothing to compact: {report.reason}")
        return
    talk.lines([_told(report)])
    if not report.applied:
        talk.note("nothing was written; /compact --apply does it")


def _told(report: CompactionReport) -> str:
    does = "stands" if report.applied else "would stand"
    after = "" if report.applied else "about "
    return (
        f"a summary {does} for {counted(report.summarized_count, 'message')}; "
        f"{counted(report.kept_count, 'message')} from {short(report.first_kept_entry_id)} on "
        f"{'stay' if report.applied else 'would stay'}; {report.tokens_before} tokens before, "
        f"{after}{report.tokens_after} after"
    )


def _compact_options(rest: str) -> tuple[bool, int | None]:
    words = rest.split()
    apply = "--apply" in words
    words = [each for each in words if each != "--apply"]
    match words:
        case []:
            return apply, None
        case ["--keep", number] if number.isdecimal():
            return apply, int(number)
        case _:
            raise InvalidInput("write /compact [--apply] [--keep TOKENS]; nothing was done")


async def _entry_id(talk: Talk, given: str) -> str:
    """Return the id of the entry that a person means: `.`, its id, or the unique beginning of one.

    Raises:
        EntryNotFound: No entry has this id.
        NotFound: Several begin like this.
        InvalidInput: Nothing is given, or there is no latest entry.
    """
    session = talk.conversation.session
    if given == "." and session.leaf_id is not None:
        return session.leaf_id
    seq = await find_leaf(session, given) if given not in ("", ".") else None
    if seq is None:
        raise InvalidInput("give an entry: /tree tells their ids" if given != "." else "nothing was said yet")
    return (await session.log()).index.ids[seq]
