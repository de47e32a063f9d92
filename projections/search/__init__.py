"""Full-text search, without input and output: queries, searchable text of entries, snippets, tables of the index.

Reading logs and executing SQL statements happens elsewhere.
"""
