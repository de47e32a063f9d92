"""Contexts that are kept and extended equal those built from scratch, whatever happened to the session in between."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Literal

import pytest

from treering import Limits, Message, Session, SessionHost, Usage, message, text, tool_result, tool_use
from treering.entries import Compaction, ContextEdit, Label, ModelChange, Payload, ThinkingLevel
from treering.events.errors import DialectCannot, InvalidEntry, UnsafeCut
from treering.projections.building.budget import ContextBudget
from treering.projections.building.builder import ContextBuilder
from treering.projections.building.strategies import MaskedTools
from treering.projections.tokens import ByteEstimator, count_messages

STEPS = 40
NO_CACHE = Limits(cache_bytes_max=0)


class Sizes:
    """Counts words, and the texts that it is given."""

    def __init__(self) -> None:
        self.count_of_texts = 0

    def count(self, text: str) -> int:
        self.count_of_texts += 1
        return len(text.split())


async def take_step(session: Session, rng: Random) -> None:
    """Do one of the things that change a context."""
    ids = session.path()
    somewhere = rng.choice(ids) if ids else None
    match rng.randrange(14):
        case 0 | 1 | 2:
            await session.append_message("user", "please " * rng.randint(1, 20))
        case 3 | 4:
            usage = Usage(input_tokens=rng.randint(0, 400)) if rng.random() < 0.5 else None
            await session.append_message("assistant", "done " * 5, usage=usage)
        case 5 | 6 | 7:
            call = f"call{rng.randrange(4)}"
            await session.append_message("assistant", tool_use(call, "read", {"path": "a b c"}))
            if rng.random() < 0.8:
                await session.append_message("tool", tool_result(call, "word " * rng.randint(1, 60)))
        case 8:
            await session.append_many([message("user", "two"), message("assistant", "at once")])
        case 9 if somewhere is not None:
            await session.append(ContextEdit(somewhere, rng.choice([None, (text("changed"),)])))
        case 10 if somewhere is not None:
            await session.append(Compaction(rng.choice(["They talked.", ""]), rng.choice([somewhere, None]), 100))
        case 11 if somewhere is not None:
            await session.branch(somewhere)
        case 12 if somewhere is not None:
            changes: list[Payload] = [Label(somewhere, "here"), ThinkingLevel("high"), ModelChange("p", "m")]
            await session.append(rng.choice(changes))
        case _:
            await session.append(Message("user", (text("beside"),)), below=somewhere, aside=somewhere is not None)


@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("seed", range(12))
async def test_what_is_made_from_a_kept_context_equals_what_is_made_from_scratch(
    tmp_path: Path, seed: int, dialect: Literal["native", "pi"]
) -> None:
    rng = Random(seed)
    cache = Limits(cache_bytes_max=rng.choice([2_000, 20_000, 1_000_000]))
    budget = ContextBudget(150, 0, 0, 0, 150)
    builder = ContextBuilder(Sizes(), [MaskedTools(keep_last=1, min_gain=0.0)])
    async with (
        SessionHost(tmp_path, dialect=dialect, limits=cache) as host,
        SessionHost(tmp_path, limits=cache) as other,
        SessionHost(tmp_path, limits=NO_CACHE) as forgetful,
    ):
        session = await host.create()
        await session.append_message("user", "begin")
        followed = await other.load(session.id, read_only=True)
        fresh = await forgetful.load(session.id, read_only=True)
        for _ in range(STEPS):
            with suppress(InvalidEntry, UnsafeCut, DialectCannot):  # such as an edit of a label: nothing is appended
                await take_step(session, rng)
            for each in (session, followed):
                if rng.random() < 0.3:
                    continue  # several steps later, more than one entry is new
                assert await each.context() == await fresh.context()
                assert await each.open_calls() == await fresh.open_calls()
                counts = Sizes()
                assert await each.used_tokens(tokenizer=builder.tokenizer) == await fresh.used_tokens(tokenizer=counts)
                own = ContextBuilder(counts, builder.strategies)
                assert await each.build_context(budget, builder) == await fresh.build_context(budget, own)


async def test_a_turn_counts_only_what_is_new_with_the_tokenizer_that_is_given(session: Session) -> None:
    sizes = Sizes()
    builder, budget = ContextBuilder(sizes), ContextBudget(10_000, 0, 0, 0, 10_000)
    await session.append_many([message("user", f"question {number}") for number in range(50)])
    await session.append_message("assistant", "eight letters")
    first = await session.build_context(budget, builder)
    assert sizes.count_of_texts == 51
    await session.append_message("user", "and now?")
    assert (await session.used_tokens(tokenizer=sizes)).total == first.tokens_used + 4 + 2
    assert (await session.build_context(budget, builder)).tokens_used == first.tokens_used + 4 + 2
    assert sizes.count_of_texts == 52
    by_bytes = count_messages(await session.messages(), ByteEstimator())
    builders = [builder, ContextBuilder(ByteEstimator()), ContextBuilder()]
    counts = [(await session.build_context(budget, each)).tokens_used for each in builders * 2]
    assert counts == [first.tokens_used + 4 + 2, by_bytes, by_bytes] * 2
