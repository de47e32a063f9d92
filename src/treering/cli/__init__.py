"""The command line, for people and scripts.

A session is named by its id or name, under a root (see `home`), or by the path of its file. Commands that only read
open it read-only: they take no lock, do not change the file, and work while another process writes.

Stdout carries results and nothing else; errors, warnings, progress and counts go to stderr, and `-q` suppresses counts
and progress. The exit status is 0, 1 for an error (described in one sentence), or 2 for wrong usage or a missing
terminal.

There is one module per group of commands in `commands`, and one package for `chat`, loaded when a command runs
(`command_list`); before that, nothing of the library is. They share these: `options` is what people give a command,
`home` locates sessions, `opening` opens one and reports damage, `rows` has sessions and entries in one line each,
`columns` fits lines into a terminal, `messages` words what goes wrong, `output` writes. rich is imported for progress,
and to measure characters of unusual width; prompt_toolkit only at a terminal, when a person's keys need it.
"""

from __future__ import annotations

import click

from .. import __version__
from .command_list import Lazy, LazyCommands, Section

_SECTIONS = (
    Section(
        "Sessions",
        {
            "sessions": Lazy("commands.sessions", "List the sessions of this project, or of all projects."),
            "chat": Lazy("chat.command", "Talk with a model; every message is stored at once."),
            "resume": Lazy("chat.command", "Resume a session, by name or chosen from a list."),
            "current": Lazy("commands.sessions", "Show or set the current session of this project."),
            "info": Lazy("commands.info", "Show the details of a session."),
            "search": Lazy("commands.search", "Search the entries of all sessions."),
            "rename": Lazy("commands.sessions", "Give a session a name."),
            "label": Lazy("commands.entries", "Label an entry of a session, or remove its label."),
            "compact": Lazy("commands.contexts", "Replace the older part of a session's context with a summary."),
            "debug": Lazy("commands.contexts", "Inspect what a model is sent."),
        },
    ),
    Section(
        "Archiving and moving",
        {
            "archive": Lazy("commands.keeping", "Archive sessions: keep them, and leave them out of the listing."),
            "unarchive": Lazy("commands.keeping", "Restore archived sessions."),
            "delete": Lazy("commands.keeping", "Delete sessions for good."),
            "gc": Lazy("commands.keeping", "Archive old sessions, according to the settings."),
            "export": Lazy("commands.transfer", "Export a session as a page, a text, or a file of another program."),
            "copy": Lazy("commands.moving", "Copy all sessions to another place, such as a database, byte for byte."),
            "hand-over": Lazy("commands.moving", "Hand a session over to another program, which goes on with it."),
            "import": Lazy("commands.transfer", "Import sessions from other programs, or from another place."),
        },
    ),
    Section(
        "Inspecting a session",
        {
            "context": Lazy("commands.contexts", "Print what a model sees of the path to the leaf."),
            "tree": Lazy("commands.tree", "Draw all branches of a session; a dot marks the path to the leaf."),
            "labels": Lazy("commands.entries", "List labelled entries, those on the path to the leaf first."),
            "entries": Lazy(
                "commands.entries", "Print the entries in file order; with --leaf, those on the path to it."
            ),
            "follow": Lazy("commands.entries", "Print each entry as another process appends it, until Ctrl-C."),
            "doctor": Lazy(
                "commands.doctor", "Check sessions and what belongs to them, in files or whole directories."
            ),
        },
    ),
    Section(
        "Serving",
        {
            "serve": Lazy("commands.serving", "Serve the sessions of a directory over HTTP, until SIGTERM or Ctrl-C."),
            "mcp": Lazy("commands.serving", "Let an agent look up sessions, over the Model Context Protocol by stdio."),
            "token": Lazy("commands.serving", "Manage the tokens by which a server knows who asks."),
            "hosts": Lazy("commands.postgres", "List the hosts that share a database, and drain one of them."),
            "postgres": Lazy("commands.postgres", "Look after a PostgreSQL database of sessions."),
        },
    ),
    Section(
        "More",
        {
            "demo": Lazy("commands.demo", "Play a short story with several agents, and draw the resulting tree."),
            "completion": Lazy("options", "Print a completion script for a shell."),
        },
    ),
)


@click.group(cls=LazyCommands, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--verbose", is_flag=True, help="Show all details of warnings; put it before the command.")
@click.version_option(__version__, prog_name="treering", message="%(prog)s %(version)s")
def main(verbose: bool) -> None:
    """Find, resume, inspect and move sessions of agents.

    A SESSION is an id, the beginning of one, a name, `last`, or the path of a file.

    \b
    Examples:
      treering demo                      see what treering does
      treering sessions                  list the sessions of this project
      treering resume                    choose a session and continue it
      treering search "connection lost"  search all sessions
      treering tree last                 all branches of the most recent session
      treering doctor ~/sessions         report damage, by file, line and byte
    """
    from .messages import be_verbose
    from .output import prepare

    prepare()
    be_verbose(verbose=verbose)
