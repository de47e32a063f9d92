"""A source that grew between two imports: the result is the same as if all of it had been imported at once."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from treering import Context, Session, SessionHost, plain_text

SAMPLES = Path(__file__).parents[1] / "data"
TIME = "2026-03-01T09:00:0{}.000Z"
MESSAGES = [
    {"role": role, "content": content}
    for role, content in (("user", "One."), ("assistant", "Two."), ("user", "Three."), ("assistant", "Four."))
]
NANOCODER_ID = "0b0e7b1c-58f4-4b6c-9f51-0c7f5a3f9a11"

Writer = Callable[[Path], Path]
"""Writes one state of a file into a folder, and returns its path."""


def picoclaw_lines(count: int, summary: str = "", skip: int = 0) -> Writer:
    def write(folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        path = folder / "telegram_1.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in MESSAGES[:count]))
        meta = {"key": "telegram:1", "summary": summary, "skip": skip, "count": count, "created_at": TIME.format(0)}
        path.with_name("telegram_1.meta.json").write_text(json.dumps(meta))
        return path

    return write


def picoclaw_document(start: int, end: int, summary: str) -> Writer:
    def write(folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        path = folder / "telegram_1.json"
        times = {"created": TIME.format(0), "updated": TIME.format(1)}
        path.write_text(json.dumps({"key": "telegram:1", "messages": MESSAGES[start:end], "summary": summary, **times}))
        return path

    return write


def nanocoder(count: int, model: str) -> Writer:
    def write(folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        path = folder / f"{NANOCODER_ID}.json"
        times = {"createdAt": TIME.format(0), "lastAccessedAt": TIME.format(count)}
        fields = {"workingDirectory": "/work", "provider": "ollama", "model": model, "messages": MESSAGES[:count]}
        path.write_text(json.dumps({"id": NANOCODER_ID, **times, **fields}))
        return path

    return write


def gemini_file(folder: Path, *records: dict[str, object]) -> Path:
    """Write a session of Gemini with these records."""
    times = {"startTime": TIME.format(0), "lastUpdated": TIME.format(0)}
    lines = [{"sessionId": "grown", "projectHash": "ab", **times}, *records]
    path = folder / "session-1.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def gemini(count: int, summary: str) -> Writer:
    def write(folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        types = {"user": "user", "assistant": "gemini"}
        records: list[dict[str, object]] = [
            {"id": str(place), "timestamp": TIME.format(1), "type": types[each["role"]], "content": each["content"]}
            for place, each in enumerate(MESSAGES[:count])
        ]
        return gemini_file(folder, *records, {"$set": {"summary": summary}})

    return write


GROWING: dict[str, Sequence[Writer]] = {
    "picoclaw, the same summary": [picoclaw_lines(2, "S"), picoclaw_lines(4, "S")],
    "picoclaw, another summary": [picoclaw_lines(2, "S"), picoclaw_lines(4, "T")],
    "picoclaw, another summary alone": [picoclaw_lines(4, "S"), picoclaw_lines(4, "T")],
    "picoclaw, a summary for the first time": [picoclaw_lines(2), picoclaw_lines(4, "S")],
    "picoclaw, skipping all that there was": [picoclaw_lines(2, skip=2), picoclaw_lines(4, skip=2)],
    "picoclaw, skipping more": [picoclaw_lines(4, "S", skip=1), picoclaw_lines(4, "S", skip=3)],
    "picoclaw, in many steps": [picoclaw_lines(each, "S", skip=1) for each in (1, 2, 3, 4)],
    "picoclaw, a document": [picoclaw_document(0, 2, "S"), picoclaw_document(0, 4, "S")],
    "nanocoder, the same model": [nanocoder(2, "q"), nanocoder(4, "q")],
    "nanocoder, another model": [nanocoder(2, "q"), nanocoder(4, "z")],
    "nanocoder, a model and back": [nanocoder(2, "q"), nanocoder(3, "z"), nanocoder(4, "q")],
    "nanocoder, another model alone": [nanocoder(4, "q"), nanocoder(4, "z")],
    "Gemini, the same summary": [gemini(2, "S"), gemini(4, "S")],
    "Gemini, another summary": [gemini(2, "S"), gemini(4, "T")],
}


def roles_and_texts(context: Context) -> list[tuple[str, str]]:
    return [(each.message.role, plain_text(each.message.content)) for each in context.messages]


async def state(session: Session) -> tuple[object, ...]:
    context = await session.context()
    return roles_and_texts(context), context.model, session.leaf_id, session.summary, session.title


async def import_states(root: Path, source: Path, *states: Writer) -> tuple[object, ...]:
    async with SessionHost(root) as host:
        for write in states:
            (report,) = await host.import_sessions(write(source))
        (again,) = await host.import_sessions(source / Path(report.source).name)
        assert again.added == 0
        return await state(await host.load(report.id))


@pytest.mark.parametrize("name", GROWING)
async def test_importing_each_state_gives_what_importing_the_last_state_gives(name: str, tmp_path: Path) -> None:
    *earlier, last = GROWING[name]
    expected = await import_states(tmp_path / "at once", tmp_path / "last", last)
    assert await import_states(tmp_path / "by steps", tmp_path / "growing", *earlier, last) == expected


@pytest.mark.parametrize("name", GROWING)
async def test_an_import_leaves_the_leaf_of_a_session_that_was_continued_in_the_host(name: str, tmp_path: Path) -> None:
    first, *_, last = GROWING[name]
    async with SessionHost(tmp_path / "sessions") as host:
        (report,) = await host.import_sessions(first(tmp_path))
        session = await host.load(report.id)
        own = await session.append_message("user", "Said here.")
        await host.import_sessions(last(tmp_path))
        assert session.leaf_id == own


LINES = [*("codex/codex.jsonl", "dive/dive.jsonl", "gemini/gemini.jsonl", "picoclaw/picoclaw.jsonl"), "qwen/qwen.jsonl"]


@pytest.mark.parametrize("name", [*LINES, "claude_code/work.jsonl", "pi_v3.jsonl", "omp_v3.jsonl"])
async def test_a_first_import_may_end_after_any_line(name: str, tmp_path: Path) -> None:
    source = tmp_path / "grown.jsonl"
    lines = (SAMPLES / name).read_bytes().splitlines(keepends=True)
    sidecar = (SAMPLES / name).with_suffix(".meta.json")
    if sidecar.exists():
        source.with_suffix(".meta.json").write_bytes(sidecar.read_bytes())
    expected: object = None
    for count in (len(lines), *range(len(lines) // 2, len(lines))):
        async with SessionHost(tmp_path / str(count)) as host:
            for some in (lines[:count], lines):
                source.write_bytes(b"".join(some))
                report, *_ = await host.import_sessions(source)
            session = await host.load(report.id)
            found = roles_and_texts(await session.context()), session.leaf_id
        expected = expected or found
        assert found == expected, count


async def test_a_document_that_lost_its_first_messages_continues_the_session(tmp_path: Path, host: SessionHost) -> None:
    await host.import_sessions(picoclaw_document(0, 2, "")(tmp_path))
    (report,) = await host.import_sessions(picoclaw_document(1, 4, "S")(tmp_path))
    session = await host.load(report.id)
    assert [words for _, words in roles_and_texts(await session.context())] == ["One.", "Two.", "Three.", "Four."]


async def test_a_model_change_in_the_host_survives_a_later_import(tmp_path: Path, host: SessionHost) -> None:
    await host.import_sessions(picoclaw_lines(2, "S")(tmp_path))
    session = await host.load("last")
    await session.append_model_change("openai", "gpt-oak")
    await host.import_sessions(picoclaw_lines(4, "S")(tmp_path))
    context = await session.context()
    assert len(roles_and_texts(context)) == 4
    assert context.model is not None
    assert context.model.model_id == "gpt-oak"


async def test_repeated_imports_follow_a_session_that_continues_in_the_other_program(tmp_path: Path) -> None:
    """Its first messages are matched by content, the later ones by id."""
    async with SessionHost(tmp_path / "sessions") as host:
        session = await host.create()
        await session.append_model_change("openai", "gpt-oak")
        await session.append_message("user", "One.")
        await session.append_message("assistant", "Two.")
        path = await session.export("picoclaw", tmp_path / "out.json")
        for count in (3, 4):
            document = json.loads(path.read_bytes())
            path.write_text(json.dumps({**document, "messages": MESSAGES[:count]}))
            (report,) = await host.import_sessions(path)
            assert report.id == session.id
            assert len(roles_and_texts(await session.context())) == count


def prompt(number: int) -> dict[str, object]:
    return {"id": f"m{number}", "timestamp": TIME.format(number), "type": "user", "content": f"Text {number}"}


async def shown_numbers(session: Session) -> list[str]:
    return [words[-1] for _, words in roles_and_texts(await session.context())]


async def test_a_session_rewound_to_its_beginning_follows_its_source_again(host: SessionHost, tmp_path: Path) -> None:
    records: list[dict[str, object]] = [prompt(1), {"$rewindTo": "m1"}, prompt(2)]
    for end in (2, 3):
        await host.import_sessions(gemini_file(tmp_path, *records[:end]))
    assert await shown_numbers(await host.load("grown")) == ["2"]


async def test_a_session_goes_back_with_its_source_when_that_is_only_rewound(host: SessionHost, tmp_path: Path) -> None:
    back: list[dict[str, object]] = [{"$rewindTo": each} for each in ("m4", "m2", "m5")]
    records: list[dict[str, object]] = [prompt(1), prompt(2), prompt(3), prompt(4), *back[:2], prompt(5), back[2]]
    shown: list[list[str]] = []
    for end in range(4, 9):
        source = gemini_file(tmp_path, *records[:end])
        await host.import_sessions(source)
        assert [each.added for each in await host.import_sessions(source)] == [0]
        session = await host.load("grown")
        shown.append(await shown_numbers(session))
    assert shown == [["1", "2", "3", "4"], ["1", "2", "3"], ["1"], ["1", "5"], ["1"]]
    await session.branch("m3")
    await host.import_sessions(source)
    assert session.leaf_id == "m3", "a branch that was chosen here stays"


async def test_a_session_goes_back_with_its_source_when_that_is_only_reverted(tmp_path: Path) -> None:
    source = tmp_path / "exported.json"
    parts = [{"type": "text", "text": "Hello"}]
    times = {"created": 1, "updated": 5}
    messages = [{"info": {"id": each, "role": "user", "time": times}, "parts": parts} for each in ("a", "b", "c")]
    async with SessionHost(tmp_path / "sessions") as host:
        for reverted, count in (("", 3), ("c", 2), ("b", 1)):
            session_info = {"id": "ses_1", "revert": {"messageID": reverted}, "time": times}
            source.write_text(json.dumps({"info": session_info, "messages": messages}))
            (report,) = await host.import_sessions(source)
            assert len((await (await host.load(report.id)).context()).messages) == count
