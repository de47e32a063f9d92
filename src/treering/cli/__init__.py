"""The command line: what a person or a script asks of session files.

Every command opens its file read-only: it takes no lock, changes no byte, and works while another process writes. Only
`doctor --repair` writes, and only under the locks of the sessions that it mends.
Stdout carries what was asked for and nothing else; errors, warnings and counts go to stderr. The exit status is 0, 1
for an error (said in one sentence), or 2 for wrong usage.

One file per command. Of what they share, `opening` gets a session and tells of damage, `telling` says in a line what an
entry is, `drawing` lays out the tree, `output` writes. rich is imported where people are shown something, and only then.
"""

from __future__ import annotations

import click

from .. import __version__
from .context import context
from .demo import demo
from .doctor import doctor
from .entries import entries
from .follow import follow
from .labels import labels
from .output import Commands, prepare
from .tree import tree


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="treering", message="%(prog)s %(version)s")
def main() -> None:
    """Look into agent session files: native, pi and oh-my-pi.

    \b
    Examples:
      treering demo                      see what treering does
      treering tree session.jsonl        all branches of a session
      treering context session.jsonl     what a model is shown of it
      treering doctor ~/sessions         what is damaged, by file, line and byte
    """
    prepare()


for command in (context, tree, labels, entries, follow, doctor, demo):
    main.add_command(command)
