"""Sessions of other programs: read into entries, and written where other programs are to take them up.

A program is one module, or one folder if it takes several, with one class like `Format`; `programs` lists them all.
CONTRIBUTING.md shows in ten steps how one is added, here or by a package of yours. Nothing here opens a session of ours
or knows a store or an actor; `actors.transfer` writes what is read here.
"""

from __future__ import annotations

from .base import CountTokens as CountTokens
from .base import ForeignSession as ForeignSession
from .base import Format as Format
from .base import WritesFile as WritesFile
from .base import WritesFolder as WritesFolder
from .chain import Chain as Chain
from .chain import derived_id as derived_id
from .json_lines import Notes as Notes
