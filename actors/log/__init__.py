"""One log as a host sees it, whoever owns it.

`source` is the one way to it, drawn with its states; `holder` is what holds it: nobody, a `follower`, which reads what
others may write, or an actor with its `owned_log`. All read through `open_log`, which has the index, and its `entries`,
with `bodies` as their cache. `whole_logs` writes and deletes whole ones.
"""
