"""Invalid input is refused with an error that says what to give instead, and nothing of it is written."""

# ruff: noqa: ANN401  # invalid arguments are of any type

import json
import re
from collections.abc import Awaitable, Callable
from datetime import date
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import pytest

from treering import FileStore, Limits, Message, Session, SessionHost, Settings, SyncHost, Usage, image, message, text
from treering.contexts import ContextBuilder, SummaryRequest
from treering.entries import BashExecution, Label, MessageEntry, TextPart, ToolExecution, plain_text, tool_use
from treering.errors import EntryNotFound, InvalidEntry, InvalidInput, InvalidSessionId, NotASession, UnsafeCut
from treering.events.arguments import check_word
from treering.events.content import tool_result
from treering.events.stores.base import Cursor
from treering.models.echo import EchoModel
from treering.models.exact_tokens import ExactTokenizer
from treering.projections import UsageProjection
from treering.projections.building.budget import calculate_budget
from treering.projections.subscriptions import EntrySubscription
from treering.sessions import SessionKey

Call = Callable[[Any], Awaitable[object]]
"""A call on a session or a host, untyped, so that a type checker does not refuse it."""


class Speaker(Enum):
    """Roles as an enumeration whose members are not strings."""

    USER = "user"


APPENDS: list[tuple[Call, str]] = [
    # content
    (
        lambda s: s.append_message("user", {"type": "text", "text": "hello"}),
        "the content is of type `dict`: .*from_openai",
    ),
    (lambda s: s.append_message("user", {"role": "user", "content": "hello"}), "the content is of type `dict`"),
    (lambda s: s.append_message("user", [{"type": "text", "text": "hello"}]), r"content\[0\] is of type `dict`"),
    (lambda s: s.append_message("user", {"hello"}), "the content is of type `set`: give a string"),
    (lambda s: s.append_message("user", frozenset({"hello"})), "the content is of type `frozenset`"),
    (lambda s: s.append_message("user", b"hello"), "the content is of type `bytes`: .*decode bytes first"),
    (lambda s: s.append_message("user", bytearray(b"hello")), "the content is of type `bytearray`"),
    (lambda s: s.append_message("user", None), "the content is of type `NoneType`: give a string"),
    (lambda s: s.append_message("user", 5), "the content is of type `int`: give a string"),
    (lambda s: s.append_message("user", Usage()), "the content is of type `Usage`: give a string"),
    (lambda s: s.append_message("user", ["a", 5]), r"content\[1\] is of type `int`"),
    (lambda s: s.append_custom_message("note", {"a": 1}), "the content is of type `dict`"),
    (lambda s: s.append_message("tool", tool_result("c", {"a": 1})), "the content is of type `dict`"),  # type: ignore[arg-type]
    (lambda s: s.append_message("tool", tool_result("c", 5)), "the content is of type `int`"),  # type: ignore[arg-type]
    (lambda s: s.append_message("assistant", tool_use("c", "n", [1])), "Expected `object`, got `list`"),  # type: ignore[arg-type]
    (lambda s: s.append_message("assistant", tool_use("c", "n", "x")), "Expected `object`, got `str`"),  # type: ignore[arg-type]
    (lambda s: s.append_custom_entry("x", {"a": {1, 2}}), "values of type `set` have no JSON form"),
    (lambda s: s.append_custom_entry("", {"a": 1}), r"at `\$.custom.custom_type`"),
    # other arguments
    (lambda s: s.append_message("user", "x", metadata=[1]), "Expected `object`, got `list` - as metadata"),
    (lambda s: s.append_message("user", "x", metadata="x"), "Expected `object`, got `str` - as metadata"),
    (lambda s: s.append(message("user", "x", metadata=[1])), "Expected `object`, got `list`"),  # type: ignore[arg-type]
    (lambda s: s.append_session_info("name", metadata=[1]), "Expected `object`, got `list` - as metadata"),
    (lambda s: s.append_message("user", "x", usage=Usage(input_tokens=-1)), "input_tokens of the usage is -1"),
    (lambda s: s.append_message("user", "x", usage=Usage(cost=-0.5)), "cost of the usage is -0.5"),
    (lambda s: s.append_message("user", "x", usage={"input_tokens": 1}), "the usage is of type `dict`"),
    (lambda s: s.append(message("user", "x", usage={"input_tokens": 1})), "the usage is of type `dict`"),  # type: ignore[arg-type]
    (lambda s: s.append_usage("turn", {"input_tokens": 1}), "the usage is of type `dict`"),
    (lambda s: s.append_usage("turn", None), "the usage is of type `NoneType`"),
    (lambda s: s.append_compaction("so far", None, 0, usage={}), "the usage is of type `dict`"),
    (lambda s: s.save_turn([message("user", "x")], {}), "the usage is of type `dict`"),
    (lambda s: s.append_tool_execution("c", "n", "x", "done"), "Expected `object`, got `str` - as the arguments"),
    (lambda s: s.append_tool_execution("c", "n", [1], "done"), "Expected `object`, got `list` - as the arguments"),
    (lambda s: s.append_tool_execution("c", "n", {}, {"a": 1}), "the content is of type `dict`"),
    # values that an encoder would write as something else
    (
        lambda s: s.append_message(b"user", "x"),
        r"Expected `str`, got `bytes` \(decode it first\) - at `\$.message.role`",
    ),
    (lambda s: s.append_message("user", text(b"hello")), r"got `bytes` .* at `\$.message.content\[0\].text.content`"),  # type: ignore[arg-type]
    (lambda s: s.append_message("user", text(bytearray(b"hello"))), "Expected `str`, got `bytearray`"),  # type: ignore[arg-type]
    (lambda s: s.append_message("assistant", tool_use(b"1", "n", {})), r"at `\$.message.content\[0\].tool_use.id`"),  # type: ignore[arg-type]
    (lambda s: s.append_message(Speaker.USER, "x"), r"Expected `str`, got `Speaker` - at `\$.message.role`"),
    (lambda s: s.append_session_info(name=b"My title"), r"at `\$.session_info.name` of a session_info entry"),
    (lambda s: s.set_title(b"My title"), r"at `\$.session_info.name`"),
    (lambda s: s.set_summary(b"so far"), r"at `\$.session_info.summary`"),
    (lambda s: s.append_model_change(b"openai", b"gpt-5"), r"at `\$.model_change.provider`"),
    (lambda s: s.append_compaction(b"so far", None, 0), r"at `\$.compaction.summary`"),
    (lambda s: s.append_usage(b"turn", Usage(1)), r"at `\$.usage.kind`"),
    (lambda s: s.append_usage("turn", Usage(cost=float("nan"))), r"at `\$.usage.usage.cost`"),
    (lambda s: s.append_tool_execution(b"c", "n", {}, "done"), "Expected `str`, got `bytes`"),
    (lambda s: s.append_tool_execution("c", b"n", {}, "done"), r"at `\$.message.tool_name`"),
    (lambda s: s.append_tool_execution("c", "n", {}, "done", error=b"x"), r"at `\$.tool_execution.error`"),
    (
        lambda s: s.append_tool_execution("c", "n", {}, "done", exit_code=float("nan")),
        r"nan cannot be written: give a finite number, or None - at `\$.tool_execution.exit_code`",
    ),
    (
        lambda s: s.append_tool_execution("c", "n", {}, "done", duration_ms=float("inf")),
        r"inf cannot be written: .* at `\$.tool_execution.duration_ms`",
    ),
    # payloads
    (lambda s: s.append_many([]), "nothing to append: give at least one payload"),
    (lambda s: s.append("hello"), "type `str` cannot be appended: give a payload"),
    (lambda s: s.append({"role": "user"}), "type `dict` cannot be appended: give a payload"),
    (lambda s: s.append(None), "type `NoneType` cannot be appended"),
    (lambda s: s.append("hello", command_id="once"), "type `str` cannot be appended"),
    (lambda s: s.append_many("ab"), "type `str` cannot be appended"),
    (lambda s: s.append_many({"role": "user"}), "type `str` cannot be appended"),
    (lambda s: s.append_many([message("user", "x"), {"role": "user"}]), "type `dict` cannot be appended"),
    (lambda s: s.append_many(Message("user")), "`Message` is not a sequence of payloads"),
    (lambda s: s.append_many(5), "`int` is not a sequence of payloads"),
    (lambda s: s.save_turn(Message("user")), "`Message` is not a sequence of payloads"),
    (lambda s: s.save_turn([{"role": "user", "content": "x"}]), "type `dict` cannot be appended"),
    (lambda s: s.set_history([{"role": "user", "content": "x"}]), "type `dict` cannot be appended"),
    (lambda s: s.append(Message("bashExecution")), "a bashExecution message needs"),
]


@pytest.mark.parametrize(("append", "why"), APPENDS)
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_an_invalid_entry_is_refused_before_a_byte_is_written(dialect: Any, append: Call, why: str) -> None:
    async with SessionHost(dialect=dialect) as host:
        session = await host.create()
        with pytest.raises(InvalidEntry, match=why):
            await append(session)
        assert await session.entries() == []


@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_values_that_convert_to_the_declared_type_are_accepted(dialect: Any) -> None:
    async with SessionHost(dialect=dialect) as host:
        session = await host.create()
        await session.append(Message("user", [text("a"), text("é")], usage=Usage(cost=1)))  # type: ignore[arg-type]
        (found,) = await session.messages()
        assert found.content == (text("a"), text("é"))
        assert found.usage == Usage(cost=1.0)


async def test_a_message_keeps_all_of_its_fields(session: Session) -> None:
    fields: dict[str, Any] = {
        "model": "m",
        "provider": "p",
        "usage": Usage(input_tokens=1),
        "stop_reason": "stop",
        "error": "no",
        "tool_name": "run",
        "duration_ms": 1.5,
        "bash": BashExecution("ls"),
        "custom_type": "note",
        "display": False,
        "metadata": {"a": 1},
    }
    await session.append(message("assistant", "Hello", **fields))
    (found,) = await session.messages()
    assert {name: getattr(found, name) for name in fields} == fields


class Word(str):
    """A string subclass that prints as something else."""

    __slots__ = ()

    def __str__(self) -> str:
        return "printed"


class Role(StrEnum):
    """Roles as an enumeration of strings."""

    USER = "user"


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_string_subclasses_are_stored_as_plain_strings(tmp_path: Path, dialect: Any) -> None:
    async with SessionHost(tmp_path, dialect=dialect) as host:
        session = await host.create(cwd=Word(tmp_path))
        await session.append_message(Role.USER, Word("Hello"), metadata={"said": Word("so")})
        await session.append_message(Word("user"), [Word("a"), text(Word("b"))])
        await session.append_session_info(Word("name"))
        await session.passivate()
        first, second = await session.messages()
        assert (first.role, plain_text(first.content), first.metadata) == ("user", "Hello", {"said": "so"})
        assert (second.role, plain_text(second.content)) == ("user", "a\nb")
        assert session.name == "name"
        entries = await session.entries()
    kept = [part for entry in entries if isinstance(entry, MessageEntry) for part in entry.message.content]
    assert {type(part.text.content) for part in kept if isinstance(part, TextPart)} == {str}


async def test_an_invalid_usage_from_another_program_is_read_unchanged(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        session = await host.create("main")
        await session.append_message("assistant", "Hello", usage=Usage(input_tokens=1))
        await session.passivate()
        path = tmp_path / "main.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"input_tokens":1', b'"input_tokens":-1'))
        (found,) = await session.messages()
        assert found.usage == Usage(input_tokens=-1)


LOOKUPS: list[tuple[Call, type[InvalidInput], str]] = [
    (lambda host: host.create(5), InvalidSessionId, "5 is not a session id: give a string"),
    (lambda host: host.create(b"main"), InvalidSessionId, "b'main' is not a session id"),
    (lambda host: host.open(5), InvalidSessionId, "5 is not a session id"),
    (lambda host: host.open(None), InvalidSessionId, "None is not a session id"),
    (lambda host: host.create(key=5), InvalidSessionId, "5 is not a key: give a string"),
    (lambda host: host.get_or_create(5), InvalidSessionId, "5 is not a key"),
    (lambda host: host.get_or_create(SessionKey("telegram", "1")), InvalidSessionId, r"is not a key: .*`str\(key\)`"),
    (lambda host: host.find_by_key(None), InvalidSessionId, "None is not a key"),
    (lambda host: host.load(5), InvalidInput, "5 does not name a session: give an id"),
    (lambda host: host.load(None), InvalidInput, "None does not name a session"),
    (lambda host: host.load(b"main"), InvalidInput, "b'main' does not name a session"),
    (lambda host: host.resolve(5), InvalidInput, "5 does not name a session"),
    (lambda host: host.delete(5), InvalidInput, "5 does not name a session"),
    (lambda host: host.archive(5), InvalidInput, "5 does not name a session"),
    (lambda host: host.put(5), InvalidInput, "5 is not a session: give the handle"),
    (lambda host: host.create(cwd=5), InvalidInput, "5 is not a path: give a string"),
    (lambda host: host.create(cwd=b"/work"), InvalidInput, "b'/work' is not a path"),
    (lambda host: host.get_or_create("key", cwd=5), InvalidInput, "5 is not a path"),
    (lambda host: host.continue_recent(cwd=5), InvalidInput, "5 is not a path"),
    (lambda host: host.list_sessions(project=5), InvalidInput, "5 is not a path"),
    (lambda host: host.list_sessions(limit="5"), InvalidInput, "limit is '5': give a whole number of 0 or more"),
    (lambda host: host.list_sessions(limit=-1), InvalidInput, "limit is -1"),
    (lambda host: host.list_sessions(offset=1.5), InvalidInput, "offset is 1.5"),
    (lambda host: host.list_sessions(status="all"), InvalidInput, "no status 'all': choose 'active', .* or the word"),
    (lambda host: host.list_sessions(status=""), InvalidInput, "^there is no status '': choose 'active'"),
    (lambda host: host.list_sessions(status=5), InvalidInput, "^there is no status 5: choose 'active'"),
    (lambda host: host.list_sessions(status="\udcff"), InvalidInput, "the status is .* not valid text"),
    (lambda host: host.current_session(5), InvalidInput, "5 is not a path"),
    (lambda host: host.subscribe_sessions(after=b"x"), InvalidInput, r"`after` is b'x': give what `sessions_position"),
    (lambda host: host.import_sessions(5), InvalidInput, "5 is not a path"),
    (lambda host: host.import_sessions(""), InvalidInput, "'' is not a path: give '.' for the current directory"),
    (lambda host: host.create(cwd=""), InvalidInput, "'' is not a path"),
    (lambda host: host.import_sessions(b"/work"), InvalidInput, "b'/work' is not a path"),
    (lambda host: host.create(cwd="/d\udcff"), InvalidInput, r"cwd is '/d\\udcff', which is not valid text"),
    (lambda host: host.open("main", cwd="/d\udcff"), InvalidInput, "cwd is .* not valid text"),
    (lambda host: host.get_or_create("key", cwd="/d\udcff"), InvalidInput, "cwd is .* not valid text"),
    (lambda host: host.create(parent_session="\udcff"), InvalidInput, "parent_session is .* not valid text"),
    (lambda host: host.create(parent_entry=5), InvalidInput, "parent_entry is of type `int`: give a string"),
]

SEARCHES: list[tuple[dict[str, Any], str]] = [
    ({"project": 5}, "5 is not a path"),
    *(({"limit": each}, "limit is .*: give a whole number of 0 or more") for each in ("5", -1, None, 1.5)),
    ({"query": None}, "the query is of type `NoneType`: give a string"),
    ({"query": "\udcff"}, "the query is .* not valid text"),
    ({"role": "\udcff"}, r"role is '\\udcff', which is not valid text"),
    ({"role": ""}, "role is empty: leave it out"),
    ({"tool": ""}, "tool is empty: leave it out"),
    ({"after": "2026-01-01"}, "`after` or `before` is of type `str`: give a datetime"),
    ({"before": date(2026, 1, 1)}, "`after` or `before` is of type `date`"),
]

UNKNOWN_WORDS: list[tuple[Callable[[Any], object], str]] = [
    (lambda word: SessionHost(dialect=word), "dialect WORD: choose 'native', 'pi' or 'omp'"),
    (lambda word: SessionHost(durability=word), "durability WORD: choose 'os', 'file' or 'group'"),
    (lambda word: SessionHost(writes=word), "value of `writes` WORD: choose 'auto', 'inline' or 'thread'"),
    (lambda word: FileStore("/", durability=word), "durability WORD: choose 'os'"),
    (lambda word: FileStore("/", writes=word), "value of `writes` WORD: choose 'auto'"),
    (lambda word: SyncHost(backend=word), "backend WORD: choose 'asyncio' or 'trio'"),
    (lambda word: image("", "image/png", kind=word), "kind of image WORD: choose 'base64' or 'url'"),
    (lambda word: ExactTokenizer(word), "vocabulary WORD: choose 'o200k_base', "),
    (lambda word: ContextBuilder().remove_strategy(word), "strategy WORD: choose 'full-history', "),
]


@pytest.mark.parametrize("word", ["", "ALL", 5, ["os"]], ids=repr)
@pytest.mark.parametrize(("call", "why"), UNKNOWN_WORDS)
def test_an_unknown_word_is_refused_with_the_known_ones(call: Callable[[Any], object], why: str, word: Any) -> None:
    with pytest.raises(InvalidInput, match="^there is no " + re.escape(why).replace("WORD", re.escape(repr(word)))):
        call(word)


def test_of_many_known_words_some_are_named_and_of_a_long_one_its_beginning() -> None:
    with pytest.raises(InvalidInput) as refused:
        check_word("status", "x" * 10_000, map(str, range(1000)))
    assert len(str(refused.value)) < 300
    assert str(refused.value).endswith(", '29' or 970 more")
    with pytest.raises(InvalidInput, match="choose nothing, since there are none"):
        check_word("status", "x", ())


@pytest.mark.parametrize(("find", "error", "why"), LOOKUPS)
async def test_an_invalid_session_name_or_folder_is_refused(
    host: SessionHost, find: Call, error: type[InvalidInput], why: str
) -> None:
    with pytest.raises(error, match=why):
        await find(host)
    assert await host.list_sessions() == []


@pytest.mark.parametrize(("given", "why"), SEARCHES)
async def test_an_invalid_search_argument_is_refused(host: SessionHost, given: dict[str, Any], why: str) -> None:
    arguments: dict[str, Any] = {"query": "hello", "index": True, **given}
    with pytest.raises(InvalidInput, match=why):
        host.search(**arguments)


@pytest.mark.feature("G-45")
@pytest.mark.parametrize("wrong", ["", "nothing", "\udcff", 5, b"x", ["x"]], ids=repr)
@pytest.mark.parametrize("passivated", [False, True])
async def test_an_invalid_entry_id_raises_entry_not_found(session: Session, wrong: Any, passivated: bool) -> None:
    for number in range(120):  # enough entries for a snapshot
        await session.append_message("user", str(number))
    if passivated:
        await session.passivate()
    calls: list[Callable[[], object]] = [
        lambda: session.path(wrong),
        lambda: session.children(wrong),
        lambda: session.context(wrong),
        lambda: session.total_usage(wrong),
        lambda: session.branch(wrong),
        lambda: session.create_branched_session(wrong),
        lambda: session.append_message("user", "x", below=wrong),
        lambda: session.set_label(wrong, "here"),
        lambda: session.append_many([message("user", "x"), Label(wrong, "here")]),
        lambda: session.append_context_edit(wrong, "x"),
        lambda: session.append_compaction("In short.", wrong, 10),
        *([lambda: session.append(ToolExecution("c", "n", message_id=wrong))] if isinstance(wrong, str) else []),
    ]
    for call in calls:
        with pytest.raises(EntryNotFound):
            await call_and_await(call)
    assert await session.entry(wrong) is None
    assert len(await session.entries()) == session.message_count == 120
    assert session.labels() == []


async def call_and_await(call: Callable[[], object]) -> None:
    """Call a method, and await its result if necessary."""
    answer = call()
    if isinstance(answer, Awaitable):
        await answer


@pytest.mark.parametrize("options", [{"after": 1}, {"after": Cursor("", 0)}, {"transient": True}])
async def test_a_subscription_to_a_view_has_no_entry_arguments(host: SessionHost, options: dict[str, Any]) -> None:
    subscribe: Callable[..., Any] = (await host.create()).subscribe
    for view in "context", "tree", UsageProjection():
        with pytest.raises(InvalidInput, match="a view always begins with a snapshot"):
            subscribe(view, **options)
    with pytest.raises(InvalidInput, match="invalid seq -1"):
        subscribe(after=-1)


@pytest.mark.parametrize("after", [-1, "x", None, 1.5, Cursor("", -1)])
def test_an_entry_subscription_after_an_invalid_position_is_refused(after: Any) -> None:
    nowhere: Any = None  # refused before it is used
    with pytest.raises(InvalidInput, match="pass a number from 0 on, or the cursor"):
        EntrySubscription(nowhere, after)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: SessionHost(limits={"live_max": 5}), r"`limits` is of type `dict`: give `Limits\("),  # type: ignore[arg-type]
        (lambda: SessionHost(limits={}), "`limits` is of type `dict`"),  # type: ignore[arg-type]
        (lambda: SessionHost(settings={}), r"`settings` is of type `dict`: give `Settings.load\("),  # type: ignore[arg-type]
        (lambda: SessionHost(5), "5 is not a path"),  # type: ignore[arg-type]
        (lambda: SessionHost(""), "'' is not a path: give '.'"),
        (lambda: SessionHost(b"/sessions"), "is not a path"),  # type: ignore[arg-type]
        (lambda: SessionHost(store=5), r"`store` is of type `int`: give a `FileStore\("),  # type: ignore[arg-type]
        (lambda: SessionHost("a\0b"), "is not a path: leave out null characters"),
        (lambda: Limits(live_max=0), "`live_max` cannot be 0: give a number of 1 or more"),
        (lambda: Limits(mailbox_max=-1), "`mailbox_max` cannot be -1"),
        (lambda: Limits(mailbox_max=0), "`mailbox_max` cannot be 0"),
        (lambda: Limits(mailbox_max=True), "`mailbox_max` cannot be True"),
        (lambda: Limits(batch_max=0), "`batch_max` cannot be 0"),
        (lambda: Limits(batch_max=1.5), "`batch_max` cannot be 1.5"),  # type: ignore[arg-type]
        (lambda: Limits(live_max="5"), "`live_max` cannot be '5'"),  # type: ignore[arg-type]
        (lambda: Limits(idle_after_s=0), "`idle_after_s` cannot be 0"),
        (lambda: Limits(idle_after_s=float("nan")), "`idle_after_s` cannot be nan"),
        (lambda: Limits(inline_for_s=-1), "`inline_for_s` cannot be -1"),
        (lambda: Limits(cache_bytes_max=-1), "`cache_bytes_max` cannot be -1"),
        (lambda: Settings(debounce_ms=-1), "`debounce_ms` has to be a whole number of 0 or more"),
        (lambda: Settings(debounce_ms="1"), "`debounce_ms` has to be a whole number"),  # type: ignore[arg-type]
        (lambda: Settings(auto_persist=1), "`auto_persist` has to be true or false"),  # type: ignore[arg-type]
    ],
)
def test_invalid_arguments_of_hosts_limits_and_settings_are_refused(make: Callable[[], object], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        make()


def test_the_smallest_limits_are_accepted() -> None:
    assert Limits(mailbox_max=1, batch_max=1, live_max=1, cache_bytes_max=0, inline_for_s=0).live_max == 1


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda s: s.find_safe_cut(None), "keep_tokens is None: give a whole number of 0 or more"),
        (lambda s: s.dry_compact(keep_tokens="100"), "keep_tokens is '100'"),
        (lambda s: s.compact(_in_short, target_tokens="x"), "target_tokens is 'x'"),
        (lambda s: s.summarize_branch(s.path()[0], _in_short, target_tokens=None), "target_tokens is None"),
        (lambda s: s.summarize_branch(s.path()[0], _in_short, options=None), "the options are of type `NoneType`"),
        (lambda s: s.used_tokens(overhead=None), "overhead is None"),
        (lambda s: s.truncate_history(None), "keep_last is None"),
        (lambda s: s.truncate_history(-1), "keep_last is -1"),
        (lambda s: s.truncate_history(float("nan")), "keep_last is nan"),
        (lambda s: s.truncate_history(9, command_id="\ud800"), "which is not valid text"),
        (lambda s: s.append_message("user", "x", expected_seq="x"), "expected_seq is 'x'"),
        (lambda s: s.append_message("user", "x", expected_leaf="\ud800"), "the expected leaf is .* not valid text"),
        (lambda s: s.append_message("user", "x", command_id=""), "the command id is empty: give each request its own"),
        (lambda s: s.update_metadata(metadata=[("a", 1)]), "Expected `object`, got `list` - as `metadata`"),
        (lambda s: s.export("json", "\ud800"), "is not a path: leave out"),
        (lambda s: s.export("html", 5), "5 is not a path"),
        (lambda s: s.export("html", b"/tmp/talk.html"), "is not a path"),
        (lambda s: s.export("html", "a\0b"), "leave out null characters"),
        (lambda s: s.export("html", leaf_id=["a"]), "leaf_id is of type `list`: give a string"),
        (lambda s: s.export("html", redact=True), r"`redact` is of type `bool`: give a `Redaction\(\)`"),
        (lambda s: s.export(["html"]), "there is no export format"),
        (lambda s: s.export("pdf"), "^there is no export format 'pdf': choose 'native', .* or 'picoclaw'"),
        (lambda s: s.subscribe("log").__aenter__(), "^there is no view 'log': choose 'context', 'entries'"),
        (lambda s: s.rebind("a\0b"), "is not a path: leave out null characters"),
        (lambda s: s.rebind(5), "5 is not a path"),
        (lambda s: s.append_message("user", "x", command_id="\udcff"), "the command id is"),
        (lambda s: s.append_message("user", "x", command_id=5), "the command id is"),
        (lambda s: s.append_many([message("user", "x")], command_id=5), "the command id is"),
        (
            lambda s: s.set_label(s.path()[0], b"start"),
            r"Expected `str`, got `bytes` .* at `\$.label.label` of a label",
        ),
        (lambda s: s.branch_with_summary(s.path()[0], b"so far"), r"at `\$.branch_summary.summary`"),
        (lambda s: s.total_tokens(tokenizer=5), "`int` is not a tokenizer: give an object with `count"),
        (lambda s: s.dry_compact(tokenizer=EchoModel()), "`EchoModel` is not a tokenizer"),
        (lambda s: s.total_tokens(tokenizer="gpt-5"), "`str` is not a tokenizer"),
        (lambda s: s.emit_text("answer", None, message="m"), "`text` is None: give a string"),
        (lambda s: s.emit_text("answer", "a\ud800", message="m"), "`text` is .* not valid text"),
        (lambda s: s.emit_text({"answer"}, "a", message="m"), "`name` is of type `set`: give a string"),
        (lambda s: s.emit(b"token", "x"), "`name` is of type `bytes`: give a string"),
        (lambda s: s.append_message("user", "x", command_id="\udcff" * 100_000), r"^the command id is .{3900,4100}$"),
        (lambda s: s.build_context(1000), r"the budget is of type `int`: pass what `calculate_budget"),
        (lambda s: s.build_context(None), "the budget is of type `NoneType`: pass what `calculate_budget"),
        (lambda s: s.dry_compact(budget={"available_tokens": 1000}), "the budget is of type `dict`"),
        (lambda s: s.build_context(calculate_budget(100), 5), "the builder is of type `int`"),
        (lambda s: s.build_context(calculate_budget(100), builder=ContextBuilder), "the builder is of type `type`"),
        (lambda s: anext(s.iter_entries(None)), "after is None"),
        (lambda s: s.view("context"), r"'context' is not a projection: call `await session.context\(\)`"),
        (lambda s: s.view(UsageProjection), "UsageProjection is a class, not a projection: give an instance"),
        (lambda s: s.view(5), "5 is not a projection: it needs a `name` and the methods initial, apply, dump, load"),
    ],
)
async def test_an_invalid_argument_is_refused_and_nothing_is_written(session: Session, call: Call, why: str) -> None:
    await session.append_message("user", "Hello")
    await session.append_message("assistant", "Hi!")
    before = await session.entries()
    with pytest.raises(InvalidInput, match=why):
        await call(session)
    assert await session.entries() == before


async def _in_short(request: SummaryRequest) -> str:
    """Summarize nothing."""
    return "in short"


async def test_a_deeply_nested_value_is_refused_as_an_entry_id(session: Session) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    arguments = await session.append_message("user", "Hello")
    assert session.label(deep) is None
    with pytest.raises(EntryNotFound, match="entry of type `list` not found"):
        await session.append_message("user", "x", below=deep)
    with pytest.raises(EntryNotFound):
        await session.set_label(deep, "x")
    with pytest.raises(InvalidInput, match="after is "):
        await anext(session.iter_entries(deep))
    assert [entry.id for entry in await session.entries()] == [arguments]


async def test_a_root_that_is_a_file_is_refused_when_the_host_is_entered(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    root.touch()
    with pytest.raises(InvalidInput, match=r"sessions is not a directory: give the directory"):
        async with SessionHost(root):
            pass
    with pytest.raises(InvalidInput, match="below lies below a file: give another directory"):
        async with SessionHost(root / "below"):
            pass
    assert root.read_bytes() == b""


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("kind", [str, Path])
async def test_loading_a_directory_raises_not_a_session(
    host: SessionHost, tmp_path: Path, kind: Callable[[Path], str | Path], read_only: bool
) -> None:
    with pytest.raises(NotASession, match="is a directory: give the path of a session's file"):
        await host.load(kind(tmp_path), read_only=read_only)


@pytest.mark.parametrize("wrong", [EchoModel(), "short", None])
async def test_an_argument_that_is_not_a_summarizer_is_refused(session: Session, wrong: Any) -> None:
    async def returns_wrong(request: object) -> Any:
        return None if wrong == "short" else [1]

    before = [await session.append_message("user", "word " * 100) for _ in range(5)]
    for summarizer, why in (
        (wrong, r"is not a summarizer: pass an async function, or `summarizer_of\(model\)`"),
        (lambda request: wrong, "write it as `async def`"),
        (returns_wrong, "return text, or messages"),
    ):
        with pytest.raises(InvalidInput, match=why):
            await session.compact(summarizer, keep_tokens=100)
    with pytest.raises(InvalidInput, match="is not a summarizer"):
        await session.summary_for_range(before[0], before[3], 100, wrong)
    assert len(await session.entries()) == 5


async def test_below_nothing_there_is_no_entry_to_edit_or_to_keep(session: Session) -> None:
    first = await session.append_message("user", "one")
    before = await session.entries()
    with pytest.raises(InvalidEntry, match="is not on the path"):
        await session.append_context_edit(first, None, below=None)
    with pytest.raises(UnsafeCut, match="is not on the path to compact"):
        await session.append_compaction("one", first, 10, below=None)
    assert await session.entries() == before


async def test_an_id_is_as_long_as_the_names_of_its_files_may_be_and_holds_whole_characters(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        longest = "a" * 249
        (tmp_path / f"{longest}.jsonl").write_text(
            json.dumps({"type": "session", "id": longest, "version": 1, "timestamp": "2026-01-01T10:00:00Z"}) + "\n"
        )
        assert (await host.open(longest)).id == (await host.load(longest)).id == longest
        with pytest.raises(InvalidSessionId, match=r" id 'a{40}'\.\.\. is longer than 249 bytes"):
            await host.open("a" * 250)
        for session_id in ("b" * 180, "🌱 сад", "\ud7ff", "\ue000", "\U0001f332"):
            await (await host.create(session_id)).append_message("user", "Hello")
            assert (await host.load(session_id)).id == session_id
        for long in ("b" * 181, "é" * 91):
            with pytest.raises(InvalidSessionId, match="longer than 180 bytes"):
                await host.create(long)
        for wrong in ("\ud800", "a\udfff", "\x1f", "a/b", "a\\b"):
            with pytest.raises(InvalidSessionId, match="leave out separators"):
                await host.create(wrong)
