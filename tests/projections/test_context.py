"""Contexts, compared with a slow reference model and with examples written by hand."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from msgspec import Raw

from treering import Header, Message, MessageEntry, SessionHost, message
from treering.events.content import Content, text, tool_result, tool_use
from treering.events.dialects.native import NativeDialect
from treering.events.entries import BashExecution, Batch, Custom, Entry, Label, OpaqueEntry, Payload, Usage, entry_of
from treering.events.entries.contextual import BranchSummary, Compaction, ContextEdit, CustomMessage
from treering.events.entries.records import ModelChange, SessionInfo, ThinkingLevel, ToolExecution, UsageRecord
from treering.events.errors import CorruptTree
from treering.events.index import LogIndex
from treering.events.json_values import raw_json
from treering.events.providers.common import rendered
from treering.projections.context import Context, ModelRef, boundary, build, extended_to, json_fields, plan, plan_since
from treering.projections.context_changes import apply_change, diff, extended
from treering.projections.tokens import entry_tokens

START = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = Header(id="s", version=1, timestamp=START)


class Log:
    """Entries as in a log, and their index."""

    def __init__(self) -> None:
        self.index = LogIndex(HEADER)
        self.entries: dict[int, Entry | None] = {}

    def add(self, payload: Payload, **fields: Any) -> str:  # noqa: ANN401  # any field of an entry
        seq = len(self.entries) + 1
        given = {"id": f"e{seq}", "parent_id": self.index.leaf_id, **fields}
        return self.fold(entry_of(payload, seq=seq, timestamp=START + timedelta(seconds=seq), **given))

    def add_message(self, role: str, content: str, **fields: Any) -> str:  # noqa: ANN401
        return self.add(message(role, content), **fields)

    def add_opaque(self, kind: str, **fields: Any) -> str:  # noqa: ANN401
        seq = len(self.entries) + 1
        given = {"id": f"e{seq}", "parent_id": self.index.leaf_id, **fields}
        raw = Raw(msgspec.json.encode({"type": kind, "timestamp": START, **given}))
        return self.fold(OpaqueEntry(type=kind, timestamp=START, raw=raw, seq=seq, **given))

    def fold(self, entry: Entry) -> str:
        self.entries[entry.seq] = entry
        self.index.fold(entry)
        return entry.id or ""

    def add_damaged(self) -> None:
        self.entries[len(self.entries) + 1] = None
        self.index.fold(None)

    def context(self, leaf: int | None = None) -> Context:
        leaf = self.index.leaf if leaf is None else leaf
        end = boundary(self.index, leaf)
        chosen = plan(self.index, leaf, self.entries[end] if end else None)
        return build(self.index, chosen, {seq: self.entries[seq] for seq in chosen.needed})

    def extended(self, context: Context, leaf: int) -> Context | None:
        """The context of a leaf, made from an earlier one if that is possible."""
        chosen = plan_since(self.index, leaf, context)
        if chosen is None:
            return None
        return extended_to(self.index, chosen, {seq: self.entries[seq] for seq in chosen.needed}, context)

    def roles_and_texts(self) -> list[tuple[str, str]]:
        """The context as (role, text)."""
        return [(each.role, text_of(each.content)) for each in self.context().messages]


def text_of(parts: tuple[Content, ...]) -> str:
    return "|".join(part.text.content for part in parts if part.__struct_config__.tag == "text")  # type: ignore[union-attr]


def compaction(summary: str, first_kept: str | None, **fields: Any) -> Compaction:  # noqa: ANN401
    return Compaction(summary, first_kept, 100, **fields)


# -- a reference model, which goes through all lines for every question


class ReferenceModel:
    """A context, computed from dictionaries without an index."""

    def __init__(self, entries: Mapping[int, Entry | None], aborted: set[int], head: int) -> None:
        self.lines: dict[int, dict[str, Any]] = {}
        for seq, entry in entries.items():
            if entry is None or seq > head or not entry.id:
                continue
            line = {"id": entry.id, "parent_id": entry.parent_id, "type": entry.type}
            if not isinstance(entry, OpaqueEntry):
                line = {"parent_id": None, **msgspec.json.decode(msgspec.json.encode(entry))}
            self.lines[seq] = {**line, "type": "aborted"} if seq in aborted else line

    def before(self, entry_id: str | None, seq: int) -> int:
        return max((each for each, line in self.lines.items() if each < seq and line["id"] == entry_id), default=0)

    def path(self, leaf: int) -> tuple[list[int], str]:
        """The seqs from the start of the path, and how it starts: "root", "missing" or "cycle"."""
        path = [leaf]
        while parent_id := self.lines[path[0]]["parent_id"]:
            parent = self.before(parent_id, path[0])
            if not parent:
                return path, "cycle" if self.is_own_ancestor(path[0], parent_id) else "missing"
            path.insert(0, parent)
        return path, "missing" if parent_id == "" else "root"

    def is_own_ancestor(self, seq: int, parent_id: str) -> bool:
        later = [each for each, line in self.lines.items() if each >= seq and line["id"] == parent_id]
        while later and later[0] > seq:
            later[0] = self.before(self.lines[later[0]]["parent_id"], later[0])
        return bool(later) and later[0] == seq

    def context(self, leaf: int) -> dict[str, Any] | str:
        path, beginning = self.path(leaf) if leaf else ([], "root")
        lines = [(seq, self.lines[seq]) for seq in path]
        model, level = None, "off"
        for _, line in lines:
            body = line.get(line["type"], {})
            if line["type"] == "model_change":
                model = {"provider": body["provider"], "model_id": body["model_id"]}
            elif line["type"] == "message" and body["role"] == "assistant" and "model" in body and "provider" in body:
                model = {"provider": body["provider"], "model_id": body["model"]}
            elif line["type"] == "thinking_level":
                level = body["thinking_level"]
        ends = [place for place, (_, line) in enumerate(lines) if line["type"] in ("compaction", "reset_boundary")]
        if not ends and beginning == "cycle":
            return "corrupt"
        messages = []
        if ends:
            seq, line = lines[ends[-1]]
            kept = lines[ends[-1] + 1 :]
            if line["type"] == "compaction":
                body = line["compaction"]
                first = (
                    0 if body["first_kept_entry_id"] == line["id"] else self.before(body["first_kept_entry_id"], seq)
                )
                if first in path:
                    kept = [each for each in lines if first <= each[0] and each[0] != seq]
                if "system_message" in body:
                    kept = [each for each in kept if each[0] > seq or not self.is_system(each[1])]
                    messages.append((seq, line["id"], "system", [text_body(body["system_message"]["content"])]))
                messages.append((seq, line["id"], "compactionSummary", [text_body(body["summary"])]))
        else:
            kept = lines
        for seq, line in kept:
            body = line.get(line["type"], {})
            if line["type"] == "message":
                messages.append((seq, line["id"], body["role"], body.get("content", [])))
            elif line["type"] == "custom_message":
                messages.append((seq, line["id"], "custom", body["content"]))
            elif line["type"] == "branch_summary" and body["summary"]:
                messages.append((seq, line["id"], "branchSummary", [text_body(body["summary"])]))
        edits = {
            self.before(line["context_edit"]["target_id"], seq): line["context_edit"].get("replacement")
            for seq, line in kept
            if line["type"] == "context_edit"
        }
        messages = self.edited(messages, edits)
        return {
            "session_id": "s",
            "leaf_id": self.lines[leaf]["id"] if leaf else None,
            "model": model,
            "thinking_level": level,
            "messages": [{"entry_id": by, "role": role, "content": content} for _, by, role, content in messages],
        }

    @staticmethod
    def is_system(line: dict[str, Any]) -> bool:
        return bool(line["type"] == "message" and line["message"]["role"] == "system")

    @staticmethod
    def edited(messages: list[Any], edits: dict[int, list[Any] | None]) -> list[Any]:
        roles_and_texts: list[Any] = []
        for seq, by, role, content in messages:
            replacement = edits.get(seq, content)
            calls = [
                part["tool_use"]["id"] for each in roles_and_texts for part in each[3] if part["type"] == "tool_use"
            ]
            results = [part["tool_result"] for part in content if part["type"] == "tool_result"]
            if replacement is None:
                left = [each for each in results if each["tool_use_id"] in calls]
                replacement = [result_part(each, "[result left out]") for each in left]
            elif role not in ("user", "assistant", "tool", "custom"):
                replacement = content
            elif replacement is not content and results:
                replacement = [result_part(results[0], replacement)]
            if replacement or seq not in edits:
                roles_and_texts.append((seq, by, role, replacement))
        return roles_and_texts


def result_part(result: dict[str, Any], content: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_result": {**result, "content": content}}


def text_body(content: str) -> dict[str, Any]:
    return {"type": "text", "text": {"content": content}}


def random_payload(rng: random.Random, ids: list[str]) -> Payload:
    def some_id() -> str:
        return rng.choice(ids) if ids and rng.random() < 0.95 else "nowhere"

    number = rng.randrange(1_000_000)
    match rng.randrange(22):
        case 0:
            return ModelChange("maker", f"m{number}")
        case 1:
            return ThinkingLevel(rng.choice(["off", "low", "high"]))
        case 2:
            return Label(some_id(), rng.choice([None, f"label{number}"]))
        case 3:
            return SessionInfo(name=f"name{number}")
        case 4:
            return Custom("x", raw_json({"n": number}))
        case 5:
            return CustomMessage("x", (text(f"custom{number}"),), raw_details=raw_json({"hidden": number}))
        case 6:
            return BranchSummary(rng.choice(["", f"branch{number}"]), some_id())
        case 7:
            kept = rng.choice([None, some_id(), some_id(), *ids[-4:-1]])
            stored = rng.choice(
                [{}, {"raw_system_message": raw_json({"role": "system", "content": f"stored{number}"})}]
            )
            return compaction(f"summary{number}", kept, **stored)
        case 8:
            return ContextEdit(rng.choice([some_id(), *ids[-3:]]), rng.choice([None, (text(f"edit{number}"),)]))
        case 12:
            return UsageRecord("cache", Usage(1, 2))
        case 13:
            return ToolExecution("c", "read")
        case 14:
            return message("system", f"system{number}")
        case 15:
            return message("assistant", f"a{number}", provider="p", model=f"m{number}")
        case 16:
            return message("assistant", [text("calls"), tool_use("c", "read", {"n": number})])
        case 17:
            return message("tool", tool_result("c", f"result{number}"))
        case _:
            return message(rng.choice(["user", "assistant", "developer"]), f"said{number}")


class RandomLog(Log):
    """A log with branches, damage, batches and every type, which grows one step at a time."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.ids: list[str] = []
        self.aborted: set[int] = set()
        self.torn: list[int] = []

    def grow(self) -> None:
        rng, seq = self.rng, len(self.entries) + 1
        if rng.random() < 0.06:
            n, torn = rng.randint(2, 4), rng.random() < 0.5
            parent = self.index.leaf_id
            for i in range(n - rng.randint(1, n - 1) if torn else n):
                parent = self.line(parent_id=parent, batch=Batch("s", f"b{seq}", i, n))
                self.torn.append(len(self.entries))
            if torn:
                self.aborted.update(self.torn)
                self.line(parent_id=self.index.leaf_id)
            self.torn = []
        elif rng.random() < 0.03:
            self.add_damaged()
        elif rng.random() < 0.06:
            self.ids.append(self.add_opaque(rng.choice(["reset_boundary", "novelty"])))
        else:
            self.line(parent_id=self.random_parent(seq), aside=rng.random() < 0.05)

    def file(self) -> bytes:
        """The log as a native file."""
        native = NativeDialect()
        lines = [native.encode_header(HEADER)]
        for entry in self.entries.values():
            if isinstance(entry, OpaqueEntry):
                lines.append(bytes(entry.raw) + b"\n")
            else:
                lines.append(b"{damaged\n" if entry is None else native.encode(entry))
        return b"".join(lines)

    def line(self, **fields: Any) -> str:  # noqa: ANN401
        seq = len(self.entries) + 1
        again = self.ids and self.rng.random() < 0.03
        fields["id"] = self.rng.choice(self.ids) if again else f"e{seq}"
        entry_id = self.add(random_payload(self.rng, self.ids), **fields)
        self.ids.append(entry_id)
        return entry_id

    def random_parent(self, seq: int) -> str | None:
        roll = self.rng.random()
        if roll < 0.85 or not self.ids:
            return self.index.leaf_id
        if roll < 0.97:
            return self.rng.choice(self.ids)
        return self.rng.choice([None, "nowhere", f"e{seq}", f"e{seq + 1}", f"e{seq + 3}"])


def as_json(context: Context) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(json_fields(context)))
    return decoded


@pytest.mark.feature("G-97")
def test_contexts_of_1000_random_trees_equal_those_of_the_reference_model(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    anyio.run(compare_contexts, tmp_path, found)
    assert found["trees"] == 1000
    assert found["corrupt"] > 50
    assert found["messages"] > 12_000


async def compare_contexts(root: Path, found: Counter[str]) -> None:
    """Write random trees to files, and compare what a host makes of them with the reference."""
    async with SessionHost(root) as host:
        for seed in range(1000):
            log = RandomLog(seed)
            for _ in range(log.rng.randint(1, 60)):
                log.grow()
            reference = ReferenceModel(log.entries, log.aborted, log.index.head)
            (root / f"{seed}.jsonl").write_bytes(log.file())
            session = await host.load(root / f"{seed}.jsonl", read_only=True)
            found["trees"] += 1
            for leaf in {log.index.leaf, *log.rng.choices([*reference.lines] or [0], k=3)}:
                entry_id = log.index.ids[leaf] if leaf else None
                expected = reference.context(reference.before(entry_id, log.index.head + 1))
                try:
                    context: dict[str, Any] | str = as_json(await session.context(entry_id))
                except CorruptTree:
                    context = "corrupt"
                assert context == expected, (seed, leaf)
                found["corrupt"] += expected == "corrupt"
                found["messages"] += 0 if isinstance(expected, str) else len(expected["messages"])


def test_a_replica_that_applies_changes_equals_the_context_at_every_step() -> None:
    quick = rebuilt = 0
    for seed in range(400):
        log = RandomLog(seed)
        replica = log.context()
        for _ in range(30):
            seen = log.index.head
            log.grow()
            for seq in range(seen + 1, log.index.head + 1):
                entry = log.entries[seq]
                change = extended(replica, log.index, entry) if entry else None
                if change is not None:
                    assert change == diff(replica, log.context(seq)), (seed, seq)
                    replica = apply_change(replica, change)
                    quick += 1
            if log.rng.random() < 0.15:
                log.index.move_leaf(log.index.find(log.rng.choice(log.ids)) if log.ids else 0)
            try:
                now = log.context()
            except CorruptTree:
                log.index.move_leaf(0)
                now = log.context()
            if replica != now:
                replica = apply_change(replica, diff(replica, now))
                rebuilt += 1
            assert replica == now, seed
    assert quick > 2_000
    assert rebuilt > 500


def test_a_context_that_extends_an_earlier_one_equals_one_built_as_a_whole() -> None:
    extended_by_messages = rebuilt = 0
    for seed in range(400):
        log = RandomLog(seed)
        earlier: list[Context] = []
        for _ in range(30):
            log.grow()
            leaf = log.rng.choice([log.index.leaf, log.rng.randint(0, log.index.head)])
            try:
                whole = log.context(leaf)
            except CorruptTree:
                whole = None
            for context in earlier:
                longer = log.extended(context, leaf)
                assert longer is None or longer == whole, (seed, context.leaf, leaf)
                rebuilt += longer is None
                extended_by_messages += longer is not None and len(longer.messages) > len(context.messages)
            if whole is not None and log.index.is_entry(leaf):
                earlier = [*earlier[-3:], whole]
    assert extended_by_messages > 5_000
    assert rebuilt > 5_000


def test_an_extended_context_needs_only_the_entries_that_are_new() -> None:
    log = Log()
    log.add(ModelChange("openai", "gpt"))
    log.add_message("user", "one")
    before = log.context()
    log.add(Label("e1", "start"))
    log.add(message("assistant", "two", provider="openai", model="other"))
    log.add(ThinkingLevel("high"))
    chosen = plan_since(log.index, log.index.leaf, before)
    assert chosen is not None
    assert chosen.needed == [4, 5]
    assert log.extended(before, log.index.leaf) == log.context()


def test_entries_that_do_not_simply_extend_a_context_give_no_quick_change() -> None:
    log = Log()
    log.add_message("user", "one")
    steps: list[Callable[[], str]] = [
        lambda: log.add(compaction("s", None)),
        lambda: log.add(ContextEdit("e1", None)),
        lambda: log.add_opaque("reset_boundary"),
        lambda: log.add_message("user", "elsewhere", parent_id="e1"),
        lambda: log.add_message("user", "beside", aside=True),
        lambda: log.add_message("user", "below what is missing", parent_id="nowhere"),
        lambda: log.add_message("user", "and on"),
    ]
    for step in steps:
        before = log.context()
        step()
        entry = log.entries[len(log.entries)]
        assert entry is not None
        assert extended(before, log.index, entry) is None
    nothing = Log().context()
    for seq in (0, 1):
        entry = MessageEntry(id="e1", parent_id=None, timestamp=START, message=message("user", "one"), seq=seq)
        assert extended(nothing, LogIndex(HEADER), entry) is None, "the index does not know the entry"


def test_the_plan_of_a_compacted_session_needs_only_the_kept_range() -> None:
    log = Log()
    log.add(ModelChange("maker", "m"))
    log.add(ThinkingLevel("high"))
    for number in range(5_000):
        log.add_message("user", f"old {number}")
    kept = log.add_message("user", "kept")
    log.add(Custom("x"))
    log.add(compaction("sum", kept))
    log.add_message("assistant", "new")
    chosen = plan(log.index, log.index.leaf, log.entries[boundary(log.index, log.index.leaf)])
    assert chosen.needed == [1, 2, 5_003, 5_005, 5_006]
    # Earlier entries are not visited, so a cycle there changes nothing.
    log.index.parents[4_000] = -2
    assert plan(log.index, log.index.leaf, log.entries[5_005]) == chosen


# -- examples


@pytest.mark.feature("G-118")
def test_without_a_compaction_the_context_has_all_messages_of_the_path() -> None:
    log = Log()
    log.add_message("user", "one")
    log.add_message("assistant", "two")
    log.add_message("user", "another branch", parent_id="e1")
    log.index.move_leaf(2)
    log.add_message("user", "three")
    assert log.roles_and_texts() == [("user", "one"), ("assistant", "two"), ("user", "three")]
    entry = log.entries[1]
    assert isinstance(entry, MessageEntry)
    assert log.context().messages[0].message is entry.message, "it is shared"


@pytest.mark.feature("G-117")
def test_only_the_summary_of_the_latest_compaction_is_in_the_context() -> None:
    log = Log()
    for turn in range(3):
        log.add_message("user", f"u{turn}")
        log.add_message("assistant", f"a{turn}")
        log.add(compaction(f"summary {turn}", f"e{3 * turn + 2}"))
    log.add_message("user", "now")
    assert [content for role, content in log.roles_and_texts() if role == "compactionSummary"] == ["summary 2"]


@pytest.mark.feature("G-119", "G-121", "O-35")
def test_the_context_is_the_summary_the_kept_entries_and_those_after_the_compaction() -> None:
    log = Log()
    log.add_message("user", "gone")
    log.add_message("assistant", "gone too")
    first_kept = log.add_message("user", "kept")
    log.add_message("assistant", "kept too")
    entry_id = log.add(compaction("what\nwas before ", first_kept))
    log.add_message("user", "after")
    log.add_message("assistant", "last")
    assert log.roles_and_texts() == [
        ("compactionSummary", "what\nwas before "),
        ("user", "kept"),
        ("assistant", "kept too"),
        ("user", "after"),
        ("assistant", "last"),
    ]
    assert [each.entry_id for each in log.context().messages] == [entry_id, "e3", "e4", "e6", "e7"]


@pytest.mark.feature("G-120", "U-8")
def test_an_older_compaction_in_the_kept_range_is_not_in_the_context() -> None:
    log = Log()
    log.add_message("user", "gone")
    first_kept = log.add_message("user", "kept")
    log.add(compaction("older", first_kept))
    log.add_message("assistant", "between")
    log.add(compaction("newer", first_kept))
    log.add_message("user", "after")
    roles, texts = zip(*log.roles_and_texts(), strict=True)
    assert roles == ("compactionSummary", "user", "assistant", "user")
    assert texts == ("newer", "kept", "between", "after")


def test_a_compaction_with_the_id_of_an_earlier_entry_keeps_nothing_by_that_id() -> None:
    log = Log()
    log.add_message("user", "one", id="twin")
    log.add(compaction("sum", "twin"), id="twin")
    assert log.roles_and_texts() == [("compactionSummary", "sum")]


def test_a_difference_is_as_small_as_possible() -> None:
    log = Log()
    for number in range(5):
        log.add_message("user", f"said {number}")
    old = log.context()
    log.add(ContextEdit("e2", (text("edited"),)))
    change = diff(old, log.context())
    assert (change.start, change.delete, [text_of(each.content) for each in change.insert]) == (1, 1, ["edited"])
    log.add(ContextEdit("e2", None))
    change = diff(old, log.context())
    assert (change.start, change.delete, change.insert) == (1, 1, ())
    assert (diff(old, old).start, diff(old, old).delete, diff(old, old).insert) == (5, 0, ())


@pytest.mark.feature("G-122")
def test_the_model_and_thinking_level_are_the_latest_of_the_whole_path() -> None:
    log = Log()
    log.add(ModelChange("maker", "first"))
    log.add(ThinkingLevel("low"))
    log.add_message("user", "one")
    log.add(message("assistant", "two", provider="maker", model="second"))
    log.add(ThinkingLevel("high"))
    log.add_message("assistant", "a model that is not named changes nothing")
    log.add(compaction("sum", None))
    last = log.add_message("user", "after")
    log.add(ModelChange("maker", "of another branch"), parent_id="e3")
    log.index.move_leaf(log.index.find(last))
    context = log.context()
    assert (context.model, context.thinking_level) == (ModelRef("maker", "second"), "high")
    assert (log.context(3).model, log.context(3).thinking_level) == (ModelRef("maker", "first"), "low")
    log.add_message("user", "below what is missing", parent_id="nowhere")
    assert log.context(0) == Context("s")


@pytest.mark.feature("G-123", "G-128", "O-24")
def test_labels_and_extension_data_never_reach_a_context() -> None:
    log = Log()
    log.add_message("user", "one")
    log.add(Label("e1", "SECRET label"))
    log.add(Custom("SECRET kind", raw_json({"SECRET": "state"})))
    log.add(compaction("sum", "e1"))
    log.add(Label("e1", "SECRET again"))
    log.add(Custom("SECRET kind"))
    log.add_message("user", "two")
    assert log.roles_and_texts() == [("compactionSummary", "sum"), ("user", "one"), ("user", "two")]
    assert b"SECRET" not in msgspec.json.encode(log.context())


@pytest.mark.feature("O-29", "O-36")
def test_branch_summaries_and_messages_of_extensions_become_messages() -> None:
    log = Log()
    log.add_message("user", "one")
    log.add(BranchSummary("it went wrong", "e9", raw_details=raw_json({"SECRET": 1})))
    log.add(BranchSummary("", "e9"))
    log.add(CustomMessage("hook", (text("remember"),), display=False, raw_details=raw_json({"SECRET": 2})))
    log.add_message("assistant", "two")
    assert log.roles_and_texts() == [
        ("user", "one"),
        ("branchSummary", "it went wrong"),
        ("custom", "remember"),
        ("assistant", "two"),
    ]
    custom = log.context().messages[2].message
    assert (custom.custom_type, custom.display) == ("hook", False)
    assert b"SECRET" not in msgspec.json.encode(log.context())


def test_a_stored_system_message_comes_first_and_replaces_the_kept_ones() -> None:
    log = Log()
    log.add_message("system", "old words")
    log.add_message("user", "one")
    log.add_message("system", "newer words")
    stored = {"role": "system", "content": [{"type": "text", "text": "newest words"}], "sections": {"cwd": "/p"}}
    log.add(compaction("sum", "e1", raw_system_message=raw_json(stored)))
    log.add_message("system", "added later")
    assert log.roles_and_texts() == [
        ("system", "newest words\n\n/p"),
        ("compactionSummary", "sum"),
        ("user", "one"),
        ("system", "added later"),
    ]
    assert log.context().messages[0].message.metadata == stored
    log.add(compaction("without", "e1"))
    assert log.roles_and_texts()[:3] == [("compactionSummary", "without"), ("system", "old words"), ("user", "one")]


def test_sections_of_system_messages_are_in_quick_changes_too() -> None:
    log = Log()
    for cwd in "/a", "/b":
        before = log.context()
        log.add(Message("system", (text("rules"),), raw_metadata=raw_json({"sections": {"cwd": cwd}})))
        entry = log.entries[len(log.entries)]
        assert entry is not None
        change = extended(before, log.index, entry)
        assert change is not None
        assert apply_change(before, change) == log.context()
    assert [words for _, words in log.roles_and_texts()] == [
        "rules\n\n/a",
        'rules\n\nUpdated system prompt section "cwd":\n\n/b',
    ]


@pytest.mark.parametrize(
    ("bash", "expected"),
    [
        (BashExecution("ls", "a\nb", exit_code=0), "Ran `ls`\n```\na\nb\n```"),
        (BashExecution("true"), "Ran `true`\n(no output)"),
        (BashExecution("false", exit_code=1), "Ran `false`\n(no output)\n\nCommand exited with code 1"),
        (BashExecution("yes", "y", 1, cancelled=True), "Ran `yes`\n```\ny\n```\n\n(command cancelled)"),
        (
            BashExecution("cat", "x", truncated=True, full_output_path="/tmp/o"),
            "Ran `cat`\n```\nx\n```\n\n[Output truncated. Full output: /tmp/o]",
        ),
    ],
)
def test_a_command_that_a_person_ran_is_in_the_context_as_text(bash: BashExecution, expected: str) -> None:
    log = Log()
    log.add(Message("bashExecution", bash=bash))
    log.add(Message("bashExecution", (text("its own"),), bash=bash))
    log.add(Message("user", bash=bash))
    assert log.roles_and_texts() == [("bashExecution", expected), ("bashExecution", "its own"), ("user", "")]


def test_an_excluded_command_is_in_the_context_but_not_sent_to_the_model() -> None:
    log = Log()
    log.add(Message("bashExecution", bash=BashExecution("pass", "SECRET", exclude_from_context=True)))
    (held,) = log.context().messages
    assert held.role == "bashExecution"
    assert rendered(held.message) is None
    entry = log.entries[1]
    assert entry is not None
    assert entry_tokens(entry) == 0


def test_an_unreadable_body_is_left_out_of_the_context() -> None:
    log = Log()
    log.add_message("user", "one")
    log.add_message("user", "two")
    log.entries[1] = None
    assert log.roles_and_texts() == [("user", "two")]
    log.add(compaction("sum", "e1"))
    log.entries[3] = None
    assert log.roles_and_texts() == []
    assert "cannot be read" in log.context().warnings[0]


def test_the_json_of_a_context_has_the_native_form_of_its_parts() -> None:
    log = Log()
    log.add(ModelChange("maker", "m"))
    log.add(message("assistant", [text("see"), tool_use("c", "read", {"path": ["x"]})]))
    assert as_json(log.context()) == {
        "session_id": "s",
        "leaf_id": "e2",
        "model": {"provider": "maker", "model_id": "m"},
        "thinking_level": "off",
        "messages": [
            {
                "entry_id": "e2",
                "role": "assistant",
                "content": [
                    text_body("see"),
                    {"type": "tool_use", "tool_use": {"id": "c", "name": "read", "input": {"path": ["x"]}}},
                ],
            }
        ],
    }
    assert as_json(Log().context()) == {
        "session_id": "s",
        "leaf_id": None,
        "model": None,
        "thinking_level": "off",
        "messages": [],
    }
