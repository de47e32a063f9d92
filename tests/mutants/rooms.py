"""The rooms whose faults the tests must notice: the files of each, relative to the checkout."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

_STORE = "events/stores/files/"

ROOMS: dict[str, tuple[str, ...]] = {
    "deciding": ("actors/decide.py", "events/index.py", "events/ids.py"),
    "writer": (_STORE + "writing.py", _STORE + "replacing.py", _STORE + "durability/flushing.py"),
    "appender": (_STORE + "appender.py", _STORE + "logs.py", _STORE + "reading.py"),
    "tails": (_STORE + "log/backups.py", "events/disk/atomic*.py", "events/disk/notices.py", _STORE + "changes.py"),
    "log": (_STORE + "log/log.py", _STORE + "log/state.py", _STORE + "log/head.py"),
    "table": (_STORE + "log/table.py", _STORE + "log/records.py"),
    "journal": (
        _STORE + "durability/journal.py",
        _STORE + "durability/own_journals.py",
        _STORE + "durability/group_committer.py",
    ),
    "replay": (_STORE + "durability/journal_replay.py", _STORE + "durability/restoration.py"),
    "locks": (_STORE + "locks.py", _STORE + "ownership.py"),
    "mailbox": ("actors/mailbox.py", "actors/host/turns.py"),
    "actor": ("actors/actor.py", "actors/batches.py", "actors/folds.py"),
    "owned log": ("actors/log/owned_log.py", "actors/log/open_log.py", "actors/log/source.py", "actors/log/entries.py"),
    "blocking facade": ("actors/sync/*.py",),
    "cuts": ("projections/cuts.py",),
    "contexts": ("projections/context*.py", "projections/building/*.py"),
    "feed": ("projections/feed.py", "projections/views.py"),
    "subscriptions": ("projections/subscriptions.py", "actors/log/follower.py"),
    "keys": ("actors/host/names.py", "actors/host/keyed.py"),
    "redaction": ("events/redaction.py", "events/secret_forms.py"),
    "retention": ("actors/catalog/archiving.py", _STORE + "packing.py", "events/disk/packed*.py"),
    "catalog index": (_STORE + "row_file.py", "actors/catalog/writing.py"),
    "snapshots": (_STORE + "log/snapshots.py",),
    "native dialect": ("events/dialects/native.py", "events/dialects/base.py"),
    "pi dialect": ("events/dialects/pi/*.py", "events/dialects/base.py"),
}


def files_of(room: str) -> list[Path]:
    """Return the files of a room.

    Raises:
        FileNotFoundError: A file was renamed or removed, and this table was not.
    """
    files: list[Path] = []
    for pattern in ROOMS[room]:
        found = sorted(CHECKOUT.glob(pattern))
        if not found:
            raise FileNotFoundError(f"room {room!r} names {pattern}, which does not exist: correct {__file__}")
        files += found
    return files
