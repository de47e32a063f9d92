"""Hypothesis strategies for the parts of a session, for tests of programs that read, write or fold entries.

    from hypothesis import given
    from treering.testing import strategies

    @given(strategies.trees())
    def test_my_projection_survives_any_session(entries): ...

This needs hypothesis, which `pip install 'treering[test]'` installs. Everything drawn is well-formed: it can be written
in the native dialect and reads back equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Literal, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from msgspec import Raw
from msgspec.inspect import (
    BoolType,
    FloatType,
    IntType,
    NoneType,
    RawType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from ..events.content import (
    Content,
    Image,
    ImagePart,
    ImageSource,
    Text,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolResult,
    ToolResultPart,
    ToolUse,
    ToolUsePart,
)
from ..events.entries import (
    ENTRY_TYPES,
    PAYLOADS,
    ROLES,
    BashExecution,
    Batch,
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    KnownEntry,
    Label,
    Message,
    MessageEntry,
    Payload,
    SessionInfo,
    ThinkingLevel,
    Usage,
    entry_of,
)
from ..events.json_values import JSON, raw_json

__all__ = ["contents", "entries", "ids", "json_values", "messages", "parts", "payloads", "times", "trees"]

_BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)

_Drawn = TypeVar("_Drawn")


def ids() -> SearchStrategy[str]:
    """Draw entry ids: uuids, or eight hexadecimal digits."""
    return st.uuids(version=4).map(str) | st.uuids(version=4).map(lambda uuid: uuid.hex[:8])


def times() -> SearchStrategy[datetime]:
    """Draw times in UTC."""
    return st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1), timezones=st.just(UTC))


def json_values(*, max_leaves: int = 8) -> SearchStrategy[JSON]:
    """Draw any JSON value: nested, with text in any script and numbers beyond 64 bits.

    Args:
        max_leaves: The maximum number of scalars in a value.
    """
    scalars: SearchStrategy[JSON] = (
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _words()
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_words(), inner, max_size=4),
        max_leaves=max_leaves,
    )


def parts(role: str | None = None) -> SearchStrategy[Content]:
    """Draw content parts.

    Args:
        role: Draw only parts that a message with this role may hold.
    """
    shown: SearchStrategy[Content] = _texts() | _images()
    if role is None:
        return st.one_of(shown, _tool_uses(), _tool_results(), _thoughts())
    if role == "assistant":
        return st.one_of(_texts(), _tool_uses(), _thoughts())
    return _tool_results() if role == "tool" else shown


def contents(role: str | None = None, *, min_size: int = 0, max_size: int = 3) -> SearchStrategy[tuple[Content, ...]]:
    """Draw message contents.

    Args:
        role: Draw only parts that a message with this role may hold.
        min_size: The minimum number of parts.
        max_size: The maximum number of parts.
    """
    return st.lists(parts(role), min_size=min_size, max_size=max_size).map(tuple)


def messages(roles: Sequence[str] = tuple(sorted(ROLES))) -> SearchStrategy[Message]:
    """Draw messages, each with the parts and fields that its role may have.

    Args:
        roles: The roles to draw from.
    """
    return st.one_of([_messages_of(role) for role in roles])


@cache
def payloads() -> SearchStrategy[Payload]:
    """Draw payloads of every type; the entry ids that they refer to are random."""
    return st.one_of([_payloads_of(name) for name in ENTRY_TYPES])


def entries(types: Sequence[str] | None = None) -> SearchStrategy[KnownEntry]:
    """Draw single entries of every type; their parents and the entries that they refer to do not exist.

    Args:
        types: The names of the types to draw from, such as "message"; by default all.
    """
    return _entries_of(st.one_of([_payloads_of(name) for name in (ENTRY_TYPES if types is None else types)]))


@st.composite
def trees(draw: DrawFn, *, min_size: int = 0, max_size: int = 12) -> list[KnownEntry]:
    """Draw the entries of one session in log order, with branches, occasional second roots, and entries aside.

    Ids are unique, seqs count from 1, times never decrease, parents and targets are earlier entries, the entries that a
    compaction keeps are on its path, and a tool result answers an earlier call if there is one.

    Args:
        draw: Passed by hypothesis.
        min_size: The minimum number of entries.
        max_size: The maximum number of entries.
    """
    names = draw(st.lists(ids(), unique=True, min_size=min_size, max_size=max_size))
    entry_by_id: dict[str, KnownEntry] = {}
    leaf: str | None = None
    time = _BEGINNING
    for seq, entry_id in enumerate(names, 1):
        parent = leaf
        if entry_by_id and draw(st.integers(0, 3)) == 0:
            parent = draw(st.none() | st.sampled_from(list(entry_by_id)))
        path = _path(entry_by_id, parent)
        payload = draw(payloads()) if path else _rootable(draw(payloads()))
        time += timedelta(milliseconds=draw(st.integers(0, 5_000)))
        aside = parent != leaf and draw(st.booleans())
        payload = _with_existing_targets(draw, payload, entry_by_id, path, leaf)
        entry_by_id[entry_id] = entry_of(payload, id=entry_id, parent_id=parent, timestamp=time, seq=seq, aside=aside)
        leaf = leaf if aside else entry_id
    return list(entry_by_id.values())


def _path(entry_by_id: Mapping[str, KnownEntry], entry_id: str | None) -> list[str]:
    path: list[str] = []
    while entry_id is not None:
        path.append(entry_id)
        entry_id = entry_by_id[entry_id].parent_id
    return path[::-1]


def _rootable(payload: Payload) -> Payload:
    """Replace a payload that has to refer to an earlier entry."""
    needs_target = isinstance(payload, (Label, Compaction, BranchSummary, ContextEdit))
    return ThinkingLevel("off") if needs_target else payload


def _with_existing_targets(
    draw: DrawFn, payload: Payload, entry_by_id: Mapping[str, KnownEntry], path: Sequence[str], leaf: str | None
) -> Payload:
    """Make a payload refer to existing entries."""
    replace = msgspec.structs.replace
    match payload:
        case Label():
            return replace(payload, target_id=draw(st.sampled_from(list(entry_by_id))))
        case ContextEdit():
            return replace(payload, target_id=draw(st.sampled_from(list(path))))
        case Compaction():
            return replace(payload, first_kept_entry_id=draw(st.none() | st.sampled_from(list(path))))
        case BranchSummary():
            return replace(payload, from_id=leaf or path[-1])
        case Message(role="tool"):
            return _answering(draw, payload, [entry_by_id[each] for each in path])
        case _:
            return payload


def _answering(draw: DrawFn, message: Message, path: Sequence[KnownEntry]) -> Message:
    calls = [
        part.tool_use.id
        for entry in path
        if isinstance(entry, MessageEntry)
        for part in entry.message.content
        if isinstance(part, ToolUsePart)
    ]
    if not calls:
        return message
    answered = [
        ToolResultPart(msgspec.structs.replace(part.tool_result, tool_use_id=draw(st.sampled_from(calls))))
        for part in message.content
        if isinstance(part, ToolResultPart)
    ]
    return msgspec.structs.replace(message, content=tuple(answered))


def _payloads_of(name: str) -> SearchStrategy[Payload]:
    """Draw payloads of a type: as `_PAYLOADS` says, or else by the types of its fields."""
    strategy = _PAYLOADS.get(name)
    return strategy() if strategy is not None else _structs(PAYLOADS[name])


@cache
def _structs(kind: type[_Drawn]) -> SearchStrategy[_Drawn]:
    info = type_info(kind)
    assert isinstance(info, StructType)
    return st.builds(kind, **{each.name: _of_type(each.type) for each in info.fields})


def _of_type(info: Type) -> SearchStrategy[object]:
    """Draw values of a field's type."""
    match info:
        case UnionType():
            return st.one_of([_of_type(each) for each in info.types])
        case StrType():
            return _words(min_size=info.min_length or 0)
        case IntType():
            return st.integers(0 if info.ge == 0 else -(10**9), 10**9)
        case FloatType():
            return st.floats(0, 1e9)
        case BoolType():
            return st.booleans()
        case NoneType():
            return st.none()
        case RawType():
            return _objects()
        case VarTupleType():
            return contents("user")
        case StructType():
            return _structs(info.cls)
        case _:
            raise NotImplementedError(f"no values are drawn for {info}: give its type a row in `_PAYLOADS`")


def _entries_of(payload: SearchStrategy[_Drawn]) -> SearchStrategy[KnownEntry]:
    batches = st.builds(Batch, session=ids(), id=ids(), i=st.integers(0, 9), n=st.integers(1, 10))
    return st.builds(
        entry_of,
        payload,
        id=ids(),
        parent_id=_maybe(ids()),
        timestamp=times(),
        seq=st.integers(1, 10**6),
        aside=st.booleans(),
        command_id=_maybe(_words(min_size=1)),
        batch=_maybe(batches),
    )


def _words(*, min_size: int = 0) -> SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), min_size=min_size, max_size=16)


def _maybe(strategy: SearchStrategy[_Drawn]) -> SearchStrategy[_Drawn | None]:
    return st.none() | strategy


@cache
def _raws() -> SearchStrategy[Raw | None]:
    return _maybe(json_values(max_leaves=4).map(raw_json))


@cache
def _objects() -> SearchStrategy[Raw]:
    return st.dictionaries(_words(), json_values(max_leaves=3), max_size=3).map(raw_json)


@cache
def _texts() -> SearchStrategy[TextPart]:
    return st.builds(TextPart, st.builds(Text, _words(), _maybe(_words())))


@cache
def _images() -> SearchStrategy[ImagePart]:
    kinds: SearchStrategy[Literal["base64", "url"]] = st.sampled_from(["base64", "url"])
    media_types = st.sampled_from(["image/png", "image/jpeg", "image/webp"])
    return st.builds(ImagePart, st.builds(Image, st.builds(ImageSource, kinds, media_types, _words())))


@cache
def _tool_uses() -> SearchStrategy[ToolUsePart]:
    return st.builds(ToolUsePart, st.builds(ToolUse, ids(), _words(min_size=1), _objects(), _maybe(_words())))


@cache
def _tool_results() -> SearchStrategy[ToolResultPart]:
    bodies = _words() | st.lists(_texts() | _images(), max_size=2).map(tuple)
    return st.builds(ToolResultPart, st.builds(ToolResult, ids(), bodies, st.booleans()))


@cache
def _thoughts() -> SearchStrategy[ThinkingPart]:
    return st.builds(ThinkingPart, st.builds(Thinking, _words(), _maybe(_words()), st.booleans()))


@cache
def _usages() -> SearchStrategy[Usage]:
    counts = st.integers(0, 10**9)
    return st.builds(Usage, counts, counts, counts, counts, counts, st.floats(0, 1e6))


@cache
def _messages_of(role: str) -> SearchStrategy[Message]:
    fields: dict[str, SearchStrategy[object]] = {"role": st.just(role), "raw_metadata": _maybe(_objects())}
    match role:
        case "assistant":
            fields |= {
                "content": contents(role),
                "model": _maybe(_words()),
                "provider": _maybe(_words()),
                "usage": _maybe(_usages()),
                "stop_reason": _maybe(_words()),
                "error": _maybe(_words()),
                "duration_ms": _maybe(st.floats(0, 1e9)),
            }
        case "tool":
            fields |= {"content": contents(role, min_size=1), "tool_name": _maybe(_words())}
        case "bashExecution":
            fields |= {"bash": _bash_executions()}
        case "custom":
            fields |= {"content": contents(role), "custom_type": _words(), "display": _maybe(st.booleans())}
        case "branchSummary" | "compactionSummary":
            fields |= {"content": st.tuples(_texts())}
        case _:
            fields |= {"content": contents(role, min_size=1)}
    return st.builds(Message, **fields)


@cache
def _bash_executions() -> SearchStrategy[BashExecution]:
    flags = st.booleans()
    return st.builds(
        BashExecution, _words(), _words(), _maybe(st.integers(0, 255)), flags, flags, _maybe(_words()), flags
    )


@cache
def _infos() -> SearchStrategy[SessionInfo]:
    words = _maybe(_words())
    return st.builds(SessionInfo, words, words, words, words, words, _maybe(_objects()))


@cache
def _compactions() -> SearchStrategy[Compaction]:
    return st.builds(
        Compaction,
        summary=_words(),
        first_kept_entry_id=_maybe(ids()),
        tokens_before=st.integers(0, 10**9),
        raw_details=_raws(),
        usage=_maybe(_usages()),
        from_hook=st.booleans(),
        raw_system_message=_raws(),
    )


_PAYLOADS: dict[str, Callable[[], SearchStrategy[Payload]]] = {
    "message": messages,
    "thinking_level": lambda: st.builds(ThinkingLevel, st.sampled_from(["off", "low", "high"]) | _words()),
    "label": lambda: st.builds(Label, ids(), _maybe(_words())),
    "session_info": _infos,
    "compaction": _compactions,
    "branch_summary": lambda: st.builds(
        BranchSummary, _words(), ids(), _raws(), _maybe(_usages()), from_hook=st.booleans()
    ),
    "custom": lambda: st.builds(Custom, _words(min_size=1), _raws()),
    "custom_message": lambda: st.builds(CustomMessage, _words(min_size=1), contents("user"), st.booleans(), _raws()),
    "context_edit": lambda: st.builds(ContextEdit, ids(), _maybe(contents("user"))),
}
"""How payloads are drawn, by type; those of all other types are drawn by the types of their fields."""
