"""A story of several agents for pages to show: tools, an error, Markdown, branches, labels, compaction, a sub-agent."""

from treering import Session, SessionHost, Usage, thinking, tool_use
from treering.entries import ContentLike

_MARKDOWN = """I read the parser first. It fails because **an empty file has no first line**:

```python
def parse(lines):
    first = lines[0]  # raises for an empty file
```

1. Return early when there are no lines.
2. Add a test with an empty file.

| file | lines |
|---|---|
| `parse.py` | 212 |
| `test_parse.py` | 88 |
"""


async def _answer(session: Session, content: ContentLike, tokens: int, stop_reason: str | None = None) -> str:
    """Append an answer of a model that read so many tokens, and return its id."""
    usage = Usage(
        input_tokens=tokens, output_tokens=tokens // 20, total_tokens=tokens + tokens // 20, cost=tokens / 100_000
    )
    return await session.append_message(
        "assistant", content, model="model-x", provider="demo", usage=usage, stop_reason=stop_reason
    )


async def tell(host: SessionHost) -> Session:
    """Write the story, and return its main session."""
    session = await host.create("refactor-9", cwd="/src/parser")
    await session.set_title("Fix the parser for empty files")
    await session.append_message("user", "Fix the parser for empty files, and add a test.")
    thought = thinking("The parser may read the first line without looking.")
    call = tool_use("c1", "read_file", {"path": "src/parse.py"})
    await _answer(session, [thought, "I look at the parser.", call], 4200, "tool_use")
    await session.append_tool_execution("c1", "read_file", {"path": "src/parse.py"}, "x = 1\n" * 212, duration_ms=210.0)
    answer = await _answer(session, _MARKDOWN, 6800, "end_turn")
    await session.set_label(answer, "cause found")
    await session.append_message("user", "Good. Do it, then run the tests.")
    await _answer(session, [tool_use("c2", "bash", {"command": "pytest -q"})], 9100, "tool_use")
    output = "\n".join(f"test_{number} PASSED" for number in range(40)) + "\n1 failed, 211 passed\nexit 1"
    await session.append_tool_execution(
        "c2", "bash", {"command": "pytest -q"}, output, is_error=True, duration_ms=4000.0
    )
    await _answer(session, "One test fails: it expected the error.", 9900, "end_turn")
    end = session.leaf_id
    assert end is not None
    await session.branch(answer)
    await session.append_message("user", "Try the other parser instead.")
    await _answer(session, "The other parser is slower.", 7100)
    await session.branch(end)
    kept = await session.append_message("user", "Why did it expect the error?")
    await session.append_compaction(
        "The parser now accepts empty files. One test still expects the error.", kept, 148_000
    )
    await _answer(session, "Because the old behaviour was written down in it.", 11_000)
    for number, name in enumerate(
        ["docs-3", "billing-17", "a name of a session that is much longer than its row " * 4, "מפתח"]
    ):
        other = await host.create(f"other-{number}", cwd=f"/src/project-{number % 2}")
        await other.set_title(name)
        await other.append_message("user", f"Task {number}")
        await _answer(other, "Done.", 1000 * (number + 1))
    child = await host.create("explore-1", parent_session=session.id, parent_entry=kept)
    await child.set_title("explore")
    await child.append_message("user", "Where are empty files tested?")
    await _answer(child, [tool_use("c1", "search", {"text": "empty"})], 800)
    return session
