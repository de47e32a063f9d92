"""Handles: what a program holds of a session, and the calls that it makes there.

`session` is the handle. Its calls are grouped by topic, each group a class in a file of its own that also does the
work: `reading` and `appending` are the base of all others (`fitting`, `explaining`, `compaction`, `open_calls`,
`branching`, `conversing`, `describing`, `exporting`). `shown_path` is one path as contexts show it. A handle holds no
file: it reads through the source of its log, and sends commands to the session's actor.
"""
