"""Full-text search, without any input or output: queries, what of an entry is searched, snippets, the index's tables.

Who reads logs and runs statements is not this room's business.
"""
