"""Whatever is called, a session's file only grows at its end."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Literal

import pytest

from treering import Message, Session, SessionHost, Usage, text, tool_use
from treering.entries import Custom, Provider, ThinkingLevel
from treering.errors import DialectCannot
from treering.projections.building.budget import calculate_budget
from treering.projections.building.summaries import SummaryRequest
from treering.projections.labels import Labels
from treering.projections.tokens import ByteEstimator

NOT_FOR_PROGRAMS = {
    "catalog",
    "core",
    "log",
    "write_copy",
    "write_fork",
}  # the latter are called by `put`, `fork` and `fork_from`
EXPLICIT = {"delete"}
BUDGET = calculate_budget(100_000, "", "", ByteEstimator())

Calls = dict[str, Callable[[], Awaitable[object]]]


async def summarize(request: SummaryRequest) -> str:
    return "in short"


async def value(found: object) -> object:
    return found


async def done(call: Callable[[], None]) -> None:
    call()


async def collect(iterator: AsyncIterator[object]) -> list[object]:
    return [each async for each in iterator]


async def archive_and_unarchive(host: SessionHost, session: Session) -> None:
    await host.archive(session)
    await host.unarchive(session)


async def first_of(subscription: AbstractAsyncContextManager[AsyncIterator[object]]) -> object:
    async with subscription as changes:
        return await anext(changes)


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, lambda each: callable(each) or isinstance(each, property))} - {
        name for name in dir(kind) if name.startswith("_")
    }


def calls_of_session(session: Session, user: str, answer: str, call: str) -> Calls:
    return {
        "append": lambda: session.append(ThinkingLevel("low")),
        "append_many": lambda: session.append_many([Custom("mine"), Custom("mine")]),
        "append_message": lambda: session.append_message("user", "more"),
        "append_model_change": lambda: session.append_model_change("maker", "m"),
        "append_thinking_level_change": lambda: session.append_thinking_level_change("high"),
        "append_session_info": lambda: session.append_session_info("name", metadata={"a": 1}),
        "append_custom_entry": lambda: session.append_custom_entry("mine", {"a": 1}),
        "append_custom_message": lambda: session.append_custom_message("mine", "see"),
        "append_context_edit": lambda: session.append_context_edit(answer, "edited"),
        "append_usage": lambda: session.append_usage("summary", Usage(1)),
        "open_calls": session.open_calls,
        "state": session.state,
        "close_open_calls": session.close_open_calls,
        "recover": session.recover,
        "append_tool_execution": lambda: session.append_tool_execution(call, "read", {}, "text"),
        "append_compaction": lambda: session.append_compaction("so far", answer, 100),
        "dry_compact": lambda: session.dry_compact(keep_tokens=1),
        "summary_for_range": lambda: session.summary_for_range(answer, answer, 5, summarize),
        "compact": lambda: session.compact(summarize, keep_tokens=1),
        "build_context": lambda: session.build_context(BUDGET),
        "context_report": session.context_report,
        "used_tokens": session.used_tokens,
        "save_turn": lambda: session.save_turn([Message("user", (text("turn"),))], Usage(1)),
        "set_label": lambda: session.set_label(user, "begin"),
        "summarize_branch": lambda: session.summarize_branch(answer, summarize),
        "history": session.history,
        "summary": lambda: value(session.summary),
        "set_summary": lambda: session.set_summary("so far"),
        "truncate_history": lambda: session.truncate_history(1),
        "set_history": lambda: session.set_history([Message("user", (text("anew"),))]),
        "title": lambda: value(session.title),
        "set_title": lambda: session.set_title("title"),
        "updated": lambda: value(session.updated),
        "event_count": session.event_count,
        "total_usage": session.total_usage,
        "branch": lambda: session.branch(user),
        "branch_with_summary": lambda: session.branch_with_summary(user, "left it"),
        "reset_leaf": session.reset_leaf,
        "create_branched_session": lambda: session.create_branched_session(answer),
        "fork": session.fork,
        "metadata": lambda: value(session.metadata),
        "update_metadata": lambda: session.update_metadata(provider=Provider("ollama", "m", 8192), metadata={"b": 2}),
        "stored_message": lambda: session.stored_message(user),
        "rebind": lambda: session.rebind("/elsewhere"),
        "stats": session.stats,
        "total_tokens": session.total_tokens,
        "tool_executions": session.tool_executions,
        "budget": lambda: value(session.budget()),
        "export": lambda: session.export("html"),
        "hand_over": lambda: session.hand_over("pi", leaf_id=answer, cwd="/", dry_run=True),
        "header": lambda: value(session.header),
        "file_path": lambda: value(session.file_path),
        "created": lambda: value(session.created),
        "name": lambda: value(session.name),
        "leaf_id": lambda: value(session.leaf_id),
        "cursor": lambda: value(session.cursor),
        "message_count": lambda: value(session.message_count),
        "tree": lambda: value(session.tree()),
        "path": lambda: value(session.path(answer)),
        "children": lambda: value(session.children(user)),
        "label": lambda: value(session.label(user)),
        "labels": lambda: value(session.labels()),
        "find_by_label": lambda: value(session.find_by_label("begin")),
        "entry": lambda: session.entry(user),
        "entries": session.entries,
        "iter_entries": lambda: collect(session.iter_entries()),
        "context": session.context,
        "messages": session.messages,
        "all_messages": session.all_messages,
        "find_safe_cut": lambda: session.find_safe_cut(5),
        "view": lambda: session.view(Labels()),
        "rebuild": lambda: session.rebuild(Labels()),
        "subscribe": lambda: first_of(session.subscribe("context")),
        "emit": lambda: done(lambda: session.emit("token", "x")),
        "emit_text": lambda: done(lambda: session.emit_text("answer", "hi", message="m")),
        "refresh": session.refresh,
        "flush": session.flush,
        "passivate": session.passivate,
        "close": session.close,
    }


async def start_and_close(root: Path) -> None:
    host = await SessionHost.start(root)
    await host.list_sessions()
    await host.aclose()


def calls_of_host(host: SessionHost, session: Session, root: Path) -> Calls:
    return {
        "start": lambda: start_and_close(root),
        "aclose": lambda: start_and_close(root),
        "create": host.create,
        "load": lambda: host.load(session.id),
        "open": lambda: host.open(session.id),
        "get_or_create": lambda: host.get_or_create("telegram:1"),
        "find_by_key": lambda: host.find_by_key("telegram:1"),
        "put": lambda: host.put(session),
        "find_recent": host.find_recent,
        "continue_recent": host.continue_recent,
        "fork_from": lambda: host.fork_from(session.id),
        "import_sessions": lambda: host.import_sessions(session.file_path or ""),
        "list_sessions": host.list_sessions,
        "resolve": lambda: host.resolve("last"),
        "get_session": lambda: host.get_session(session.id),
        "set_current_session": lambda: host.set_current_session("/work", session),
        "current_session": lambda: host.current_session("/work"),
        "subscribe_sessions": lambda: first_of(host.subscribe_sessions()),
        "sessions_position": lambda: value(host.sessions_position()),
        "statistics": lambda: value(host.statistics()),
        "flush": host.flush,
        "passivate_idle": host.passivate_idle,
        "search": lambda: collect(host.search("hello", index=True)),
        "archive": lambda: archive_and_unarchive(host, session),
        "unarchive": lambda: host.unarchive(session.id),
        "apply_retention": host.apply_retention,
    }


def files_under(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*.jsonl") if ".treering" not in path.parts}


@pytest.mark.feature("G-1", "N-7")
@pytest.mark.parametrize("dialect", ["native", "pi", "omp"])
async def test_after_any_call_a_file_has_its_old_bytes(root: Path, dialect: Literal["native", "pi", "omp"]) -> None:
    async with SessionHost(root, dialect=dialect) as host:
        session = await host.create("main", cwd="/work")
        user = await session.append_message("user", "Hello")
        answer = await session.append_message("assistant", "It is a long story. " * 20)
        await session.append_message("assistant", tool_use("call_1", "read", {}))
        of_session = calls_of_session(session, user, answer, "call_1")
        of_host = calls_of_host(host, session, root)
        assert of_session.keys() == public(Session) - NOT_FOR_PROGRAMS, (
            "add a call of the new method to calls_of_session"
        )
        assert of_host.keys() == public(SessionHost) - NOT_FOR_PROGRAMS - EXPLICIT, (
            "add a call of the new method to calls_of_host"
        )
        grew: set[str] = set()
        before = files_under(root)
        for name, call in [*of_host.items(), *of_session.items()]:
            with suppress(DialectCannot):
                await call()
            after = files_under(root)
            for path, old in before.items():
                assert after[path].startswith(old), name
                if len(after[path]) > len(old):
                    grew.add(name)
            before = after
    assert all(files_under(root)[path].startswith(old) for path, old in before.items())
    appends = {name for name in of_session if name.startswith("append")}
    assert grew == {
        *appends,
        "archive",
        "close_open_calls",
        "save_turn",
        "set_label",
        "update_metadata",
        "rebind",
        "set_summary",
        "truncate_history",
        "set_history",
        "set_title",
        "branch_with_summary",
        "summarize_branch",
        "compact",
        "summary_for_range",
    }
    async with SessionHost(root) as host:
        for row in await host.list_sessions():
            assert row.path is not None
            await host.load(row.path)
    assert all(files_under(root)[path].startswith(old) for path, old in before.items())
