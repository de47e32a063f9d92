"""Where the sessions of this machine are, for the commands that go by ids and names and not by files.

The root is the directory that holds the session files: `--root`, else what TREERING_ROOT says, else `sessions` in the
directory that the platform gives to the data of applications (on Linux `~/.local/share/treering/sessions`, on macOS
`~/Library/Application Support/treering/sessions`). A file `config.toml` or `config.json` in it holds the settings::

    auto_archive_after_days = 90
    max_sessions_per_project = 200

An unknown key is an error; what can be set is in docs/catalog.md. The project is the directory in which the command runs.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from ..actors.catalog.root import ROOT, default_root
from ..events.errors import InvalidInput, TreeringError
from .logs import telling_logs
from .output import run

if TYPE_CHECKING:
    from ..actors.catalog.settings import Settings
    from ..actors.host import SessionHost
    from ..projections.summary import SessionSummary

CONFIG_NAMES = ("config.toml", "config.json")
"""What the file with the settings may be called, in the root."""


class Home(Struct, frozen=True):
    """Where sessions are, and for which project they are asked for.

    Attributes:
        root: The directory of the session files; it need not be there yet.
        project: The directory that the command runs in.
    """

    root: str
    project: str

    @classmethod
    def at(cls, root: str | None = None) -> Home:
        """Return the home at a root, else at the environment's, else at the platform's own.

        Args:
            root: The directory; `~` is the user's.
        """
        found = os.path.abspath(os.path.expanduser(root)) if root else str(default_root())
        return cls(found, os.getcwd())

    @property
    def config(self) -> str | None:
        """The file with the settings; None where there is none.

        Raises:
            InvalidInput: There are two.
        """
        found = [path for name in CONFIG_NAMES if os.path.lexists(path := os.path.join(self.root, name))]
        if len(found) > 1:
            raise InvalidInput(f"there are {' and '.join(found)}: take one of them away")
        return found[0] if found else None

    def settings(self) -> Settings:
        """Read the settings; all of them have their defaults where there is no file.

        Raises:
            InvalidInput: A key is unknown, a value cannot be used, or the file is no TOML or JSON.
            OSError: The file cannot be read.
        """
        from ..actors.catalog.settings import Settings

        path = self.config
        return Settings() if path is None else Settings.load(path)

    @asynccontextmanager
    async def opened(self, *, signals: bool = False) -> AsyncGenerator[SessionHost, None]:
        """Open a host on the root; what it logs is told on stderr.

        Args:
            signals: Let it drain and exit on SIGTERM and SIGINT.

        Raises:
            InvalidInput: The settings cannot be used.
            OSError: The settings cannot be read.
        """
        from ..actors.host import SessionHost

        with telling_logs():
            async with SessionHost(self.root, settings=self.settings(), signals=signals) as host:
                yield host


root_option = click.option(
    "--root",
    metavar="DIRECTORY",
    type=click.Path(file_okay=False, readable=False),
    help=f"Where the sessions are; else what {ROOT} says, else the platform's own place.",
)
"""Another root. Make of it what `Home.at` does."""


def session_completion(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the sessions whose ids begin as what was typed so far; where there are none, it may be a file."""
    try:
        rows = run(_rows, Home.at(ctx.params.get("root")))
    except (TreeringError, OSError):  # a shell that completes shows no errors
        rows = []
    found = [CompletionItem(row.id, help=row.title) for row in rows if row.id.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


session_argument = click.argument("session", metavar="SESSION", shell_complete=session_completion)
"""A session by its id, the beginning of one, its name, `last`, or the path of its file."""

sessions_argument = click.argument(
    "sessions", metavar="SESSION...", nargs=-1, required=True, shell_complete=session_completion
)
"""One session or several."""


async def _rows(home: Home) -> list[SessionSummary]:
    async with home.opened() as host:
        return await host.list_sessions()
