"""The host: the runtime that finds, activates, supervises and passivates the actors of sessions.

`host` is what programs hold, `core` what it does for its handles, `registry` the live actors, `lookup` finds sessions,
`runtime` what all actors share (the seams, the bounds, the counters), `turns` when tasks let each other go on, and
`host_task` the task in which the host's own work runs. `keyed` and `keys` are sessions by key.
"""
