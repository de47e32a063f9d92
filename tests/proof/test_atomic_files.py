"""Files that replace others are flushed and renamed, their folder is flushed, and they are never seen half-written."""

import os
from collections.abc import Sequence
from random import Random

import pytest

from treering import Message, SessionHost, text
from treering.events.stores.files import FileStore
from treering.testing.disks import Operation, RecordingDisk
from treering.testing.simulation import check_file, run
from treering.testing.simulation.determinism import AtOnce, SeededIds, VirtualClock

ROOT = "/data/sessions"
COPY = f"{ROOT}/copy.jsonl"


async def copy_a_session(disk: RecordingDisk) -> tuple[int, list[str]]:
    """Write a session and copy it; return the number of operations before the copy, and the copy's ids."""
    offload, random = AtOnce(), Random(0)
    store = FileStore(ROOT, durability="file", disk=disk, offload=offload)
    async with SessionHost(store=store, offload=offload, clock=VirtualClock(random), new_id=SeededIds(random)) as host:
        session = await host.create("original")
        await session.append_many([Message("user", (text(f"{number} {'x' * 600}"),)) for number in range(5)])
        begun = len(disk.operations)
        copied = await session.fork("copy")
        return begun, [entry.id or "" for entry in await copied.entries()]


async def move_the_leaf(disk: RecordingDisk) -> None:
    offload = AtOnce()
    store = FileStore(ROOT, durability="file", disk=disk, offload=offload)
    async with SessionHost(store=store, offload=offload) as host:
        session = await host.create("original")
        first = await session.append_message("user", "one")
        await session.append_message("user", "two")
        await session.branch(first)
        await session.reset_leaf()


def order(operations: Sequence[Operation], target: str) -> list[str]:
    """Return the operations on the way to a file, without repetitions."""
    node = next(each.node for each in operations if each.target == target or each.path.startswith(f"{target}.tmp-"))
    folder = os.path.dirname(target)
    kinds: list[str] = []
    temporary = {each.path for each in operations if each.target == target}
    for each in operations:
        mine = each.path in temporary or (each.kind == "sync_directory" and each.path == folder)
        if (mine or each.node == node) and kinds[-1:] != [each.kind]:
            kinds.append(each.kind)
    return kinds


@pytest.mark.feature("P-39", "P-40")
def test_a_file_is_flushed_before_it_is_renamed_and_its_folder_afterwards() -> None:
    disk = RecordingDisk()
    begun, _ = run(0, copy_a_session, disk)
    assert order(disk.operations[begun:], COPY)[:5] == ["open", "write", "datasync", "rename", "sync_directory"]
    disk = RecordingDisk()
    run(0, move_the_leaf, disk)
    leaf = f"{ROOT}/original.jsonl.leaf"
    at = [number for number, each in enumerate(disk.operations) if each.path.startswith(f"{leaf}.tmp-")]
    assert order(disk.operations[at[0] :], leaf)[:5] == ["open", "write", "datasync", "rename", "sync_directory"]


@pytest.mark.feature("P-38")
def test_no_crash_state_shows_a_partial_file() -> None:
    disk = RecordingDisk()
    begun, ids = run(0, copy_a_session, disk)
    states = 0
    for left in disk.crash_states(since=begun):
        data = left.files().get(COPY)
        states += 1
        if data is not None:
            assert [entry.id for entry in check_file(data, COPY).entries if entry is not None] == ids
    assert states > 10
    assert not [path for path in disk.memory.files() if ".tmp-" in path]
