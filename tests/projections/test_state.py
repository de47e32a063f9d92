"""The state of the work, derived from tool calls, results and execution records."""

import random
from datetime import UTC, datetime

import msgspec
import pytest

from treering.events.content import tool_result, tool_use
from treering.events.entries import Custom, Entry, Header, Payload, ToolExecution, entry_of, message
from treering.events.json_values import raw_json
from treering.projections.base import replay
from treering.projections.state import FileTouch, Task, WorkProjection, WorkState, apply_change

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(id="s", version=1, timestamp=START)
WORK = WorkProjection()


def entry(seq: int, payload: Payload) -> Entry:
    return entry_of(payload, id=f"e{seq}", parent_id=None, timestamp=START, seq=seq)


def state_after(*payloads: Payload) -> WorkState:
    return replay(WORK, HEADER, [entry(seq, each) for seq, each in enumerate(payloads, 1)])


def call(name: str, arguments: dict[str, object], call_id: str = "c") -> Payload:
    return message("assistant", tool_use(call_id, name, arguments))


def result(call_id: str = "c", *, is_error: bool = False) -> Payload:
    return message("tool", tool_result(call_id, "done", is_error=is_error))


def execution(name: str, arguments: dict[str, object], *, success: bool = True) -> Payload:
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
def test_tools_change_the_state_of_files(name: str, arguments: dict[str, object], touched: dict[str, str]) -> None:
    assert files(state_after(call(name, arguments), result())) == touched
    assert files(state_after(execution(name, arguments))) == touched
    assert files(state_after(call(name, arguments), result(), execution(name, arguments))) == touched


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
    state = state_after(call("apply_patch", {"input": patch}), result())
    assert files(state) == {"new": "created", "old": "modified", "from": "deleted", "to": "created", "gone": "deleted"}


def test_only_successful_calls_count() -> None:
    arguments: dict[str, object] = {"path": "a"}
    assert state_after(call("write", arguments)).files == ()
    assert state_after(call("write", arguments), result(is_error=True)).files == ()
    assert state_after(execution("write", arguments, success=False)).files == ()
    assert state_after(result()).files == ()


@pytest.mark.parametrize(
    ("tools", "action"),
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
def test_several_actions_on_a_file_are_combined(tools: list[str], action: str) -> None:
    assert files(state_after(*(execution(name, {"path": "a"}) for name in tools))) == {"a": action}


def test_files_are_in_the_order_of_the_first_access_and_read_ones_are_not_modified() -> None:
    state = state_after(
        execution("read", {"path": "b"}),
        execution("edit", {"path": "a"}),
        execution("edit", {"path": "c"}),
        execution("rm", {"path": "a"}),
    )
    assert state.files == (FileTouch("b", "read"), FileTouch("a", "deleted"), FileTouch("c", "modified"))
    assert state.modified_files == (FileTouch("a", "deleted"), FileTouch("c", "modified"))


def test_calls_are_open_until_they_have_results() -> None:
    batch = message("assistant", [tool_use("one", "read", {"path": "a"}), tool_use("two", "bash")])
    assert [(call.id, call.name, call.entry_id) for call in state_after(batch).open_calls] == [
        ("one", "read", "e1"),
        ("two", "bash", "e1"),
    ]
    assert [call.id for call in state_after(batch, result("two", is_error=True)).open_calls] == ["one"]
    assert state_after(batch, result("one"), result("two")).open_calls == ()
    again = state_after(call("bash", {}, "one"), call("edit", {"path": "a"}, "one"))
    assert [(call.id, call.name) for call in again.open_calls] == [("one", "edit")]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("TodoWrite", {"todos": [{"content": "dig", "status": "completed"}, {"content": "fill"}, "junk", {}]}),
        ("update_plan", {"plan": [{"step": "dig", "status": "completed"}, {"step": "fill", "status": "pending"}]}),
    ],
)
def test_the_tasks_are_those_of_the_latest_plan(name: str, arguments: dict[str, object]) -> None:
    state = state_after(execution("todo", {"tasks": [{"title": "old"}]}), call(name, arguments), result())
    assert state.tasks == (Task("dig", "completed"), Task("fill", "pending"))
    assert state_after(execution(name, {"nothing": 1})).tasks == ()
    assert state_after(execution(name, arguments), execution(name, {"todos": []})).tasks == ()


def test_the_original_task_is_the_first_user_message() -> None:
    state = state_after(message("system", "rules"), message("user", "Fix the bug"), message("user", "and that one"))
    assert state.original_task == "Fix the bug"
    assert state_after(message("user", ()), message("user", "say")).original_task == "say"


def random_payload(rng: random.Random) -> Payload:
    path = {"path": rng.choice("abcd")}
    name = rng.choice(["read", "write", "edit", "delete", "todo", "bash"])
    arguments: dict[str, object] = {**path, "todos": [{"content": path["path"]}]}
    call_id = rng.choice(["1", "2", "3"])
    match rng.randrange(5):
        case 0 | 1:
            return call(name, arguments, call_id)
        case 2:
            return result(call_id, is_error=rng.random() < 0.3)
        case 3:
            return execution(name, arguments, success=rng.random() < 0.8)
        case _:
            others: list[Payload] = [Custom("x"), message("user", "words")]
            return rng.choice(others)


def test_a_replica_equals_the_state_and_a_loaded_checkpoint_continues() -> None:
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


def test_a_state_can_be_constructed_and_encoded() -> None:
    state = replay(
        WORK, HEADER, [entry(1, execution("read", {"path": "a.py"})), entry(2, execution("edit", {"path": "b.py"}))]
    )
    assert state == WorkState(files=(FileTouch("a.py", "read"), FileTouch("b.py", "modified")))
    assert msgspec.json.decode(msgspec.json.encode(state))["files"] == [
        {"path": "a.py", "action": "read"},
        {"path": "b.py", "action": "modified"},
    ]


def test_an_earlier_state_does_not_change() -> None:
    states = [WORK.initial(HEADER)]
    for seq in range(1, 40):
        states.append(WORK.apply(states[-1], entry(seq, execution("write", {"path": f"{seq % 30}.py"})))[0])
    for count, state in enumerate(states):
        assert [each.path for each in state.files] == [f"{seq % 30}.py" for seq in range(1, min(count, 30) + 1)]
