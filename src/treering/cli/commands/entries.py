"""Commands on single entries: the lines of a session, those that are appended meanwhile, and labels.

The command that follows a session follows those of all programs of this machine, too.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress

import anyio
import click
import msgspec

from ...actors.session.session import Session
from ...events.entries import Entry, OpaqueEntry
from ...projections.feed_events import Reset
from ...projections.labels import LabelledEntry
from ...projections.labels import labels as labels_of
from ..columns import GAP, aligned
from ..home import Home
from ..messages import warn
from ..opening import find_entry, find_leaf, opened
from ..options import (
    from_option,
    home_options,
    json_option,
    leaf_option,
    session_argument,
    session_completion,
    session_file,
)
from ..output import as_json as encoded
from ..output import columns, echo_json, run, short_line, watch_reader
from ..rows import LABEL_CHARS_MAX, WIDTH_OF_PIPES, line_of, preview_of, role_of, short

_AT_ONCE = 256


@click.command()
@session_file
@leaf_option
@json_option
@home_options
def entries(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """Print the entries in file order; with --leaf, those on the path to it.

    With --json, each entry is one line in the native format, whatever the format of the file, with its `seq`.

    \b
    Examples:
      treering entries session.jsonl
      treering entries session.jsonl --json | jq -r 'select(.type == "message").message.role'
    """
    run(_entries, file, root, leaf, as_json)


async def _entries(file: str, root: str | None, leaf: str | None, as_json: bool) -> None:
    async with opened(file, root) as session:
        seq = await find_leaf(session, leaf)
        page: list[Entry] = []
        async for entry in session.iter_entries() if seq is None else _path(session, seq):
            page.append(entry)
            if len(page) == _AT_ONCE:
                show(page, as_json=as_json)
                page = []
        show(page, as_json=as_json)


async def _path(session: Session, seq: int) -> AsyncIterator[Entry]:
    log = await session.log()
    seqs = log.index.path(seq)
    for start in range(0, len(seqs), _AT_ONCE):
        page = seqs[start : start + _AT_ONCE]
        entries_by_seq = await log.entries_at(page)
        for each in page:
            if (entry := entries_by_seq[each]) is not None:
                yield entry


def show(entries: list[Entry], *, as_json: bool) -> None:
    """Write each entry on a line."""
    if entries:
        click.echo(b"\n".join(map(_native_line, entries)) if as_json else "\n".join(map(line_of, entries)))


def _native_line(entry: Entry) -> bytes:
    """Encode an entry in the native format, with its seq.

    An opaque entry keeps the keys of its own line and gets those of every native entry; `opaque` gives the reason.
    """
    if not isinstance(entry, OpaqueEntry):
        return encoded(entry)
    value = entry.value
    own = value if isinstance(value, dict) else {}
    envelope = {"type": entry.type, "id": entry.id, "parent_id": entry.parent_id}
    timed = {"timestamp": msgspec.to_builtins(entry.timestamp), "seq": entry.seq, "opaque": entry.reason}
    return encoded({**envelope, **own, **envelope, **timed})


_OF_ONE_SESSION = {"file": "a SESSION", "from_start": "--from-start", "root": "--root", "server": "--server"}


@click.command()
@click.argument(
    "file", metavar="[SESSION]", required=False, type=click.Path(readable=False), shell_complete=session_completion
)
@json_option
@click.option("--from-start", is_flag=True, help="Print the existing entries first.")
@click.option("--programs", is_flag=True, help="Follow the sessions of all programs of this machine instead.")
@from_option("Follow the sessions of this program alone")
@home_options
def follow(
    file: str | None, as_json: bool, from_start: bool, programs: bool, from_programs: tuple[str, ...], root: str | None
) -> None:
    """Print each entry as another process appends it, until Ctrl-C.

    It also ends when the program that reads its output has ended, as `head` does.

    With --programs, follow the sessions that Claude Code, Codex, Gemini CLI, opencode, pi and others keep on this
    machine: at a terminal a list that is kept up to date, those that changed last first; elsewhere a line for each,
    those that changed last at the end, and for each that changes. Of each file only the beginning and the end are read.

    \b
    Examples:
      treering follow session.jsonl
      treering follow session.jsonl --json --from-start
      treering follow --programs
      treering follow --from codex --json | jq -r 'select(.state == "waits").title'
    """
    with suppress(KeyboardInterrupt):
        if programs or from_programs:
            source_of = click.get_current_context().get_parameter_source
            for name, given in _OF_ONE_SESSION.items():
                if source_of(name) is click.core.ParameterSource.COMMANDLINE:  # the environment may name a server
                    raise click.UsageError(f"--programs follows those of its own machine: leave out {given}")
            from ..programs import follow_programs

            run(follow_programs, from_programs, as_json)
            return
        if file is None:
            raise click.UsageError("Missing argument 'SESSION': give one, or --programs")
        run(_follow, file, root, as_json, from_start)


async def _follow(file: str, root: str | None, as_json: bool, from_start: bool) -> None:
    async with (
        opened(file, root) as session,
        session.subscribe(after=0 if from_start else session.cursor) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(watch_reader)
        while True:
            _show_items(await subscription.receive_many(), file, as_json=as_json)


def _show_items(items: Iterable[Entry | Reset], file: str, *, as_json: bool) -> None:
    """Show entries together, and a warning where the file was replaced."""
    entries: list[Entry] = []
    for item in items:
        if isinstance(item, Reset):
            show(entries, as_json=as_json)
            entries = []
            warn(f"{file}: the file was replaced or truncated; following it from the start")
        else:
            entries.append(item)
    show(entries, as_json=as_json)


@click.command()
@session_file
@leaf_option
@json_option
@home_options
def labels(file: str, leaf: str | None, as_json: bool, root: str | None) -> None:
    """List labelled entries, those on the path to the leaf first.

    \b
    Examples:
      treering labels session.jsonl
      treering labels session.jsonl --json
    """
    run(_labels, file, root, leaf, as_json)


async def _labels(file: str, root: str | None, leaf: str | None, as_json: bool) -> None:
    async with opened(file, root) as session:
        seq = await find_leaf(session, leaf)
        log = await session.log()
        labelled = labels_of(log.index, seq)
        if as_json:
            echo_json([{"entry_id": entry_id, "label": label} for entry_id, label in labelled])
            return
        seqs = {entry_id: log.index.find(entry_id) for entry_id, _ in labelled}
        entries = await log.entries_at(sorted(seqs.values()))
        previews: list[str] = []
        for entry_id, _ in labelled:
            entry = entries[seqs[entry_id]]
            previews.append("" if entry is None else f"{role_of(entry)}: {preview_of(entry)}")
    if labelled:
        _show_labels(labelled, previews)


def _show_labels(labelled: list[LabelledEntry], previews: list[str]) -> None:
    """Write a line for each label; in a narrow terminal, the previews are cut first."""
    rows = [
        (preview, short_line(label, LABEL_CHARS_MAX), short(entry_id))
        for (entry_id, label), preview in zip(labelled, previews, strict=True)
    ]
    width = columns() if sys.stdout.isatty() else WIDTH_OF_PIPES
    heading, *lines = aligned([("text", "label", "entry"), *rows], width, droppable=(), shortened=1)
    preview, label, entry_id = heading
    click.secho(GAP.join((label, entry_id, preview)).rstrip(), dim=True)
    for preview, label, entry_id in lines:
        click.echo(GAP.join((click.style(label, bold=True), entry_id, preview)).rstrip())


@click.command()
@session_argument
@click.argument("entry", metavar="ENTRY")
@click.argument("text", metavar="[TEXT]", required=False)
@json_option
@home_options
def label(session: str, entry: str, text: str | None, as_json: bool, root: str | None) -> None:
    """Label an entry of a session, or remove its label.

    ENTRY is an entry's id, or the beginning of one. Without TEXT, the label is removed. `treering labels` lists all
    labels.

    \b
    Examples:
      treering label last 9b2e1c33 "before the rewrite"
      treering label last 9b2e1c33
    """
    result = run(_label, Home.at(root), session, entry, text)
    if as_json:
        echo_json(result)


async def _label(home: Home, session: str, entry: str, text: str | None) -> dict[str, str | None]:
    async with home.opened() as host:
        row = await host.resolve(session)
        async with await host.load(row, read_only=True) as viewed:  # a typo must not unarchive the session
            entry_id = await find_entry(viewed, entry)
        loaded = await host.load(row)
        await loaded.set_label(entry_id, text)
        return {"session_id": loaded.id, "entry_id": entry_id, "label": loaded.label(entry_id)}
