"""Search: what it finds, which sessions it looks through, and how the index that a store keeps is brought up to date.

`searching` answers a search. `updating` brings the index up to date before that, if the store keeps one, and `scope`
decides which sessions are searched. `hits` are the results.
"""
