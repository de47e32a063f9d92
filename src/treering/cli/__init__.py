"""The command line: what a person or a script asks of sessions.

Sessions are named by id or name, under a root (see `home`), or by the path of a file. What looks opens read-only: it takes
no lock, changes no byte of a session, and works while another process writes.

Stdout carries what was asked for and nothing else; errors, warnings, progress and counts go to stderr, and `-q` leaves
counts and progress out. The exit status is 0, 1 for an error (said in one sentence), or 2 for wrong usage or where a
terminal is needed and there is none.

One file per command, loaded when it is run (`shelf`). Of what they share, `home` says where sessions are, `opening` gets one
session and tells of damage, `rows` and `telling` say in a line what a session or an entry is, `drawing` lays out the tree,
`picker` lets a person choose, `output` writes. rich is imported where people are shown something, and only then.
"""

from __future__ import annotations

import click

from .. import __version__
from .logs import be_verbose
from .output import prepare
from .shelf import Place, Section, Shelf

_SECTIONS = (
    Section(
        "Sessions",
        {
            "sessions": Place("sessions", "sessions", "List the sessions of this project, or of all."),
            "chat": Place("chat.command", "chat", "Talk with a model; everything is kept as it is said."),
            "resume": Place("resume", "resume", "Go on with a session; without one, choose it."),
            "current": Place("current", "current", "Show or set the current session of this project."),
            "info": Place("info", "info", "Show what is known of a session."),
            "search": Place("search", "search", "Find entries of all sessions by what they say."),
            "rename": Place("rename", "rename", "Give a session a name."),
            "label": Place("label", "label", "Bookmark an entry of a session, or take the bookmark away."),
            "compact": Place("compact", "compact", "Let a summary stand for the older part of a session."),
            "debug": Place("debug", "debug", "Look at what a model is sent."),
        },
    ),
    Section(
        "Keeping and moving",
        {
            "archive": Place("keeping", "archive", "Take sessions out of the listing; nothing of them is lost."),
            "unarchive": Place("keeping", "unarchive", "Bring archived sessions back."),
            "delete": Place("delete", "delete", "Delete sessions for good."),
            "gc": Place("gc", "gc", "Archive what the settings no longer keep among the others."),
            "export": Place(
                "export", "export", "Write a session for others: as a page, a text, a file of another program."
            ),
            "import": Place("importing", "import_", "Take in sessions of other programs, or from elsewhere."),
        },
    ),
    Section(
        "Looking into one",
        {
            "context": Place("context", "context", "Print what a model is shown of the path to the leaf."),
            "tree": Place("tree", "tree", "Draw all branches of a session; a dot marks the path to the leaf."),
            "labels": Place("labels", "labels", "List the labelled entries, those on the path to the leaf first."),
            "entries": Place(
                "entries",
                "entries",
                "Print the entries in the order of the file; with --leaf, only those on the path to it.",
            ),
            "follow": Place("follow", "follow", "Print each entry as another process appends it, until Ctrl-C."),
            "doctor": Place(
                "doctor",
                "doctor",
                "Examine session files, and those in directories at any depth, with what belongs to them.",
            ),
        },
    ),
    Section(
        "More",
        {
            "demo": Place("demo", "demo", "Play a short story with several agents, and show the tree it leaves."),
            "completion": Place("completion", "completion", "Print what makes a shell complete commands and sessions."),
        },
    ),
)


@click.group(cls=Shelf, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--verbose", is_flag=True, help="Tell all details of warnings; give it before the command.")
@click.version_option(__version__, prog_name="treering", message="%(prog)s %(version)s")
def main(verbose: bool) -> None:
    """Sessions of agents: find them, go on with them, look into them, move them.

    A SESSION is an id, the beginning of one, a name, `last`, or the path of a file.

    \b
    Examples:
      treering demo                      see what treering does
      treering sessions                  the sessions of this project
      treering resume                    choose one and go on with it
      treering search "connection lost"  in all sessions
      treering tree last                 all branches of the one used last
      treering doctor ~/sessions         what is damaged, by file, line and byte
    """
    prepare()
    be_verbose(verbose=verbose)
