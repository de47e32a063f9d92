"""Strategies that send all messages: as they are, with old results masked in steps, or shortened by kind of tool."""

import msgspec
import pytest

from treering import Message, image, message, text, tool_result, tool_use
from treering.entries import ToolResultPart
from treering.projections.building.builder import ContextBuilder
from treering.projections.building.masking import MaskedTools
from treering.projections.building.pairing import pairing_fault
from treering.projections.building.strategies import FullHistory, PrunedTools, prune_tool_result
from treering.projections.tokens import ByteEstimator, count_messages, message_tokens

from .making import NotingTokenizer, budget, context_of, source_of, words

BODY = "result " * 100


def turn(number: int, tool: str = "read_file", calls: int = 1, body: str = BODY) -> list[Message]:
    ids = [f"c{number}.{each}" for each in range(calls)]
    return [
        message("user", f"question {number}"),
        message("assistant", [tool_use(each, tool, {"path": each}) for each in ids]),
        *(message("tool", tool_result(each, body)) for each in ids),
        message("assistant", f"answer {number}"),
    ]


def turns(count: int) -> list[Message]:
    return [each for number in range(count) for each in turn(number)]


def masked_places(messages: tuple[object, ...]) -> list[int]:
    return [
        place
        for place, each in enumerate(messages)
        for part in getattr(each, "content", ())
        if isinstance(part, ToolResultPart) and part.tool_result.text.startswith("[Old result")
    ]


def test_all_results_but_the_last_few_are_masked() -> None:
    source = source_of(*turns(10))
    result = MaskedTools(keep_last=3).build(source, 1500, ByteEstimator())
    assert count_messages([each.message for each in result.messages], ByteEstimator()) <= 1500
    assert masked_places(result.messages) == [2, 6, 10, 14, 18]
    assert (result.masked_count, result.included_count) == (5, 40)
    assert pairing_fault(result.messages) is None
    assert result.messages[2].content == (
        tool_result("c0.0", f"[Old result of read_file cleared: {len(BODY)} characters]"),
    )


@pytest.mark.timeout(15)
def test_masking_20000_results_does_not_take_quadratic_time() -> None:
    many = [message("tool", tool_result(f"c{each}", BODY)) for each in range(20_000)]
    calls = message("assistant", [tool_use(f"c{each}", "read_file") for each in range(20_000)])
    talk = [message(role, "and on") for _ in range(20_000) for role in ("assistant", "user")]
    source = source_of(message("user", "go on"), calls, *many, *talk)
    result = MaskedTools(keep_last=50_000, trigger=0.001).build(source, 1_500_000, ByteEstimator())
    assert masked_places(result.messages) == []
    result = MaskedTools(keep_last=1, trigger=0.001).build(source, 1_500_000, ByteEstimator())
    assert masked_places(result.messages) == []  # they are one batch of parallel calls


def test_results_of_protected_tools_and_small_results_are_not_masked() -> None:
    as_long = "a" * len("[Old result of ls cleared: 41 characters]")
    small = [message("assistant", tool_use("s", "ls")), message("tool", tool_result("s", as_long))]
    source = source_of(*turn(0, "skill"), *small, *turn(1), *turn(2), *turn(3))
    result = MaskedTools(keep_last=1, protected=["skill"], min_gain=0).build(source, 300, ByteEstimator())
    assert masked_places(result.messages) == [8, 12]


def test_masking_begins_beyond_the_limit_and_frees_min_gain() -> None:
    source = source_of(*turn(0), message("user", "go on"))
    sizes = [message_tokens(each.message, words) for each in source.messages]
    gain = 100 - len(f"[Old result of read_file cleared: {len(BODY)} characters]".split())
    for spare, least, places in ((0, 0, []), (-1, 0, [2]), (-1, gain, [2]), (-1, gain + 1, [])):
        limit = sum(sizes) + spare
        strategy = MaskedTools(keep_last=0, min_gain=(least + 0.01) / limit)
        assert masked_places(strategy.build(source, limit, words).messages) == places
    batch = message("assistant", [tool_use("x", "read"), tool_use("y", "read")])
    answers = [message("tool", tool_result("x", BODY)), message("tool", tool_result("y", "ok"))]
    source = source_of(*turn(0), *turn(1), message("user", "both"), batch, *answers)
    limit = sum(message_tokens(each.message, words) for each in source.messages[:-1]) - 1
    # A step is taken when a request ends, and none between the results of parallel calls.
    assert masked_places(MaskedTools(keep_last=2, min_gain=0).build(source, limit, words).messages) == [2, 6]
    same = source_of(message("assistant", tool_use("c", "read")), message("tool", tool_result("c", "1234567 " * 7)))
    at_once = MaskedTools(keep_last=0, min_gain=0, trigger=0.01)
    assert masked_places(at_once.build(same, 100, words).messages) == []
    # What the first step freed does not count for the second one.
    again = source_of(*turn(0), message("user", "go on"), *turn(1, body="result " * 20), message("user", "on " * 100))
    for share, places in ((0.01, [2, 7]), (0.4, [2])):
        strategy = MaskedTools(keep_last=0, min_gain=share, trigger=0.115)
        assert masked_places(strategy.build(again, 1000, words).messages) == places


def test_masking_gives_up_when_what_it_does_not_clear_is_too_large() -> None:
    messages = [*turns(3), message("user", "word " * 50)]
    builder = ContextBuilder(words, [MaskedTools(keep_last=0, min_gain=0)])
    bare = sum(message_tokens(each, words) for each in messages if each.role != "tool")
    masked = 3 * (4 + len(f"[Old result of read_file cleared: {len(BODY)} characters]".split()))
    assert builder.build(context_of(*messages), budget(bare + masked)).strategy == "masked-tools"
    (failure,) = builder.build(context_of(*messages), budget(bare + masked - 1)).failures
    assert failure.reason == f"takes {bare + masked} tokens, and {bare + masked - 1} are available"
    noted = NotingTokenizer()
    (failure,) = ContextBuilder(noted, builder.strategies).build(context_of(*messages), budget(bare - 1)).failures
    reason = f"raised ContextOverflow: the messages without tool results take more than {bare - 1} tokens"
    assert failure.reason == reason
    assert "cleared" not in "".join(noted.texts), "results were cleared in vain"


def test_the_results_of_parallel_calls_are_masked_together_or_not_at_all() -> None:
    source = source_of(*turn(0, calls=3), *turn(1, calls=3), message("user", "go on"))
    result = MaskedTools(keep_last=1, min_gain=0).build(source, 1000, ByteEstimator())
    assert masked_places(result.messages) == [2, 3, 4]


@pytest.mark.feature("U-13")
def test_between_masking_steps_each_request_begins_with_the_previous_one() -> None:
    builder = ContextBuilder(strategies=[MaskedTools(min_gain=0.2)])
    messages = turns(40)
    before: list[bytes] = []
    steps = requests = 0
    masked = 0
    for end in range(1, len(messages) + 1):
        if messages[end - 1].role == "assistant":
            continue
        result = builder.build(context_of(*messages[:end]), budget(3000))
        assert result.tokens_used <= 3000
        sent = [msgspec.json.encode(each) for each in result.messages]
        requests += 1
        whole = count_messages(messages[:end]) <= 3000
        assert result.strategy == ("full-history" if whole else "masked-tools")
        if sent[: len(before)] != before:
            steps += 1
            assert not whole
            assert result.masked_message_count > masked
        else:
            assert result.masked_message_count == masked
        before, masked = sent, result.masked_message_count
    assert requests == 80
    assert 0 < steps <= 5


LINES = [f"line {number}" for number in range(1, 31)]
FILE = "[File: 30 lines]\n" + "\n".join([*LINES[:10], "\n... [10 lines omitted] ...\n", *LINES[-10:]])
OUTPUT = "a" * 500 + "b" * 501
HITS = "\n".join(["hit" * 33] * 10)


@pytest.mark.feature("N-82", "N-83", "N-84", "N-85")
@pytest.mark.parametrize(
    ("tools", "whole", "long", "shown"),
    [
        (("Read", "read_file"), "\n".join(LINES[:20]), "\n".join(LINES), FILE),
        (
            ("Bash", "execute_bash"),
            OUTPUT[:1000],
            OUTPUT,
            f"[Command output: 1001 chars]\n{'a' * 400}\n...\n{'b' * 400}",
        ),
        (("Grep", "search"), "x" * 800, HITS, f"[Search: 10 results]\n{HITS[:600]}..."),
        (("anything", "", None), "y" * 800, "y" * 801, f"[Tool output: 801 chars]\n{'y' * 600}..."),
    ],
    ids=["a file", "a command", "a search", "any other tool"],
)
def test_a_long_result_keeps_what_its_kind_of_tool_puts_first_and_last(
    tools: tuple[str | None, ...], whole: str, long: str, shown: str
) -> None:
    for each in tools:
        assert prune_tool_result(long, each) == shown
        assert prune_tool_result(whole, each) == whole


@pytest.mark.feature("N-80", "N-81")
def test_results_before_the_last_six_messages_are_shortened() -> None:
    strategy = PrunedTools()
    assert (strategy.name, strategy.priority, strategy.min_tokens) == ("pruned-tools", 2, 2000)
    source = source_of(*(each for number in range(4) for each in turn(number, body="\n".join(LINES))))
    result = strategy.build(source, 10_000, ByteEstimator())
    assert (result.included_count, result.summarized_count, result.masked_count) == (16, 0, 2)
    assert result.messages[-6:] == source.messages[-6:]
    assert result.messages[2].content == (tool_result("c0.0", FILE),)
    assert pairing_fault(result.messages) is None
    batch = source_of(*turn(0, calls=8, body="\n".join(LINES))[1:-1])
    assert strategy.build(batch, 10_000, ByteEstimator()).messages == batch.messages


def test_images_are_omitted_and_the_error_flag_is_kept() -> None:
    picture = image("QUJD", "image/png")
    calls = message("assistant", [tool_use("c", "look"), tool_use("d", "look")])
    failed = message("tool", tool_result("c", [text("seen"), picture], is_error=True))
    two = message("tool", tool_result("d", [text("seen"), picture, picture]))
    result = PrunedTools().build(source_of(calls, failed, two, *[message("user", "on")] * 6), 10_000, ByteEstimator())
    assert [each.content for each in result.messages[1:3]] == [
        (tool_result("c", "seen\n[image omitted]", is_error=True),),
        (tool_result("d", "seen\n[2 images omitted]"),),
    ]


@pytest.mark.feature("N-69", "N-79")
def test_the_full_history_is_sent_if_it_fits() -> None:
    strategy = FullHistory()
    assert (strategy.name, strategy.priority, strategy.min_tokens) == ("full-history", 1, 0)
    context = context_of(*turns(3))
    result = strategy.build(source_of(*turns(3)), 10_000, ByteEstimator())
    assert (result.messages, result.included_count, result.summarized_count) == (context.messages, 12, 0)
    size = count_messages(turns(3))
    for builder in (ContextBuilder(), ContextBuilder(strategies=[])):  # it is no matter of the strategies
        built = builder.build(context, budget(size))
        assert (built.strategy, built.messages, built.tokens_used) == ("full-history", context.messages, size)
        assert builder.build(context, budget(size - 1)).strategy != "full-history"
