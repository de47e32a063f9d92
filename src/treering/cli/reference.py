"""The reference of the command line, docs/cli.md, made of what the commands say of themselves.

python -m treering.cli.reference > docs/cli.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import click

from . import main

_INTRODUCTION = """\
# The command line

This page is made of the commands themselves, by `python -m treering.cli.reference`.

**Which session.** SESSION is an id, the beginning of one, a name that a person gave, `last` (the one used last, which is the first
of the list), or the path of a file. Commands that only look take no lock and change no byte of it, so they work while another program writes.

**Where sessions are.** Under one directory, the root: `--root DIRECTORY`, else the environment's `TREERING_ROOT`, else the
platform's place for such data (on Linux `~/.local/share/treering/sessions`, on macOS
`~/Library/Application Support/treering/sessions`). A file `config.toml` or `config.json` in the root holds the settings that
[catalog.md](catalog.md) lists; an unknown key is an error. This project is the directory in which a command runs.

```toml
# config.toml
auto_archive_after_days = 90
max_sessions_per_project = 200
```

**What goes where.** Stdout carries what was asked for and nothing else. Errors, warnings, progress and counts go to stderr;
`-q` leaves out progress and counts, and never what was asked for; `treering --verbose COMMAND` tells all details of a warning. Times
that people read are those of the system's zone, those in JSON are UTC. With `--json`, stdout is JSON: one document, or one line for
each entry or hit where they are written as they come. `NO_COLOR` and `FORCE_COLOR` are obeyed.

| exit status | means |
|---|---|
| 0 | done, also where nothing was found |
| 1 | an error, said in one sentence on stderr; of `doctor`, that something is wrong; of `import`, that a path could not be imported |
| 2 | wrong usage; or a terminal is needed and there is none |
| 130 | stopped by Ctrl-C, but for `follow`, which it ends with 0 |
"""


def reference() -> str:
    """Return the page."""
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
            assert command is not None  # it stands in the table
            yield from _command(command, click.Context(command, root, info_name=name))


def _command(command: click.Command, ctx: click.Context) -> Iterator[str]:
    yield f"### {ctx.command_path.removeprefix('treering ')}\n"
    yield f"`{ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}`\n"
    said, _, examples = inspect.cleandoc(command.help or "").partition("\b\nExamples:\n")
    yield said.strip() + "\n"
    shown = [each for each in command.get_params(ctx) if isinstance(each, click.Option) and "--help" not in each.opts]
    records = [record for each in shown if (record := each.get_help_record(ctx)) is not None]
    if records:
        yield "| option | |\n|---|---|"
        yield from (f"| `{names}` | {_cell(told)} |" for names, told in records)
        yield ""
    lines = [line[2:] for line in examples.rstrip().splitlines()]
    yield "\n".join(["```sh", *lines, "```\n"])
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _command(each, click.Context(each, ctx, info_name=name))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference())
