"""The tables that the mutants are run by name what is there: a module that moves takes its lines along."""

from __future__ import annotations

from .__main__ import EQUIVALENT, all_faults
from .rooms import ROOMS


def test_each_room_has_its_files_and_each_excused_fault_exists() -> None:
    planted = {fault.id for room in ROOMS for fault in all_faults(room)}
    assert not EQUIVALENT.keys() - planted
