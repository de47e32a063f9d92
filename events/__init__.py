"""The write side: entries, their dialects, the logs that hold them and the stores that hold the logs.

This package knows nothing of actors or views. It can be used by itself to read and write session files.
"""
