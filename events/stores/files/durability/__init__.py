"""What survives a power cut: flushes, and the journal of durability "group".

`flushing` flushes files, many at a time. `journal` is the format, `own_journals` those of this host, `group_committer`
their rounds; `journal_replay` and `restoration` bring back what a power cut took.
"""
