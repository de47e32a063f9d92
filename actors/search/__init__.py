"""Search: the full-text index beside the sessions, how it is kept up to date, and the search itself.

`searching` answers a search. `feeding` brings the index up to date before that, `portions` cuts what it reads into
pieces, `scope` decides which sessions are meant. `index` and `file` hold the index in SQLite. `hits` are the results.
"""
