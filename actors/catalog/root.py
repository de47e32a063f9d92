"""The default root, shared by the command line and by programs that use the same sessions."""

from __future__ import annotations

import os
from pathlib import Path

from ...events.arguments import folder_of

ROOT = "TREERING_ROOT"
"""The environment variable that sets the root."""


def default_root() -> Path:
    """Return the root that the command `treering` uses, so that a program and the command see the same sessions.

    It is the value of the environment variable `TREERING_ROOT`, a path or a `file:` URL, or else the platform's folder
    for application data: on Linux `~/.local/share/treering/sessions`, on macOS
    `~/Library/Application Support/treering/sessions`. It may not exist yet.

    Raises:
        InvalidInput: The variable begins like an address, such as "sqlite:"; see `SessionHost`.
    """
    configured = os.environ.get(ROOT)
    if configured:
        return Path(os.path.abspath(os.path.expanduser(folder_of(configured, ROOT))))
    from platformdirs import user_data_path  # not needed to import the package

    return user_data_path("treering", appauthor=False) / "sessions"
