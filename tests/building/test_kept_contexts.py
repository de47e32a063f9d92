"""Contexts that are kept and extended equal those built from scratch, whatever happened to the session in between."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from types import FrameType
from typing import Literal

import pytest

from treering import Limits, Message, Session, SessionHost, Usage, message, text, tool_result, tool_use
from treering.contexts import ContextStrategy
from treering.entries import Compaction, ContextEdit, Label, ModelChange, Payload, ThinkingLevel
from treering.events.errors import ContextOverflow, DialectCannot, InvalidEntry, SummaryRefused, UnsafeCut
from treering.projections.building.budget import ContextBudget
from treering.projections.building.builder import ContextBuilder, ContextBuildResult
from treering.projections.building.masking import MaskedTools
from treering.projections.building.strategies import MinimalState, RecentPlusSummary
from treering.projections.tokens import ByteEstimator, count_messages

from ..sampling import some_of
from .making import NotingTokenizer
from .making import budget as available
from .scripted import ScriptedSummarizer

STEPS = 40
NO_CACHE = Limits(cache_bytes_max=0)


class Recent(RecentPlusSummary):
    """Tried with any budget."""

    min_tokens = 0


class State(MinimalState):
    """Tried with any budget."""

    min_tokens = 0


async def built(session: Session, budget: ContextBudget, builder: ContextBuilder) -> ContextBuildResult | str:
    """Build a context, or return why there is none."""
    try:
        return await session.build_context(budget, builder)
    except ContextOverflow as error:
        return str(error)


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
@pytest.mark.parametrize("seed", some_of(range(12), 3))
async def test_what_is_made_from_a_kept_context_equals_what_is_made_from_scratch(
    tmp_path: Path, seed: int, dialect: Literal["native", "pi"]
) -> None:
    rng = Random(seed)
    cache = Limits(cache_bytes_max=rng.choice([2_000, 20_000, 1_000_000]))
    builder = ContextBuilder(NotingTokenizer(), [MaskedTools(keep_last=1, min_gain=0.0), Recent(2), State()])
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
            budget = available(rng.choice([40, 150, 150, 600]))
            if rng.random() < 0.2:
                with suppress(ContextOverflow, SummaryRefused):
                    await session.build_context(budget, builder, summarizer=ScriptedSummarizer())
            for each in (session, followed):
                if rng.random() < 0.3:
                    continue  # several steps later, more than one entry is new
                assert await each.context() == await fresh.context()
                assert await each.open_calls() == await fresh.open_calls()
                counts = NotingTokenizer()
                assert await each.used_tokens(tokenizer=builder.tokenizer) == await fresh.used_tokens(tokenizer=counts)
                own = ContextBuilder(counts, builder.strategies)
                assert await built(each, budget, builder) == await built(fresh, budget, own)


@pytest.mark.parametrize(
    ("strategies", "share", "tokens"),
    [([MaskedTools()], 0.7, 0), ([State()], 0.0, 300), ([Recent()], 0.0, 1000), ([MaskedTools(), State()], 0.1, 0)],
)
async def test_what_a_turn_costs_does_not_grow_with_what_came_before(
    host: SessionHost, strategies: list[ContextStrategy], share: float, tokens: int
) -> None:
    """Counted in calls of functions, those in C left out: copying what is known takes no more of them."""
    counts: list[int] = []
    for length in (100, 800):
        session, sizes = await host.create(), NotingTokenizer()
        for number in range(length // 4):
            await session.append_many(turn(number))
        budget = available(tokens + int(count_messages(await session.messages(), sizes) * share))
        builder = ContextBuilder(sizes, strategies)
        await session.build_context(budget, builder, summarizer=ScriptedSummarizer())
        for number in range(3):  # the second puts what the first one has read into place
            await session.append_many(turn(length + number))
            with counted_calls() as calls:
                result = await session.build_context(budget, builder)
        assert result.strategy == strategies[-1].name
        assert calls.count("ContextBuilder._try") <= len(strategies)  # each is tried once
        if isinstance(strategies[-1], MaskedTools):
            assert "ContextSource.entry_ids" not in calls  # of all messages
        counts.append(len(calls))
    assert counts[1] < 1.1 * counts[0] + 60  # a turn that has lasted long lets others go on, which takes some 40 calls


async def test_others_go_on_while_a_long_context_is_built_for_the_first_time(host: SessionHost) -> None:
    session, builder = await host.create(), ContextBuilder(NotingTokenizer())
    await session.append_many([each for number in range(2_100) for each in turn(number)])
    with counted_calls() as calls:
        await session.used_tokens(tokenizer=builder.tokenizer)
        counting = calls.count("checkpoint")
        await session.build_context(available(300), builder)
    assert (counting >= 2, calls.count("checkpoint") >= counting + 42) == (True, True)


def turn(number: int) -> list[Message]:
    return [
        message("user", f"question {number}"),
        message("assistant", tool_use(f"c{number}", "read", {"path": "a b c"})),
        message("tool", tool_result(f"c{number}", "word " * 100)),
        message("assistant", "done " * 10),
    ]


@contextmanager
def counted_calls() -> Iterator[list[str]]:
    """List the functions that are called in the block."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def test_a_turn_counts_only_what_is_new_with_the_tokenizer_that_is_given(session: Session) -> None:
    sizes = NotingTokenizer()
    builder, budget = ContextBuilder(sizes), available(10_000)
    await session.append_many([message("user", f"question {number}") for number in range(50)])
    await session.append_message("assistant", "eight letters")
    first = await session.build_context(budget, builder)
    assert len(sizes.texts) == 51
    await session.append_message("user", "and now?")
    assert (await session.used_tokens(tokenizer=sizes)).total == first.tokens_used + 4 + 2
    assert (await session.build_context(budget, builder)).tokens_used == first.tokens_used + 4 + 2
    assert len(sizes.texts) == 52
    by_bytes = count_messages(await session.messages(), ByteEstimator())
    builders = [builder, ContextBuilder(ByteEstimator()), ContextBuilder()]
    counts = [(await session.build_context(budget, each)).tokens_used for each in builders * 2]
    assert counts == [first.tokens_used + 4 + 2, by_bytes, by_bytes] * 2
