"""The valid names of the data kept beside a log. A store may use them in file names."""

from __future__ import annotations

import re

from ..errors import InvalidInput
from .base import BlobKind

VIEW = "view-"
"""The prefix of the names of projection checkpoints."""

_KIND = re.compile(rf"index|leaf|{VIEW}[A-Za-z0-9_-]{{1,64}}")


def check_kind(kind: BlobKind) -> BlobKind:
    """Return `kind` if it is a valid name.

    Raises:
        InvalidInput: The name is unknown, or unsafe as part of a file name.
    """
    if not _KIND.fullmatch(kind):
        raise InvalidInput(
            f"{kind!r} cannot be kept beside a log: the name of a projection must be 1 to 64 letters, digits, '-', '_'"
        )
    return kind
