"""Files of other programs that were given in place of a session: what they are, and how to import them."""

from __future__ import annotations

import shlex
from pathlib import Path


def advice_on(path: str) -> str | None:
    """Return what a foreign file is and how to import it, or None if its format is unknown."""
    from ..events.errors import ForeignFormatError
    from ..formats.opening import head_of
    from ..formats.programs import formats

    source = Path(path)
    try:
        head = head_of(source)
        format = next((each for each in formats() if each.detects(source, head)), None)
    except (ForeignFormatError, OSError):  # it is gone or unreadable, which has been reported already
        return None
    if format is None or format.is_dialect:
        return None
    return f"it is a session of {format.title}: import it with `treering import {shlex.quote(path)}`"
