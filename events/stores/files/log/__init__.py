"""One log file: its lines, what changed in it, and the files beside it.

Begin with `log`, and with `state` for what is known of a log. `head` and `table` say what a file holds, `backups` mends
its end and keeps what is cut or replaced; `snapshots` and `records` lie beside it. Nothing here knows of other logs.
"""
