"""The table of entry types: what every declaration must say for the rooms that read it."""

import pytest
from msgspec.structs import fields

from treering.events.entries import ENTRY_CLASSES, ENTRY_TYPES, PAYLOADS, KnownEntry, Payload
from treering.events.kinds import MESSAGE_KINDS, TYPE_NAMES, Kind
from treering.projections.context import REARRANGING, RELEVANT


@pytest.mark.parametrize("entry_class", ENTRY_TYPES.values(), ids=ENTRY_TYPES)
def test_a_type_has_one_name_in_its_tag_its_field_and_its_class(entry_class: type[KnownEntry]) -> None:
    name = entry_class.type
    assert entry_class.__struct_config__.tag == name
    assert name in {each.name for each in fields(entry_class)}
    assert issubclass(PAYLOADS[name], Payload)
    assert ENTRY_CLASSES[PAYLOADS[name]] is entry_class


def test_no_two_types_have_one_number() -> None:
    numbers = [each.kind for each in ENTRY_TYPES.values()]
    assert len({*numbers}) == len(numbers)
    assert {*numbers}.isdisjoint({Kind.DAMAGED, Kind.ABORTED, Kind.RESET})
    assert all(number < Kind.FIRST_UNKNOWN for number in numbers)


def test_the_numbers_in_stored_snapshots_mean_what_they_meant() -> None:
    assert {number: TYPE_NAMES[number] for number in range(20) if number in TYPE_NAMES.keys() - {*MESSAGE_KINDS}} == {
        0: "damaged",
        1: "aborted",
        8: "model_change",
        9: "thinking_level",
        10: "label",
        11: "session_info",
        12: "compaction",
        13: "branch_summary",
        14: "custom",
        15: "custom_message",
        16: "tool_execution",
        17: "usage",
        18: "context_edit",
        19: "reset_boundary",
    }


def test_contexts_read_from_the_declarations_which_entries_they_need() -> None:
    assert {TYPE_NAMES[kind] for kind in RELEVANT} == {"message", "branch_summary", "custom_message", "context_edit"}
    assert {TYPE_NAMES[kind] for kind in REARRANGING} == {"compaction", "reset_boundary", "context_edit"}


def test_no_type_takes_the_name_of_a_custom_type_of_ours() -> None:
    assert {"opaque", "left_out", "summary"}.isdisjoint(PAYLOADS)
