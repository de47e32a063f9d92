"""Where the sessions of this machine are, for commands that take ids and names.

The root is the directory of the session files: `--root`, else the environment variable TREERING_ROOT, else `sessions`
in the platform's directory for application data (on Linux `~/.local/share/treering/sessions`, on macOS
`~/Library/Application Support/treering/sessions`). It may be the address of another store instead, such as
`postgresql://user@host/database`; then `roots/NAME` under application data stands in for it where something of this
machine is kept, and NAME is a hash of the address. A file `config.toml` or `config.json` there holds the settings::

    auto_archive_after_days = 90
    max_sessions_per_project = 200

With `--server`, or TREERING_SERVER, the sessions are those of a server (`treering serve`), and no root is touched.

An unknown key is an error; docs/catalog.md lists the settings. The project is the directory in which the command runs.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from ..actors.catalog.settings import application_folder, default_root, root_of
from ..events.errors import InvalidInput, TreeringError
from .messages import logs_on_stderr, sentence

if TYPE_CHECKING:
    from ..actors.catalog.settings import Settings
    from ..actors.host.host import SessionHost
    from ..projections.summary import SessionSummary

SERVER = "treering.server"
"""Where a command notes the address of the server whose sessions are meant."""

TOKEN = "TREERING_TOKEN"  # the name of a variable, not a token
"""The environment variable with a token: for the server that is asked, or of the one that is started."""

TOKEN_FILE = "treering.token_file"
"""Where a command notes the file with the token for that server."""

_CONFIG_NAMES = ("config.toml", "config.json")
"""The possible names of the settings file in the root."""

_PASSWORDS = re.compile(r"(?<=//)[^/?#]*@|(?<=[?&])[a-z]*password=[^&]*&?")
"""What an address may hold of secrets: the user with the password, and parameters."""

_TOKEN = re.compile(rb"[!-~]+")
_TOKEN_BYTES_MAX = 4096


class Home(Struct, frozen=True):
    """A root and a project.

    Attributes:
        root: The directory of the session files, which need not exist; or the address of another store or a server.
        project: The directory that the command runs in.
        server: The address of the server whose sessions are meant, if any.
        token_file: The file with the token for it; None for that of the environment.
    """

    root: str
    project: str
    server: str | None = None
    token_file: str | None = None

    @classmethod
    def at(cls, root: str | None = None) -> Home:
        """Return the home for a root, or for the server that the command names; by default that of the environment.

        Args:
            root: The directory, its `file:` URL, or the address of another store; `~` is expanded in a path.

        Raises:
            InvalidInput: It begins like an address of which no store is installed, such as "sqlite:".
        """
        context = click.get_current_context(silent=True)
        server = None if context is None or root else context.meta.get(SERVER)
        if context is not None and server is not None:
            return cls(server, os.getcwd(), server, context.meta.get(TOKEN_FILE))
        if not root:
            return cls(str(default_root()), os.getcwd())
        return cls(str(root_of(root, "--root")), os.getcwd())

    @property
    def is_folder(self) -> bool:
        """Whether the sessions are files of this machine."""
        return self.server is None and os.path.isabs(self.root)

    @property
    def place(self) -> str:
        """The root for messages: an address without its password."""
        return self.root if self.is_folder else _PASSWORDS.sub("", self.root)

    @property
    def folder(self) -> str:
        """The directory of the settings and tokens: the root, or what stands in for one that is an address."""
        if self.is_folder:
            return self.root
        return str(application_folder() / "roots" / hashlib.sha256(self.place.encode()).hexdigest()[:16])

    @property
    def config(self) -> str | None:
        """The path of the settings file, or None.

        Raises:
            InvalidInput: There are two settings files.
        """
        paths = [path for name in _CONFIG_NAMES if os.path.lexists(path := os.path.join(self.folder, name))]
        if len(paths) > 1:
            raise InvalidInput(f"there are two settings files, {' and '.join(paths)}: remove one")
        return paths[0] if paths else None

    def settings(self) -> Settings:
        """Read the settings; without a file, return the defaults.

        Raises:
            InvalidInput: A key is unknown, a value cannot be used, or the file is not valid TOML or JSON.
            OSError: The file cannot be read.
        """
        from ..actors.catalog.settings import Settings

        path = self.config
        return Settings() if path is None else Settings.load(path)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[SessionHost, None]:
        """Open a host on the root, with its log events on stderr.

        Raises:
            InvalidInput: The settings cannot be used.
            OSError: The settings cannot be read.
        """
        if self.server is not None:
            from ..remote import RemoteHost

            token = token_in(self.token_file) if self.token_file is not None else os.environ.get(TOKEN) or None
            with logs_on_stderr():
                async with RemoteHost(self.server, token=token) as remote:
                    yield remote
            return
        from ..actors.host.host import SessionHost

        with logs_on_stderr():
            async with SessionHost(self.root, settings=self.settings()) as host:
                yield host


def token_in(path: str | os.PathLike[str]) -> str:
    """Return the token that a file holds, which may be a pipe.

    Raises:
        InvalidInput: It holds none.
        OSError: The file cannot be read.
    """
    with open(path, "rb") as file:
        token = file.read(_TOKEN_BYTES_MAX).strip()
    if not _TOKEN.fullmatch(token):
        raise InvalidInput(f"{os.fspath(path)} holds no token: write one into it, without spaces")
    return token.decode()


async def resolve_each(host: SessionHost, sessions: Sequence[str]) -> list[SessionSummary]:
    """Resolve sessions before anything is done with them, and return each once.

    Raises:
        SessionNotFound: One of them does not exist.
        AmbiguousSession: A text matches several sessions.
    """
    rows = [await host.resolve(each) for each in sessions]
    return list({row.ref: row for row in rows}.values())


async def do_each(
    rows: Sequence[SessionSummary], change: Callable[[SessionSummary], Awaitable[object]]
) -> list[SessionSummary]:
    """Change each session; report errors and continue with the others; return those that were changed."""
    done: list[SessionSummary] = []
    for row in rows:
        try:
            await change(row)
        except (TreeringError, OSError) as error:
            if len(rows) == 1:
                raise
            click.echo(f"treering: {sentence(error)}", err=True)
        else:
            done.append(row)
    return done
