"""One log file: its lines, what changed in it, and the files beside it.

Begin with `log`. `head` and `table` say what a file holds, `tail` mends its end, `extent` recognizes it again,
`snapshots`, `records` and `blob_files` lie beside it under the names of `beside`, and `peek` reads without waiting.
Nothing here knows of other logs.
"""
