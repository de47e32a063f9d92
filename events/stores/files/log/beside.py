"""The names of the files beside a log `abc.jsonl`, and their removal.

    abc.jsonl.index                     the snapshot, derived: see `snapshots`
    abc.jsonl.leaf                      the leaf record, state: see `records`
    abc.jsonl.view-<name>               the checkpoint of a projection, derived: see `records`
    abc.jsonl.torn-<offset>-<crc32>     a fragment: see `tail`
    abc.jsonl.bak                       a backup: see `backups`

Fragments and backups hold copies of what the log contained. They are deleted only together with the log.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from ....disk import Disk
from ...checks import VIEW

INDEX_SUFFIX = ".index"
LEAF_SUFFIX = ".leaf"

BESIDE = re.compile(
    r"(?P<kind>|\.index|\.leaf|\.view-[A-Za-z0-9_-]{1,64}|\.torn-(?P<offset>\d+)-(?P<crc>[0-9a-f]{8})|\.bak(?:-\d+)?"
    r"|\.(?:zst|gz)(?=\.tmp-))"
    r"(?P<temporary>\.tmp-\d+-\d+)?"
)
"""What follows a log's name in the names of the files beside it; for the log itself, nothing."""

_NUMBERED = re.compile(r"-\d+$")  # appended when a repair moved several files of one name aside


def remove_copies(disk: Disk, folder: str, name: str) -> None:
    """Delete all files beside a log in a folder, except the log, its packed form and its leaf record.

    These are the fragments and backups of the log, unfinished temporary files, and derived files. A folder that does
    not exist is treated as empty.

    Args:
        disk: The disk.
        folder: The folder.
        name: The file name of the log.

    Raises:
        OSError: A file cannot be deleted.
    """
    try:
        names = disk.list_directory(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    for file_name in names:
        if file_name in (name, name + LEAF_SUFFIX) or not file_name.startswith(name):
            continue
        if BESIDE.fullmatch(file_name, len(name)) or BESIDE.fullmatch(_NUMBERED.sub("", file_name), len(name)):
            with suppress(FileNotFoundError):
                disk.unlink(os.path.join(folder, file_name))


def remove_derived(disk: Disk, path: str) -> None:
    """Delete the derived files beside a log: its snapshot and its checkpoints."""
    folder, name = os.path.split(path)
    derived = {name + INDEX_SUFFIX}
    with suppress(FileNotFoundError):
        derived |= {each for each in disk.list_directory(folder) if each.startswith(f"{name}.{VIEW}")}
    for file_name in sorted(derived):
        with suppress(FileNotFoundError):
            disk.unlink(f"{folder}/{file_name}")
