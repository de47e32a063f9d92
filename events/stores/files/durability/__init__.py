"""What survives a power cut: flushes, and the journal of durability "group".

`flushing` and `syncer` flush files. `journal` is the format, `own_journals` those of this host, `group_committer` their
rounds; `journal_replay`, `journal_voids` and `restoration` bring back what a power cut took.
"""
