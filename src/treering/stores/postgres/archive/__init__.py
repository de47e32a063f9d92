"""Old logs as objects: outside the database, compressed, named by their content, read and brought back when needed."""
