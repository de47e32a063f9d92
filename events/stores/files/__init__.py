"""The file store: each log is a file of JSON lines, with one writer at a time.

Begin with `store`: the protocol, each call of which is handed to the room that carries it out. From the ground up:

- `log`: one file, its lines, and the files beside it
- `ownership`: who may append to it
- `durability`: flushes, the journal of durability "group", and its replay
- `appending`: how lines reach the file
- `rewriting`, `backups`, `removal`, `archiving`: replacing, removing and compressing whole files
- `names`, `second_names`, `listing`, `scan`, `unreadable_folders`: finding logs under the root
- `watcher`, `notices`: noticing changes
"""

from .store import Durability as Durability
from .store import FileStore as FileStore
from .store import Writes as Writes
