"""Full-text search, without input and output: queries, the searchable texts of a log, snippets.

Reading logs and keeping an index happens elsewhere.
"""
