"""Handles: what a program holds of a session, and the calls that it makes there.

`session` is the handle; `handle` is its base, and the calls are grouped by topic: `appending`, `reading`, `fitting`,
`conversing`, `describing` and `exporting`. The other modules carry out what takes more than one command, such as a
compaction, a fork or the closing of open calls. A handle holds no file: it sends commands to the session's actor.
"""
