"""Logs in files: one file of JSON lines each, with one writer at a time."""

from .store import Durability as Durability
from .store import FileStore as FileStore
from .store import Writes as Writes
