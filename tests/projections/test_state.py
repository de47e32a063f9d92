"""The state of the work, read off tool calls, results and records of runs."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from treering.events.content import raw_json, tool_result, tool_use
from treering.events.entries import Custom, Entry, Header, Payload, ToolExecution, entry_class, message
from treering.projections.base import replay
from treering.projections.state import FileTouch, Task, WorkProjection, WorkState, apply_change

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(id="s", version=1, timestamp=START)
WORK = WorkProjection()


def entry(seq: int, payload: Payload) -> Entry:
    made: Any = entry_class(payload)
    body = {made.type: payload}
    return made(id=f"e{seq}", parent_id=None, timestamp=START, seq=seq, **body)  # type: ignore[no-any-return]


def after(*payloads: Payload) -> WorkState:
    return replay(WORK, HEADER, [entry(seq, each) for seq, each in enumerate(payloads, 1)])


def called(name: str, arguments: dict[str, object], call_id: str = "c") -> Payload:
    return message("assistant", tool_use(call_id, name, arguments))


def answered(call_id: str = "c", *, is_error: bool = False) -> Payload:
    return message("tool", tool_result(call_id, "done", is_error=is_error))


def ran(name: str, arguments: dict[str, object], *, success: bool = True) -> Payload:
    return ToolExecution("c", name, raw_json(arguments), success)


def files(state: WorkState) -> dict[str, str]:
    return {each.path: each.action for each in state.files}


@pytest.mark.parametrize(
    ("name", "arguments", "touched"),
    [
        ("read", {"path": "a"}, {"a": "read"}),
        ("Read", {"file_path": "a"}, {"a": "read"}),
        ("read_many_files", {"paths": ["a", "b"]}, {"a": "read", "b": "read"}),
        ("write", {"path": "a", "content": "x"}, {"a": "created"}),
        ("mcp__fs__write_file", {"path": "a"}, {"a": "created"}),
        ("create_file", {"path": "a"}, {"a": "created"}),
        ("edit", {"path": "a"}, {"a": "modified"}),
        ("MultiEdit", {"file_path": "a"}, {"a": "modified"}),
        ("string_replace", {"path": "a"}, {"a": "modified"}),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a"}, {"a": "read"}),
        ("str_replace_based_edit_tool", {"command": "create", "path": "a"}, {"a": "created"}),
        ("str_replace_editor", {"command": "str_replace", "path": "a"}, {"a": "modified"}),
        ("delete_file", {"path": "a"}, {"a": "deleted"}),
        ("move_file", {"source": "a", "destination": "b"}, {"a": "deleted", "b": "created"}),
        ("bash", {"command": "rm a", "path": "a"}, {}),
        ("write", {"path": 7}, {}),
        ("write", {}, {}),
    ],
)
def test_what_a_tool_does_to_files(name: str, arguments: dict[str, object], touched: dict[str, str]) -> None:
    assert files(after(called(name, arguments), answered())) == touched
    assert files(after(ran(name, arguments))) == touched
    assert files(after(called(name, arguments), answered(), ran(name, arguments))) == touched


def test_a_patch_names_its_files() -> None:
    patch = """*** Begin Patch
*** Add File: new
+x
*** Update File: old
@@
*** Update File: from
*** Move to: to
*** Delete File: gone
*** End Patch"""
    state = after(called("apply_patch", {"input": patch}), answered())
    assert files(state) == {
        "new": "created",
        "old": "modified",
        "from": "deleted",
        "to": "created",
        "gone": "deleted",
    }


def test_only_what_succeeded_counts() -> None:
    arguments: dict[str, object] = {"path": "a"}
    assert after(called("write", arguments)).files == ()
    assert after(called("write", arguments), answered(is_error=True)).files == ()
    assert after(ran("write", arguments, success=False)).files == ()
    assert after(answered()).files == ()


@pytest.mark.parametrize(
    ("tools", "stands"),
    [
        (["create", "edit"], "created"),
        (["create", "read"], "created"),
        (["read", "write"], "modified"),
        (["edit", "write"], "modified"),
        (["edit", "read"], "modified"),
        (["create", "delete"], "deleted"),
        (["delete", "read"], "deleted"),
        (["delete", "write"], "created"),
        (["write", "write"], "created"),
    ],
)
def test_actions_on_one_file_are_put_together(tools: list[str], stands: str) -> None:
    assert files(after(*(ran(name, {"path": "a"}) for name in tools))) == {"a": stands}


def test_files_come_in_the_order_of_the_first_touch_and_read_ones_are_not_modified() -> None:
    state = after(
        ran("read", {"path": "b"}), ran("edit", {"path": "a"}), ran("edit", {"path": "c"}), ran("rm", {"path": "a"})
    )
    assert state.files == (FileTouch("b", "read"), FileTouch("a", "deleted"), FileTouch("c", "modified"))
    assert state.modified_files == (FileTouch("a", "deleted"), FileTouch("c", "modified"))


def test_calls_are_open_until_their_results_come() -> None:
    batch = message("assistant", [tool_use("one", "read", {"path": "a"}), tool_use("two", "bash")])
    assert [(call.id, call.name, call.entry_id) for call in after(batch).open_calls] == [
        ("one", "read", "e1"),
        ("two", "bash", "e1"),
    ]
    assert [call.id for call in after(batch, answered("two", is_error=True)).open_calls] == ["one"]
    assert after(batch, answered("one"), answered("two")).open_calls == ()
    again = after(called("bash", {}, "one"), called("edit", {"path": "a"}, "one"))
    assert [(call.id, call.name) for call in again.open_calls] == [("one", "edit")]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("TodoWrite", {"todos": [{"content": "dig", "status": "completed"}, {"content": "fill"}, "junk", {}]}),
        ("update_plan", {"plan": [{"step": "dig", "status": "completed"}, {"step": "fill", "status": "pending"}]}),
    ],
)
def test_the_plan_is_what_was_last_written(name: str, arguments: dict[str, object]) -> None:
    state = after(ran("todo", {"tasks": [{"title": "old"}]}), called(name, arguments), answered())
    assert state.tasks == (Task("dig", "completed"), Task("fill", "pending"))
    assert after(ran(name, {"nothing": 1})).tasks == ()
    assert after(ran(name, arguments), ran(name, {"todos": []})).tasks == ()


def test_the_original_task_is_the_first_user_message() -> None:
    state = after(message("system", "rules"), message("user", "Fix the bug"), message("user", "and that one"))
    assert state.original_task == "Fix the bug"
    assert after(message("user", ()), message("user", "say")).original_task == "say"


def random_payload(rng: random.Random) -> Payload:
    path = {"path": rng.choice("abcd")}
    name = rng.choice(["read", "write", "edit", "delete", "todo", "bash"])
    arguments: dict[str, object] = {**path, "todos": [{"content": path["path"]}]}
    call_id = rng.choice(["1", "2", "3"])
    match rng.randrange(5):
        case 0 | 1:
            return called(name, arguments, call_id)
        case 2:
            return answered(call_id, is_error=rng.random() < 0.3)
        case 3:
            return ran(name, arguments, success=rng.random() < 0.8)
        case _:
            others: list[Payload] = [Custom("x"), message("user", "words")]
            return rng.choice(others)


def test_a_replica_that_applies_changes_equals_the_state_and_checkpoints_go_on() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        value = replica = WORK.initial(HEADER)
        entries = [entry(seq, random_payload(rng)) for seq in range(1, 30)]
        for each in entries:
            before = value
            value, change = WORK.apply(WORK.load(WORK.dump(value)), each)
            assert change is not None or value == before
            replica = apply_change(replica, change) if change else replica
            assert replica == value, (seed, each.seq)
        assert value == replay(WORK, HEADER, entries)


def test_a_state_is_made_and_encoded_as_it_reads() -> None:
    state = replay(WORK, HEADER, [entry(1, ran("read", {"path": "a.py"})), entry(2, ran("edit", {"path": "b.py"}))])
    assert state == WorkState(files=(FileTouch("a.py", "read"), FileTouch("b.py", "modified")))
    assert msgspec.json.decode(msgspec.json.encode(state))["files"] == [
        {"path": "a.py", "action": "read"},
        {"path": "b.py", "action": "modified"},
    ]


def test_a_state_stays_as_it_is_when_work_goes_on() -> None:
    states = [WORK.initial(HEADER)]
    for seq in range(1, 40):
        states.append(WORK.apply(states[-1], entry(seq, ran("write", {"path": f"{seq % 30}.py"})))[0])
    for count, state in enumerate(states):
        assert [each.path for each in state.files] == [f"{seq % 30}.py" for seq in range(1, min(count, 30) + 1)]
