"""Where sessions are when nobody says where: one place for the command line and for programs that share it."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = "TREERING_ROOT"
"""The environment's variable that says where the sessions are."""


def default_root() -> Path:
    """Return the root that the command `treering` uses, so that a program and the command see the same sessions.

    It is what the environment's `TREERING_ROOT` says, else the platform's place for the data of applications: on Linux
    `~/.local/share/treering/sessions`, on macOS `~/Library/Application Support/treering/sessions`. It need not be there yet.
    """
    given = os.environ.get(ROOT)
    if given:
        return Path(os.path.abspath(os.path.expanduser(given)))
    from platformdirs import user_data_path  # not needed to import the package

    return user_data_path("treering", appauthor=False) / "sessions"
