"""What may be kept beside a log, by name; a store may make the name a part of a file's."""

from __future__ import annotations

import re

from ..errors import InvalidInput
from .base import BlobKind

VIEW = "view-"
"""How the names of the checkpoints of projections begin."""

_KIND = re.compile(rf"index|leaf|{VIEW}[A-Za-z0-9_-]{{1,64}}")


def check_kind(kind: BlobKind) -> BlobKind:
    """Return the name of something that is kept beside a log.

    Raises:
        InvalidInput: It is none, or could not be part of a file's name.
    """
    if not _KIND.fullmatch(kind):
        raise InvalidInput(f"{kind!r} cannot be kept: name a projection with 1 to 64 letters, digits, '-' and '_'")
    return kind
