"""The file store: each log is a file of JSON lines, with one writer at a time.

Where to find what:

- the store and its parts: `store` (begin here), `ownership`, `released`, `logs`, `log`
- a log's file: `head`, `table`, `tail`, `extent`, `open_files`, `mounts`
- appending to it: `appender`, `append_job`, `writer`, `creating`, `outcomes`, `resolving`
- making it durable: `flushing`, `folders`, `syncer`
- the journal of durability "group": `journal` (its format), `own_journals`, `group_committer`, `landed`
- its replay: `journal_replay`, `restoration`, `journal_voids`
- files beside a log: `beside` (their names), `snapshots`, `records`, `blob_files`, `backups`
- replacing and removing whole files: `atomic_files`, `rewriting`, `migration`, `removal`, `disk_errors`
- logs at rest: `archiving`, `packed`, `packed_disk`, `codecs`
- locks: `locks`, `private_locks`
- finding logs: `names`, `private_folder`, `second_names`, `listing`, `scan`, `unreadable_folders`
- reading without waiting, and noticing changes: `peek`, `watcher`, `notices`
"""

from .store import Durability as Durability
from .store import FileStore as FileStore
from .store import Writes as Writes
