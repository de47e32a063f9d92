"""Exports: what of a session goes into one, how it is written, and where it is put."""
