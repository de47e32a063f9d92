"""Exports: the selection of a session's lines, the formats, and the destination."""
