"""Search: the full-text index beside the sessions, how it is kept up to date, and the search itself.

`searching` answers a search. `updating` brings the index up to date before that, `portions` defines the pieces in which
it does so, `scope` decides which sessions are searched. `index` and `file` hold the index in SQLite. `hits` are the
results.
"""
