"""`treering export`: write a session as a page, a text, or a file of another program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, get_args

import click

from ...actors.exports import ExportFormat
from ...events.wording import counted
from ..home import Home, root_option, session_argument
from ..opening import find_entry
from ..output import echo_document, echo_json, quiet_option, run, tell

if TYPE_CHECKING:
    from ...events.redaction import Redaction

_BY_ENDING: Mapping[str, ExportFormat] = {".html": "html", ".htm": "html", ".json": "json", ".jsonl": "native"}


@click.command()
@session_argument
@click.option(
    "-f",
    "--format",
    "format_",
    type=click.Choice(get_args(ExportFormat)),
    show_default="from the suffix of PATH, else markdown",
    help="The format to write.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    type=click.Path(readable=False),
    help="Write to this path, whole or not at all; by default, or with -, to stdout; "
    "for nanocoder, the directory of its sessions.",
)
@click.option("--leaf", metavar="ID", help="Export only the path to this entry, as a separate session.")
@click.option("--redact", is_flag=True, help="Remove secrets; for json, markdown and html.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--json", "as_json", is_flag=True, help="With -o: print the path and format as JSON, for programs.")
@quiet_option
@root_option
def export(
    session: str,
    format_: ExportFormat | None,
    output: str | None,
    leaf: str | None,
    redact: bool,
    force: bool,
    as_json: bool,
    root: str | None,
) -> None:
    """Export a session as a page, a text, or a file of another program.

    docs/exporting.md describes the formats, and says which of them `treering import` reads. A redacted export cannot be
    imported; read it before you publish it.

    \b
    Examples:
      treering export last > talk.md
      treering export 5f0c12ab -o talk.html --redact
      treering export last -f native | ssh other 'cat > session.jsonl'
    """
    if output == "-":
        output = None
    if as_json and output is None:
        raise click.UsageError(
            "--json reports what was written: add -o with a path, or use -f json to export the session as JSON"
        )
    if format_ is None:
        format_ = _BY_ENDING.get(PurePath(output or "").suffix.lower(), "markdown")
    from ...events.redaction import Redaction

    redaction = Redaction() if redact else None
    path = run(_export, Home.at(root), session, format_, output, leaf, redaction, force)
    if as_json:
        echo_json({"path": path, "format": format_, "redacted": None if redaction is None else dict(redaction.counts)})
    if redaction is not None:
        kinds = ", ".join(f"{count} {kind}" for kind, count in redaction.counts.items())
        removed = counted(sum(redaction.counts.values()), "secret")
        tell(f"{removed} removed{': ' + kinds if kinds else ''}")


async def _export(
    home: Home,
    text: str,
    format_: ExportFormat,
    output: str | None,
    leaf: str | None,
    redaction: Redaction | None,
    force: bool,
) -> str | None:
    """Write a session to stdout or to a path, and return the path."""
    async with home.opened() as host:
        row = await host.resolve(text)
        async with await host.load(row, read_only=True) as session:
            leaf_id = None if leaf is None else await find_entry(session, leaf)
            if output is None:
                echo_document(await session.export(format_, leaf_id=leaf_id, redact=redaction))
                return None
            path = await session.export(format_, output, leaf_id=leaf_id, redact=redaction, overwrite=force)
            tell(f"written to {path}")
            return str(path)
