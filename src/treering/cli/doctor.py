"""`treering doctor`: what is damaged, by file, line and byte."""

from __future__ import annotations

import click

from ..events.doctor import Finding, examine_file, session_files
from .opening import json_option
from .output import clean, echo_json

_COLORS = {"error": "red", "warning": "yellow", "note": "blue"}


@click.command()
@click.argument("paths", metavar="PATH...", type=click.Path(readable=False), nargs=-1, required=True)
@json_option
@click.pass_context
def doctor(ctx: click.Context, paths: tuple[str, ...], as_json: bool) -> None:
    """Examine session files, and those in directories at any depth. Nothing is changed.

    The exit status is 1 where anything worse than a note was found.

    \b
    Examples:
      treering doctor session.jsonl
      treering doctor ~/sessions --json
    """
    examined, found = 0, list[Finding]()
    for path in session_files(*paths):
        examined += 1
        for finding in examine_file(path):
            found.append(finding)
            if not as_json:
                click.echo(_line(finding))
    if as_json:
        echo_json(found)
    click.echo(f"{_counted(examined, 'session')}, {_counted(len(found), 'finding')}", err=True)
    ctx.exit(int(any(finding.severity != "note" for finding in found)))


def _line(finding: Finding) -> str:
    severity = click.style(finding.severity, fg=_COLORS[finding.severity])
    return f"{clean(str(finding.where))}: {severity}: {clean(finding.message)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
