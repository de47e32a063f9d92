"""The host: the runtime that finds, activates, supervises and passivates the actors of sessions.

`host` is what programs hold, `opening` and `lookup` are its calls on sessions, `core` is what it does for its handles,
`registry` keeps the live actors within bounds, `runtime` is what all actors share (the seams, the bounds, the
counters), `turns` says when tasks let each other go on, and `tasks` runs the host's own work. `keyed` and `names` are
sessions by key and the names of logs, `listing` follows the rows of all sessions. Where several hosts share a store,
`placement` says what becomes of a command for another host's session, `elsewhere` has it carried out there, and `calls`
are commands as bytes.
"""
