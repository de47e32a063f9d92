"""Steps of pydantic-ai's runs: what the harness's store in memory says, and what a run costs that takes many steps."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai_harness", reason="pydantic-ai-harness is not installed: `make interop` does it")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    InMemoryStepStore,
    RunRecord,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    continue_run,
)

from treering import SessionHost
from treering.adapters.pydantic_ai import TreeringStepStore, load
from treering.errors import InvalidEntry


@pytest.fixture
def anyio_backend() -> str:
    """Hosts of roots, and most users of the framework, know no other loop."""
    return "asyncio"


RUNS = ["r1", "r2", "r3"]
CALLS = ["c1", "c2"]


def history(words: str, *answers: str) -> list[ModelMessage]:
    """Return a conversation."""
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart(words)])]
    for each in answers:
        messages += [ModelResponse([TextPart(each)]), ModelRequest([UserPromptPart(f"and {each}?")])]
    return messages


async def answers_of(store: Any) -> list[object]:  # noqa: ANN401  # of the framework, or ours
    """Return what a store says of all that there may be."""
    said: list[object] = [await store.list_runs(), await store.list_runs(conversation_id="talk")]
    said.append(await store.list_runs(parent_run_id="r1", conversation_id="talk"))
    for run in [*RUNS, "unknown"]:
        said += [await store.get_run(run_id=run), await store.list_events(run_id=run)]
        said += [await store.list_unresolved_tool_effects(run_id=run)]
        said += [await store.get_tool_effect(run_id=run, tool_call_id=call) for call in CALLS]
        for interrupted in (False, True):
            said.append(await store.latest_snapshot(run_id=run, include_interrupted=interrupted))
            said.append(await store.list_snapshots(run_id=run, include_interrupted=interrupted))
    return said


@pytest.mark.parametrize("seed", range(4))
async def test_it_says_what_the_store_in_memory_says(root: str, seed: int) -> None:
    chance = random.Random(seed)
    theirs = InMemoryStepStore()
    histories = [history("Hi", "a", "b"), history("Hello", "c")]
    histories += [histories[0][:3], [*histories[0], *history("More")], [*histories[0][:1], *history("Else")], []]
    async with SessionHost(root) as host:
        ours = TreeringStepStore(host)
        assert isinstance(ours, StepStore)
        for step in range(40):
            run, call = chance.choice(RUNS), chance.choice(CALLS)
            key = chance.choice([None, f"{chance.randint(0, 3)}:{step % 3}:x", "other"])
            state: Any = chance.choice(["complete", "interrupted"])
            made: tuple[str, Any] = chance.choice(
                [
                    ("register_run", RunRecord(run_id=run, conversation_id=chance.choice([None, "talk"]))),
                    ("register_run", RunRecord(run_id=run, parent_run_id="r1", conversation_id="talk")),
                    ("append_event", StepEvent(run_id=run, kind="run_started", step_index=step, idempotency_key=key)),
                    ("record_tool_effect", _effect(run, call, chance.choice(["started", "completed"]))),
                    *[
                        ("save_snapshot", _snapshot(run, step, messages, state, key))
                        for messages in chance.sample(histories, 3)
                    ],
                ]
            )
            for store in (theirs, ours):
                await getattr(store, made[0])(made[1])
            if step % 10 == 9:
                assert await answers_of(ours) == await answers_of(theirs)
        assert await answers_of(TreeringStepStore(host)) == await answers_of(theirs)  # as another process would


def _effect(run: str, call: str, status: Any) -> ToolEffectRecord:  # noqa: ANN401  # one of some words
    return ToolEffectRecord(tool_call_id=call, tool_name="track", run_id=run, status=status)


def _snapshot(run: str, step: int, messages: list[ModelMessage], state: Any, key: str | None) -> ContinuableSnapshot:  # noqa: ANN401
    return ContinuableSnapshot(run_id=run, step_index=step, messages=messages, state=state, idempotency_key=key)


def agent(store: TreeringStepStore, steps: int) -> Agent[None, str]:
    """Return an agent that takes so many steps before it answers."""
    left = [*range(steps)]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        part = ToolCallPart("track", {"number": "Z" * 400}, f"c{left.pop()}") if left else TextPart("In Lisbon.")
        return ModelResponse([part])

    made = Agent(FunctionModel(answer), capabilities=[StepPersistence(store=store)])

    @made.tool_plain
    def track(number: str) -> str:
        """Say where a parcel is."""
        return f"{number} is in Lisbon"

    return made


async def test_a_run_costs_what_it_grows_by_and_goes_on(root: str) -> None:
    async with SessionHost(root) as host:
        store = TreeringStepStore(host)
        sizes = []
        for steps in (8, 32):
            first = await agent(store, steps).run("Where is it?", conversation_id=f"talk-{steps}")
            own = await host.find_by_key(f"talk-{steps}")
            assert own is not None
            sizes.append(Path(own.file_path or "").stat().st_size)  # noqa: ASYNC240  # of a test
            (record,) = await store.list_runs(conversation_id=f"talk-{steps}")
            assert await continue_run(store, run_id=record.run_id) == first.all_messages()
            assert len(await store.list_snapshots(run_id=record.run_id)) > steps
        assert sizes[1] < 4.5 * sizes[0]  # four times the steps; by whole histories it would be 14 times
        assert await load("talk-32", host) == first.all_messages()
        kinds = [each.kind for each in await store.list_events(run_id=record.run_id)]
        assert (kinds[0], kinds[-1]) == ("run_started", "run_completed")
        assert await store.list_unresolved_tool_effects(run_id=record.run_id) == []
        again = await agent(store, 1).run(
            "And the other one?",
            conversation_id="talk-32",
            message_history=await continue_run(store, run_id=record.run_id),
        )
        assert await load("talk-32", host) == again.all_messages()  # of which the first part is there once
        assert own is not None
        assert own.message_count <= 1.5 * len(again.all_messages())  # a request is another one once it was sent
        bad = _snapshot("r", 0, [ModelRequest([UserPromptPart("Hi")], metadata={"a": object()})], "complete", None)
        with pytest.raises(InvalidEntry):
            await store.save_snapshot(bad)
