"""The samples of each page run unchanged and in order, in one folder, as a reader would run them.

What a page leaves to its reader (a session, a budget) is defined for each sample. A comment before a sample says what
is special about it: `<!-- not run: why -->`, or `<!-- run: until the host closes -->` if it follows a session.
"""

import ast
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from types import CodeType
from typing import Any

import anyio
import pytest
from anyio import to_thread
from msgspec import Struct

import treering
from treering import AgentSession, KeyedSessions, Message, SessionHost, default_root, tool, tool_use
from treering.agents import Suspend
from treering.contexts import SummaryRequest, calculate_budget
from treering.projections.tokens import ByteEstimator
from treering.testing.models import ScriptedModel, Step, answer

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted([PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")])
SAMPLE = re.compile(
    r"(?:<!-- (?P<mark>[^>]+) -->\n)?(?P<pad> *)```python\n(?P<code>.*?)^ *```$", re.DOTALL | re.MULTILINE
)
FOLLOWS = "run: until the host closes"
EXTRAS = {
    "agent_framework": "adapters.agent_framework",
    "agents": "adapters.openai_agents",
    "bpe_openai": "ExactTokenizer",
    "claude_agent_sdk": "adapters.claude_agent_sdk",
    "google.adk": "adapters.adk",
    "langgraph": "adapters.langgraph",
    "openai": "OpenAIModel",
    "pydantic_ai": "adapters.pydantic_ai",
    "strands": "adapters.strands",
}
"""Packages of extras, and what a sample names that needs each."""

SHOWN = {
    "README.md": ["assistant: Fewer passes, then.\n"],
    "agents.md": ["(echo, 2 messages) Hello", "Sunny.Usage("],
    "catalog.md": ["Hello 1 "],
    "exporting.md": ["{'ticket': 600}"],
    "formats.md": ["room-1 2\n"],
    "handing-over.md": ["claude --resume "],
    "index.md": ["['Which one first?', 'Fewer passes, then.']\n", "60 message\n"],
    "keeping.md": [],
    "models.md": ["Hello to you."],
    "search.md": ["TREE-0: the timeout of read file does."],
    "subscriptions.md": ["30\n"],
}
"""Lines that the samples of a page print."""


class Sample(Struct, frozen=True):
    """A sample of a page, and the comment before it."""

    page: Path
    line: int
    mark: str
    code: str

    def compiled(self) -> CodeType:
        """Compile the sample so that an error has the line number of the page."""
        source = "\n" * (self.line - 1) + self.code
        code: CodeType = compile(source, self.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        return code


def samples_of(page: Path) -> list[Sample]:
    text = page.read_text(encoding="utf-8")
    return [
        Sample(page, text.count("\n", 0, found.start("code")) + 1, found["mark"] or "", dedent(found["code"]))
        for found in SAMPLE.finditer(text)
    ]


SAMPLES = {page.name: samples for page in PAGES if (samples := samples_of(page))}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the home and the current directory of the samples a folder of the test."""
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("TREERING_ROOT", raising=False)
    monkeypatch.setenv("DB_PASSWORD", "the password")
    monkeypatch.chdir(tmp_path)
    level = logging.getLogger("treering").level
    yield
    logging.getLogger("treering").setLevel(level)


@pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")  # raised by the package bpe-openai
@pytest.mark.parametrize("name", SAMPLES)
async def test_a_pages_samples_run_and_print_what_they_should(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    await create_readers_session("~/sessions")
    page: dict[str, Any] = {public: getattr(treering, public) for public in treering.__all__}
    for sample in SAMPLES[name]:
        code = sample.compiled()
        if sample.mark.startswith("not run: ") or not has_its_extras(sample):
            continue
        assert sample.mark in ("", FOLLOWS)
        async with anyio.create_task_group() as tasks, names_for_samples() as found:
            page |= found
            if sample.mark == FOLLOWS:
                tasks.start_soon(run, code, page)
                await anyio.wait_all_tasks_blocked()
            else:
                await run(code, page)
    shown = capsys.readouterr().out
    for line in SHOWN.get(name, []):
        assert line in shown


def test_the_output_of_every_page_whose_samples_print_is_checked() -> None:
    prints = {name for name, samples in SAMPLES.items() if any("print(" in each.code for each in samples)}
    assert set(SHOWN) == prints


def test_a_sample_that_is_not_run_says_why_and_its_imports_work() -> None:
    left_out = [each for samples in SAMPLES.values() for each in samples if each.mark.startswith("not run")]
    assert {each.page.name for each in left_out} == {"cluster.md", "index.md", "models.md"}
    for sample in left_out:
        assert re.fullmatch(r"not run: \w.+", sample.mark)
        for node in ast.walk(ast.parse(sample.code)):
            if (
                isinstance(node, ast.ImportFrom)
                and (node.module or "").startswith("treering")
                and has_its_extras(sample)
            ):
                exec(ast.unparse(node), {})  # noqa: S102  # code of the page


async def test_the_first_sample_prints_its_branch_and_leaves_a_session_for_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = SAMPLES["README.md"][0]
    await run(first.compiled(), {"__name__": "__main__"})
    assert capsys.readouterr().out == "user: Which one first?\nassistant: Fewer passes, then.\n"
    async with SessionHost(default_root()) as host:
        (row,) = await host.list_sessions(project=Path.cwd())
    assert row.message_count == 3


async def create_readers_session(root: str) -> None:
    async with SessionHost(root) as host:
        await (await host.create(cwd="/work/shop")).append_message("user", "Hello")


@asynccontextmanager
async def names_for_samples() -> AsyncGenerator[dict[str, Any]]:
    """Yield the names that the pages leave to their readers to define."""

    @tool
    async def deploy() -> str:
        """Deploy."""
        raise Suspend("may I?")

    class Words:
        def encode(self, text: str) -> list[str]:
            return text.split()

    async def summarizer(request: SummaryRequest) -> str:
        return "In short."

    async def summary_of(messages: list[Message]) -> str:
        return f"{len(messages)} messages"

    async with SessionHost() as host:
        session = await host.create("cart", cwd="/work/shop")
        for turn in range(30):
            await session.append_message("user", f"Does the timeout of read file {turn} hold?")
            await session.append_message("assistant", f"TREE-{turn}: the timeout of read file does. " * 20)
        keyed = KeyedSessions(host)
        await keyed.set_history("telegram:1", await session.history())
        script: list[Step] = ["Sunny.", answer(tool_use("1", "deploy")), "Deployed."]
        agent = AgentSession(ScriptedModel(script), session=await host.create(), tools=[deploy])
        yield {
            "agent": agent,
            "budget": calculate_budget(100_000, "", "", ByteEstimator()),
            "host": host,
            "key": "telegram:1",
            "model": ScriptedModel(["Hello to you."]),
            "request_id": "request-1",
            "said": "Hello",
            "session": session,
            "sessions": keyed,
            "summarizer": summarizer,
            "summary_of": summary_of,
            "tokenizer": Words(),
        }


def has_its_extras(sample: Sample) -> bool:
    from importlib.util import find_spec

    def is_there(package: str) -> bool:
        above, _, _ = package.rpartition(".")
        return (not above or is_there(above)) and find_spec(package) is not None

    return all(is_there(package) for package, sign in EXTRAS.items() if sign in sample.code)


async def run(code: CodeType, page: dict[str, Any]) -> None:
    """Run a sample; one that starts an event loop runs in a thread."""
    if "run" in code.co_names and "main" in code.co_names:
        await to_thread.run_sync(eval, code, page)
        return
    coroutine: Awaitable[None] | None = eval(code, page)
    if coroutine is not None:
        await coroutine
