"""Generates docs/cli.md, the reference of the command line, from the help texts of the commands.

python docs/cli_page.py > docs/cli.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import click

from treering.cli import main

_INTRODUCTION = """\
# The command line

This page is generated from the commands, by `python docs/cli_page.py`.

**Which session.** SESSION is an id, the beginning of one, a name that a person gave, `last` (the most recently used
session, which is the first in the list), or the path of a file. Commands that only read take no lock and do not change
the file, so they work while another program writes.

**Where sessions are.** All sessions are in one directory, the root: `--root DIRECTORY`, else the environment variable
`TREERING_ROOT`, else the platform's directory for application data (on Linux `~/.local/share/treering/sessions`, on
macOS `~/Library/Application Support/treering/sessions`). A root may also be given as
`file:/path`, or as the address of a database, `postgresql://user@host/database` ([postgres.md](postgres.md)); one that
begins like an address of which no store is installed, such as `sqlite:`, is refused, and `./sqlite:` is a directory of
that name. Like every option of a command, it may also stand before the command: `treering --root DIRECTORY sessions`.
A file `config.toml` or `config.json` in the root holds the settings that [catalog.md](catalog.md) lists; an
unknown key is an error. For a database, that file and a server's tokens are in a directory of this machine,
`treering/roots/HASH` under application data. The current project is the directory in which a command runs.

```toml
# config.toml
auto_archive_after_days = 90
max_sessions_per_project = 200
```

**Output.** Stdout carries results and nothing else. Errors, warnings, progress and counts go to stderr; `-q` suppresses
progress and counts, never results; `treering --verbose COMMAND` shows all details of a warning. Times for people are in
the system's time zone, times in JSON are UTC. With `--json`, stdout is JSON: one document, or one line for each entry
or hit if they are written as they arrive. At a terminal, control characters of a conversation are shown and not obeyed:
as `\\u001b` in JSON and exports, as one replacement character elsewhere. `NO_COLOR` and `FORCE_COLOR` are respected.

| exit status | meaning |
|---|---|
| 0 | success, even if nothing was found |
| 1 | an error, one sentence on stderr; damage that no repair has noted (`doctor`); a named path or session failed |
| 2 | wrong usage, or a terminal is needed and there is none |
| 130 | stopped by Ctrl-C; `follow` then exits with 0 |

A session in a folder that `import` cannot read is reported, and the others are imported, with status 0.
"""


def reference() -> str:
    """Return the page as Markdown."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield _INTRODUCTION
    root = click.Context(main, info_name="treering")
    for section in main.sections:
        yield f"- **{section.title}**: {', '.join(f'[{name}](#{name})' for name in section.commands)}"
    yield ""
    for section in main.sections:
        yield f"## {section.title}\n"
        for name in section.commands:
            command = main.get_command(root, name)
            assert command is not None  # it is listed in the section
            yield from _command(command, click.Context(command, root, info_name=name))


def _command(command: click.Command, ctx: click.Context) -> Iterator[str]:
    yield f"### {ctx.command_path.removeprefix('treering ')}\n"
    yield f"`{ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}`\n"
    description, _, examples = inspect.cleandoc(command.help or "").partition("\b\nExamples:\n")
    yield description.strip() + "\n"
    options = [each for each in command.get_params(ctx) if isinstance(each, click.Option) and "--help" not in each.opts]
    records = [record for each in options if (record := each.get_help_record(ctx)) is not None]
    if records:
        yield "| option | |\n|---|---|"
        yield from (f"| `{names}` | {_cell(text)} |" for names, text in records)
        yield ""
    lines = [line[2:] for line in examples.rstrip().splitlines()]
    if lines:
        yield "\n".join(["```sh", *lines, "```\n"])
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _command(each, click.Context(each, ctx, info_name=name))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference())
