"""Who may append to a log: the locks, the leases, and what has to be certain about a file before.

`locks` excludes other processes, `ownership` acquires and releases, `resolving` examines a log that is in doubt, and
`released` remembers what was known about logs that were given up.
"""
