"""One log file: its lines, what changed in it, and the files beside it.

Begin with `log`, and with `state` for what is known of a log. `head` and `table` say what a file holds, `tail` mends
its end, `backups` keeps what is replaced; `snapshots` and `records` lie beside it. Nothing here knows of other logs.
"""
