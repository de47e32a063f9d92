"""The real pi and treering on one file: each sees what the other appended, and both show the same."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from treering import Message, Session, SessionHost, image, plain_text, text, thinking, tool_result, tool_use
from treering.entries import BashExecution, Content, ImagePart, TextPart, ThinkingPart, ToolResultPart, ToolUsePart

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("pi_session.mjs")
DATA = Path(__file__).resolve().parents[1] / "data"

Calls: TypeAlias = Sequence[Sequence[object]]
Shown: TypeAlias = dict[str, Any]
Pi: TypeAlias = Callable[..., Shown]

USAGE: dict[str, object] = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 1) | {
    "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
}


def user(content: str) -> dict[str, object]:
    return {"role": "user", "content": content, "timestamp": 1772355600000}


def assistant(*blocks: dict[str, object]) -> dict[str, object]:
    model = {"api": "x", "provider": "anthropic", "model": "claude-oak", "usage": USAGE, "stopReason": "stop"}
    return {"role": "assistant", "content": list(blocks), **model, "timestamp": 1772355600000}


def text_block(content: str) -> dict[str, object]:
    return {"type": "text", "text": content}


def file_bytes(path: str) -> bytes:
    return Path(path).read_bytes()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop is enough: running pi is slow and does not depend on the event loop."""
    return "asyncio"


@pytest.fixture(scope="session")
def pi_modules() -> Path:
    """The node_modules folder that contains the real pi."""
    named = os.environ.get("TREERING_PI_NODE_MODULES")
    modules = Path(named) if named else ROOT / ".node" / "node_modules"
    package = modules / "@mariozechner" / "pi-coding-agent" / "package.json"
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not package.is_file():
        pytest.skip(f"the real pi is not in {modules}: npm install --prefix .node @mariozechner/pi-coding-agent@0.73.1")
    assert json.loads(package.read_text(encoding="utf-8"))["version"] == "0.73.1"
    return modules


@pytest.fixture
def pi(pi_modules: Path, tmp_path: Path) -> Pi:
    """Run pi on a file, or let it create one, and return what it shows."""

    def run(how: str, *where: Path | str, calls: Calls = ()) -> Shown:
        command = ["node", SCRIPT, pi_modules, how, *where]
        environment = {**os.environ, "HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}
        done = subprocess.run(
            command, input=json.dumps(calls), capture_output=True, text=True, env=environment, timeout=250, check=False
        )
        assert done.returncode == 0, done.stderr
        shown: Shown = json.loads(done.stdout)
        return shown

    return run


def block_of(part: Content) -> tuple[object, ...]:
    match part:
        case TextPart():
            return "text", part.text.content
        case ThinkingPart():
            return "thinking", part.thinking.content, part.thinking.signature
        case ToolUsePart():
            return "toolCall", part.tool_use.id, part.tool_use.name, part.tool_use.input
        case ImagePart():
            return "image", part.image.source.media_type, part.image.source.data
        case ToolResultPart():
            body = part.tool_result
            parts = [("text", body.content)] if isinstance(body.content, str) else list(map(block_of, body.content))
            return "toolResult", body.tool_use_id, body.is_error, parts


def ours(message: Message) -> tuple[object, ...]:
    if message.role == "tool":
        [part] = message.content
        return "toolResult", message.tool_name, *block_of(part)[1:]
    if message.bash is not None:
        bash = message.bash
        return "bashExecution", bash.command, bash.output, bash.exit_code, bash.exclude_from_context
    if message.role in ("compactionSummary", "branchSummary"):
        return message.role, plain_text(message.content)
    return message.role, [block_of(part) for part in message.content]


def blocks(content: str | list[dict[str, Any]]) -> list[tuple[object, ...]]:
    if isinstance(content, str):
        return [("text", content)]
    keys = {
        "text": ("text",),
        "thinking": ("thinking", "thinkingSignature"),
        "toolCall": ("id", "name", "arguments"),
        "image": ("mimeType", "data"),
    }
    return [(each["type"], *(each.get(key) for key in keys[each["type"]])) for each in content]


def theirs(message: dict[str, Any]) -> tuple[object, ...]:
    role = message["role"]
    if role == "toolResult":
        return role, message["toolName"], message["toolCallId"], message["isError"], blocks(message["content"])
    if role == "bashExecution":
        excluded = message.get("excludeFromContext", False)
        return role, message["command"], message["output"], message.get("exitCode"), excluded
    if role in ("compactionSummary", "branchSummary"):
        return role, message["summary"]
    return role, blocks(message["content"])


async def check(session: Session, shown: Shown) -> None:
    """Compare everything that treering shows with what pi shows."""
    context = await session.context()
    assert [ours(each.message) for each in context.messages] == [theirs(each) for each in shown["context"]["messages"]]
    model = None if context.model is None else {"provider": context.model.provider, "modelId": context.model.model_id}
    assert (model, context.thinking_level) == (shown["context"]["model"], shown["context"]["thinkingLevel"])
    assert session.leaf_id == shown["leaf"]
    assert session.path() == shown["path"]
    assert session.name == shown["name"]
    assert [entry.id for entry in await session.entries()] == [entry["id"] for entry in shown["entries"]]
    names = {"thinking_level": "thinking_level_change", "tool_execution": "custom"}
    assert [
        (node.id, node.parent_id, names.get(node.type, node.type), node.label) for node in session.tree().nodes
    ] == [(node["id"], node["parentId"], node["type"], node["label"]) for node in shown["nodes"]]


@pytest.mark.feature("X-31", "O-33")
@pytest.mark.parametrize("name", ["pi_v1.jsonl", "pi_v2.jsonl", "pi_v3.jsonl"])
async def test_a_file_of_each_version_reads_the_same_in_both(pi: Pi, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    shutil.copy(DATA / name, path)
    async with SessionHost(tmp_path) as host:
        session = await host.load(path)  # migrates the file, so that pi generates no ids
        await check(session, pi("open", path))


@pytest.mark.feature("X-31")
async def test_pi_reads_what_treering_writes(pi: Pi, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "root", dialect="pi") as host:
        session = await host.create(cwd="/work/rings")
        first = await session.append_message("user", ["How old?", image("aGk=", "image/png")])
        path = Path(session.file_path or "")
        await check(session, pi("open", path))
        await session.append_model_change("openai", "gpt-birch")
        await session.append_thinking_level_change("high")
        calls: list[Content | str] = [
            thinking("count", signature="s"),
            tool_use("c1", "count", {"deep": [1, None, "ü"]}),
            text("a\u2028b"),
        ]
        answer = await session.append_message("assistant", calls, provider="anthropic", model="claude-oak")
        await session.append_tool_execution("c1", "count", {"deep": []}, "112", duration_ms=3.5)
        await session.append_many([Message("tool", (tool_result("c2", "no", is_error=True),), tool_name="look")])
        await session.append_message("assistant", "About 112.", provider="anthropic", model="claude-elm")
        await session.set_label(first, "question")
        await session.append_session_info("Rings of\na tree")
        await session.append(Message("bashExecution", bash=BashExecution("ls", "a", 1, exclude_from_context=True)))
        await session.append_custom_entry("saw", {"teeth": 3})
        await session.append_custom_message("saw", ["sharp", image("aGk=", "image/png")], display=False, details=[1])
        kept = await session.append_message("user", "Go on")
        await check(session, pi("open", path))
        await session.append_compaction("It is old.", kept, 500, details={"x": 1}, from_hook=True)
        await session.append_message("user", "After")
        await check(session, pi("open", path))
        await session.append_compaction("Nothing is kept.", None, 500)
        await check(session, pi("open", path))
        await session.branch(answer)
        await session.append_message("user", "Elsewhere")
        await check(session, pi("open", path))
        await session.branch_with_summary(first, "It was elsewhere.", details={"readFiles": []})
        await session.set_label(first, None)
        await session.reset_leaf()
        await session.append_message("user", "A new root")
        await check(session, pi("open", path))
        copy = await session.fork()
        header = pi("open", copy.file_path or "")["header"]
        assert (header["parentSession"], header["cwd"]) == (str(path), "/work/rings")
        await session.set_label(answer, "answer")
        part = await session.create_branched_session(answer)
        assert part.labels() == [(answer, "answer")]
        await check(part, pi("open", part.file_path or ""))


@pytest.mark.feature("X-31")
async def test_treering_reads_what_pi_writes(pi: Pi, tmp_path: Path) -> None:
    calls: Calls = [
        ["appendModelChange", "openai", "gpt-birch"],
        ["appendThinkingLevelChange", "low"],
        ["appendMessage", user("How old?")],
        ["appendMessage", assistant({"type": "toolCall", "id": "c1", "name": "count", "arguments": {"n": 1}})],
        ["appendMessage", {"role": "toolResult", "toolCallId": "c1", "toolName": "count",
                           "content": [text_block("112")], "isError": False, "timestamp": 1}],
        ["appendMessage", assistant(text_block("About 112."))],
        ["appendLabelChange", "$2", "question"],
        ["appendSessionInfo", " Rings "],
        ["branchWithSummary", "$3", "Counted.", {"readFiles": ["a"]}, True],
        ["appendCustomEntry", "saw", {"teeth": 3}],
        ["appendCustomMessageEntry", "saw", "sharp", True, {"k": 1}],
        ["appendMessage", user("Go on")],
        ["appendCompaction", "It is old.", "$11", 500, {"d": 1}, True],
        ["appendMessage", assistant(text_block("On."))],
    ]  # fmt: skip
    shown = pi("create", "/work/rings", tmp_path / "root", calls=calls)
    before = file_bytes(shown["file"])
    async with SessionHost(tmp_path / "root") as host:
        session = await host.load(shown["file"])
        await check(session, shown)
        assert session.label(shown["results"][2]) == "question"
        assert (session.header.id, session.header.cwd) == (shown["header"]["id"], "/work/rings")
    assert file_bytes(shown["file"]) == before


@pytest.mark.feature("X-31")
async def test_both_can_append_to_one_file_in_turn(pi: Pi, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "root", dialect="pi") as host:
        session = await host.create(cwd="/work/rings")
        first = await session.append_message("user", "Begin")
        await session.append_message("assistant", "Begun.", provider="anthropic", model="claude-oak")
        path = session.file_path or ""
        for turn in range(2):
            shown = pi(
                "open",
                path,
                calls=[["appendMessage", user(f"pi {turn}")], ["appendMessage", assistant(text_block("a"))]],
            )
            theirs_last = shown["leaf"]
            mine = await session.append_message("user", f"treering {turn}")  # without a refresh before
            assert session.path()[-2:] == [theirs_last, mine]
            await check(session, pi("open", path))
            shown = pi("open", path, calls=[["branch", first], ["appendMessage", user(f"pi aside {turn}")]])
            await session.refresh()
            await check(session, shown)
            await session.branch(mine)
            shown = pi("open", path, calls=[["appendLabelChange", first, f"label {turn}"]])
            await check(session, shown)
            both = [Message("user", (text(f"{turn}.{n}"),)) for n in range(2)]
            await session.append_many(both)
            await check(session, pi("open", path))
        follower = await host.load(path, read_only=True)
        await check(follower, pi("open", path))
        assert await follower.entries() == await session.entries()
    async with SessionHost(tmp_path / "root") as host:
        await check(await host.load(path), pi("open", path))


@pytest.mark.feature("X-31")
async def test_a_file_that_pi_wrote_twice_reads_the_same_in_both(pi: Pi, tmp_path: Path) -> None:
    """pi does not write a first prompt until the answer is there, and then writes the whole session once more."""
    async with SessionHost(tmp_path / "root", dialect="pi") as host:
        session = await host.create(cwd="/work/rings")
        await session.append_message("user", "One")
        path = session.file_path or ""
        pi("open", path, calls=[["appendMessage", user("Two")], ["appendMessage", assistant(text_block("Three"))]])
        assert file_bytes(path).count(b'"type":"session"') == 2
        shown = pi("open", path)
        context = await session.context()
        assert [ours(each.message) for each in context.messages] == [
            theirs(each) for each in shown["context"]["messages"]
        ]
        assert (session.leaf_id, session.path()) == (shown["leaf"], shown["path"])
        await session.append_message("user", "Four")
        shown = pi("open", path)
        assert [message["role"] for message in shown["context"]["messages"]] == ["user", "user", "assistant", "user"]
        assert (session.leaf_id, session.path()) == (shown["leaf"], shown["path"])


async def test_an_export_for_pi_reads_the_same_in_pi(pi: Pi, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create(cwd="/work/rings")
        await session.append_message("user", "Count both.")
        calls = [tool_use("a", "count", {"tree": "oak"}), tool_use("b", "count", {"tree": "elm"})]
        asked = await session.append_message("assistant", calls, provider="anthropic", model="claude-oak")
        await session.append_message("tool", [tool_result("a", "112"), tool_result("b", "7")])
        await session.append_compaction("Both were counted.", asked, 100)
        await session.set_label(asked, "count")
        await session.append_session_info("Rings")
        await session.append_message("user", "Thanks")
        path = await session.export("pi", tmp_path / "pi.jsonl")
    async with SessionHost(tmp_path) as host:
        await check(await host.load(path, read_only=True), pi("open", path))
