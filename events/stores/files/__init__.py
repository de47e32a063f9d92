"""The file store: each log is a file of JSON lines, with one writer at a time.

Begin with `store`: the protocol, each call of which is handed to the room that carries it out. From the ground up:

- `names`: refs, paths, the files beside a log and the folders above it
- `locks`: which process may append
- `log`: one file, its lines, its torn tail, and the files beside it
- `logs`: the logs in memory, and their descriptors
- `durability`: flushes, the journal of durability "group", and its replay
- `ownership`: acquiring and releasing logs
- `writing`, `appender`: how lines reach the file
- `reading`: how they are read
- `packing`, `replacing`: compressing, replacing and removing whole files
- `listing`, `changes`, `watching`: which logs there are, what changed in them, and noticing that
- `root_folder`: the folder of the logs, as people and other programs see it
- `row_file`, `current`, `search`: what is kept for a catalog: rows, the current log of each project, the search index
"""

from .store import Durability as Durability
from .store import FileStore as FileStore
from .store import Writes as Writes
