"""The report of a context says of each message what became of it and why, and its tokens add up."""

from pathlib import Path

from treering import ContextBuilder, Message, Session, SessionHost, Usage, tool_result, tool_use
from treering.contexts import ContextItem, ContextReport, calculate_budget
from treering.entries import BashExecution, Provider

from .making import append_call, budget, content, conversation
from .scripted import ScriptedSummarizer


def fates(report: ContextReport) -> list[tuple[str, str]]:
    return [(item.part, item.fate) for item in report.items]


def by_id(report: ContextReport) -> dict[str, ContextItem]:
    return {item.entry_id: item for item in report.items if item.entry_id}


async def check(session: Session, report: ContextReport) -> None:
    """Check what holds of every report: its tokens add up, and what is sent is what the builder sends, in its order."""
    parts = report.parts
    taken = parts.summary + parts.messages + parts.results + parts.framing
    system = sum(item.tokens for item in report.items if item.part == "system")
    assert taken + system == report.tokens == sum(item.tokens for item in report.items)
    assert all((item.tokens > 0) == (item.fate in ("sent", "masked")) for item in report.items if item.text)
    assert all(item.reason for item in report.items if item.fate != "sent" or not item.entry_id)
    assert not any(item.seq or item.original_tokens for item in report.items if not item.entry_id)
    if report.window is not None:
        assert parts.free is not None
        assert parts.system + parts.tools + taken + parts.reserve + parts.free - parts.excess == report.window
    else:
        built = await session.build_context(budget(2**50), leaf_id=report.leaf_id)
        present = [item.entry_id for item in report.items if item.fate in ("sent", "masked")]
        assert present == [each.entry_id for each in built.messages]


async def test_what_the_builder_masks_summarizes_and_cuts_is_named(session: Session) -> None:
    await session.update_metadata(provider=Provider("p", "m", 4_000))
    question = await session.append_message("user", "Where does the timeout come from?")
    results = [await append_call(session, f"c{place}", "x y " * 400, "grep") for place in range(8)]
    answer = await session.append_message("assistant", "From here.", usage=Usage(2_900, 40))
    head = session.cursor

    report = await session.context_report(answer)
    await check(session, report)
    assert (report.is_answer, report.leaf_id, report.window) == (True, results[-1], 4_000)
    assert report.usage == Usage(2_900, 40)
    assert (report.strategy, report.hidden) == ("masked-tools", None)
    items = by_id(report)
    assert answer not in items  # the answer is no part of what it answers
    assert [items[each].fate for each in results] == ["masked"] * 5 + ["sent"] * 3
    first = items[results[0]]
    assert first.text == "[Old result of grep cleared: 1600 characters]"
    assert first.content is not None
    assert 0 < first.tokens < 40 < first.original_tokens == items[results[7]].tokens
    assert "masked-tools" in first.reason
    assert items[results[7]].content is None  # the entry says it
    assert (items[question].part, items[question].tokens) == ("messages", items[question].original_tokens)
    assert report.parts.reserve == 1_000

    tight = await session.context_report(budget=calculate_budget(600, "Be brief.", "[]", reserve_for_response=60))
    await check(session, tight)
    assert (tight.strategy, tight.entry_id, tight.leaf_id) == ("minimal-state", answer, answer)
    assert (tight.parts.system, tight.parts.tools) == (3, 1)
    assert ("summary", "sent") in fates(tight)
    assert {item.fate for item in tight.items if item.part == "results"} == {"summarized"}
    made = next(item for item in tight.items if not item.entry_id)
    assert made.reason == "made by minimal-state for what is left out"
    assert made.content is not None
    assert "state of the work" in by_id(tight)[results[0]].reason
    assert tight.failures

    own = ContextBuilder(strategies=[])
    small = await session.context_report(results[0], budget=budget(300), builder=own)
    assert small.strategy == "minimal"
    assert not small.is_answer
    assert session.cursor == head


async def test_only_summaries_of_its_time_stand_in_the_report_of_an_answer(session: Session) -> None:
    ids = await session.append_many(conversation(42, 100))
    chosen = budget(2_000)
    await session.build_context(chosen, leaf_id=ids[38], summarizer=ScriptedSummarizer())
    later = await session.append_message("assistant", "Done.")
    now = await session.context_report(later, budget=chosen)
    await check(session, now)
    assert now.strategy == "recent-plus-summary"
    summarized = [item for item in now.items if item.fate == "summarized"]
    assert [item.entry_id for item in summarized] == ids[: len(summarized)]
    assert {item.reason for item in summarized} == {"a stored summary stands for it"}
    place = [item.part for item in now.items].index("summary")
    assert place == len(summarized)  # after what it stands for, before what is kept
    then = await session.context_report(ids[-1], budget=chosen)
    assert then.strategy != "recent-plus-summary"  # it was stored after that answer
    assert (now.previous_call, now.next_call) == (ids[-1], None)
    assert (then.previous_call, then.next_call) == (ids[-3], later)


async def test_what_the_path_itself_hides_is_named(session: Session) -> None:
    empty = await session.context_report()
    assert (empty.entry_id, empty.items, empty.parts.free) == (None, (), None)
    system = await session.append_message("system", "Be brief.")
    first = await session.append_message("user", "One")
    answer = await session.append_message("assistant", "1")
    kept = await session.append_message("user", "Two")
    result = await append_call(session, "c", "long " * 50)
    secret = Message("bashExecution", (), bash=BashExecution("env", "KEY", exclude_from_context=True))
    await session.append(secret)
    hidden_command = session.leaf_id
    await session.append_context_edit(result, "short")
    await session.append_compaction("They counted.", kept, 900)
    compaction = session.leaf_id
    orphan = await session.append_message("tool", tool_result("nobody", "x"))
    await session.append_message("assistant", tool_use("two", "bash"))
    both = await session.append_message("tool", [tool_result("two", "x"), tool_result("nobody", "y")])
    await session.append_message("assistant", tool_use("open", "bash"))
    note = await session.append_message("user", "Never mind")
    await session.append_context_edit(note, None)
    await session.append_message("assistant", "Fine.")
    last = await session.append_message("user", "Three")

    report = await session.context_report()
    await check(session, report)
    assert report.hidden is not None
    assert (report.hidden.by, report.hidden.last_id, report.hidden.count) == (compaction, answer, 3)
    assert (report.hidden.fate, report.hidden.tokens, report.hidden.reason[:12]) == ("summarized", 900, "a compaction")
    items = by_id(report)
    assert system not in items
    assert first not in items
    assert [(item.entry_id, item.part) for item in report.items[:3]] == [
        (compaction, "system"),
        (compaction, "summary"),
        (kept, "messages"),
    ]
    assert (items[result].fate, items[result].reason) == ("masked", "rewritten by an edit")
    assert items[result].tokens < items[result].original_tokens
    assert (items[orphan].fate, items[orphan].reason) == ("cut", "a result without its call")
    half = ("masked", "sent without calls and results that have no counterpart")
    assert (items[both].fate, items[both].reason) == half
    assert "never sent" in items[hidden_command or ""].reason
    assert (items[note].fate, items[note].reason) == ("cut", "left out by an edit")
    assert any(item.reason.startswith("made for the request: the call") for item in report.items)
    assert report.items[-1].entry_id == last

    await session.truncate_history(1)
    await session.append_message("user", "Four")
    cut = await session.context_report()
    await check(session, cut)
    assert cut.hidden is not None
    assert (cut.hidden.fate, cut.hidden.reason[-19:]) == ("cut", "no summary was made")
    assert [item.text for item in cut.items] == ["Be brief.", "Three", "Four"]

    await session.passivate()
    line = f'{{"type":"reset_boundary","id":"reset","parent_id":"{session.leaf_id}","timestamp":"2026-01-01T00:00Z"}}\n'
    Path(session.file_path or "").write_bytes(content(session) + line.encode())  # noqa: ASYNC240  # by another program
    await session.refresh()
    reset = (await session.context_report()).hidden
    assert reset is not None
    assert (reset.by, reset.last_id, reset.fate, reset.tokens) == ("reset", session.path()[-2], "cut", 0)


async def test_the_calls_before_and_after_follow_the_path_or_the_newest_entries_below(host: SessionHost) -> None:
    session = await host.create("s")
    root = await session.append_message("user", "Try")
    one = await session.append_message("assistant", "one")
    two = await session.append_message("assistant", "two", below=root)
    three = await session.append_message("assistant", "three")
    assert (await session.context_report(root)).next_call == two
    await session.branch(one)
    assert (await session.context_report(root)).next_call == one
    report = await session.context_report(three)
    assert (report.previous_call, report.next_call) == (two, None)
    assert (await session.context_report(two)).next_call == three
