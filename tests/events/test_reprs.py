"""The repr of values and handles: their content, without defaults and without memory addresses."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from treering import Message, MessageEntry, SessionHost, SyncHost, Usage, message, tool_result, tool_use
from treering.agents import Recovered, ToolSpec, Turn
from treering.entries import BashExecution, Custom, OpaqueEntry, Payload, SessionInfo, ToolExecution
from treering.events.json_values import raw_json


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (message("user", "Hello"), "Message(role='user', content=(TextPart(text=Text(content='Hello')),))"),
        (
            tool_use("1", "read", {"path": "a", "lines": [1, 2]}),
            'ToolUsePart(tool_use=ToolUse(id=\'1\', name=\'read\', input={"path":"a","lines":[1,2]}))',
        ),
        (tool_result("1", "é"), "ToolResultPart(tool_result=ToolResult(tool_use_id='1', content='é'))"),
        (Custom("mine"), "Custom(custom_type='mine')"),
        (Custom("mine", raw_json({"é": 1})), "Custom(custom_type='mine', data={\"é\":1})"),
        (SessionInfo("Mine"), "SessionInfo(name='Mine')"),
        (ToolExecution("1", "read", raw_json({})), "ToolExecution(tool_call_id='1', tool_name='read', arguments={})"),
        (Usage(input_tokens=3), "Usage(input_tokens=3)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_repr_of_a_value_shows_the_fields_that_are_set(value: object, expected: str) -> None:
    assert repr(value) == expected


async def test_the_repr_of_entries_shows_json_and_no_addresses() -> None:
    every: list[Payload] = [
        message("assistant", [tool_use("1", "run", {"a": 1})], metadata={"b": 2}),
        message("tool", [tool_result("1", "done")]),
        Message("bashExecution", bash=BashExecution("ls", "a", 0)),
        Custom("mine", raw_json([1])),
        SessionInfo(raw_metadata=raw_json({"c": 3})),
    ]
    async with SessionHost() as host:
        session = await host.create()
        await session.append_many(every)
        entries = await session.entries()
    assert " object at 0x" not in repr(entries)
    assert {type(entry) for entry in entries} >= {MessageEntry}
    for value in ('{"a":1}', '{"b":2}', "[1]", '{"c":3}'):
        assert value in repr(entries)


async def test_the_repr_of_open_calls_shows_their_input() -> None:
    expected = "OpenCall(id='1', name='run', input={\"a\":1}, message_id="
    async with SessionHost() as host:
        session = await host.create()
        await session.append_message("assistant", tool_use("1", "run", {"a": 1}))
        (call,) = await session.open_calls()
        recovery = await session.recover()
    assert repr(call).startswith(expected)
    for value in (recovery, Recovered(recovery), Turn((), Usage(), "suspended", (call,))):
        assert expected in repr(value)
        assert " object at 0x" not in repr(value)
    spec = ToolSpec.of("run", "Run.", parameters={"type": "object"})
    assert repr(spec) == "ToolSpec(name='run', description='Run.', parameters={\"type\":\"object\"})"


def test_the_repr_of_an_opaque_entry_shows_its_line() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    entry = OpaqueEntry(type="new", id="a", parent_id=None, timestamp=time, raw=msgspec.Raw(b'{"type":"new","b":1}'))
    assert repr(entry).startswith("OpaqueEntry(type='new', id='a', parent_id=None, timestamp=datetime.datetime(")
    assert 'raw={"type":"new","b":1}' in repr(entry)


def test_the_repr_of_a_host_shows_its_root_or_store(tmp_path: Path) -> None:
    assert repr(SessionHost(tmp_path)) == f"SessionHost({str(tmp_path)!r})"
    assert repr(SyncHost(tmp_path)) == f"SyncHost({str(tmp_path)!r})"
    assert repr(SessionHost()) == "SessionHost(store=MemoryStore())"
