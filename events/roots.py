"""Texts that name a root: paths of directories, and no addresses of other kinds of stores."""

from __future__ import annotations

import os
import re

from .errors import InvalidInput

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


def check_root(root: str | os.PathLike[str], what: str = "the root") -> None:
    """Refuse a text that begins like an address, with a word of two or more characters and a colon.

    As a path, it would silently become a directory of that name. A `Path` is always a path, and so is a text with a
    single letter before the colon, as the drives of Windows have.

    Args:
        root: What the caller gave.
        what: The caller's name for it.

    Raises:
        InvalidInput: It begins like an address.
    """
    scheme = _SCHEME.match(root) if isinstance(root, str) else None
    if scheme is not None:  # the rest is not repeated, since it may hold a password
        raise InvalidInput(
            f"{what} begins with {scheme[0]!r}, like an address, but sessions are kept in directories: give the path "
            f"of one, or './{scheme[0]}…' if its name really begins so"
        )
