"""The tables that the mutants are run by name what is there: a module that moves takes its lines along."""

from __future__ import annotations

from .__main__ import EQUIVALENT
from .faults import Fault, plant
from .rooms import CHECKOUT, ROOMS, files_of


def test_each_room_has_its_files_and_each_excused_fault_exists() -> None:
    files = {file.relative_to(CHECKOUT).as_posix() for room in ROOMS for file in files_of(room)}
    excused = {fault_id.partition(":")[0] for fault_id in EQUIVALENT}
    assert excused <= files
    planted: list[Fault] = []
    for file in excused:
        plant((CHECKOUT / file).read_text(), file, planted.append)
    assert EQUIVALENT.keys() <= {fault.id for fault in planted}
