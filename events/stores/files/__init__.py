"""The file store: each log is a file of JSON lines, with one writer at a time."""

from .store import Durability as Durability
from .store import FileStore as FileStore
from .store import Writes as Writes
