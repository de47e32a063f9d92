"""The search index and the scan find the same, for any texts and queries."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from anyio import run
from hypothesis import given, settings
from hypothesis import strategies as st

from treering import SessionHost
from treering.sessions import Hit

from ..sampling import examples

WORDS = [
    "needle",
    "Needle",
    "NEED",
    "le",
    "Straße",
    "STRASSE",
    "ss",
    "ﬁne",
    "İstanbul",
    "i̇",
    "K",
    "中文字",
    "中",
    "a\x00b",
    "x-y",
    '"',
    "\\",
    "%",
    "NEAR",
    "*",
    "😀",
]
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=4), min_size=1, max_size=6).map(
    lambda words: " ".join(words)
)
joined_words = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("".join)
contents = texts | joined_words
queries = st.one_of(
    contents, contents.map(lambda text: f'"{text}'), st.sampled_from(WORDS), st.text(min_size=1, max_size=3)
)
roles = st.sampled_from(["user", "assistant", "system"])
sessions = st.lists(st.lists(st.tuples(roles, contents), min_size=1, max_size=5), min_size=1, max_size=4)


@settings(max_examples=examples(15))
@given(sessions, sessions, st.lists(queries, min_size=1, max_size=8), st.none() | roles)
def test_index_and_scan_agree(
    first: list[list[tuple[str, str]]], second: list[list[tuple[str, str]]], searches: list[str], role: str | None
) -> None:
    async def found(host: SessionHost, query: str, index: bool) -> list[Hit]:
        return [hit async for hit in host.search(query, role=role, limit=1000, index=index)]

    async def scenario(root: Path) -> None:
        async with SessionHost(root) as host:
            for round_ in (first, second):
                for number, messages in enumerate(round_):
                    session = await host.open(f"s{number}")
                    for who, text in messages:
                        await session.append_message(who, text)
                for query in searches:
                    if query.replace('"', "").split():
                        assert await found(host, query, True) == await found(host, query, False), query
            assert (root / "search.db").exists() or not any(query.replace('"', "").split() for query in searches)

    with TemporaryDirectory() as folder:
        run(scenario, Path(folder))
