"""The blocks of the pages that are not Python: commands are ones that exist, and data can be read."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from bench.__main__ import main as bench_command
from docs.picture import WIDTH, text_of, tree

from treering import SessionHost, Settings
from treering.cli import main as treering_command
from treering.events.dialects.native import NativeDialect
from treering.events.errors import Where

from .test_samples import PAGES, PROJECT

GENERATED = {"cli.md"}
"""Pages whose blocks are made from what they show."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """Yield the blocks of a language, each with the name of its page."""
    for page in PAGES:
        if page.name not in GENERATED:
            for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
                if kind == language:
                    yield page.name, block


def commands() -> Iterator[list[str]]:
    """Yield the words of each command of a shell, those of a pipe one by one."""
    lines = [line for _, block in blocks("sh") for line in block.splitlines()]
    lines += [line[2:] for _, block in blocks("") for line in block.splitlines() if line.startswith("$ ")]
    for line in lines:
        words = shlex.split(line, comments=True)
        while "|" in words:
            end = words.index("|")
            yield words[:end]
            words = words[end + 1 :]
        yield words


def parse(group: click.Group, words: list[str]) -> None:
    """Parse the arguments of one of the commands of a group, and run nothing."""
    name, *rest = words
    context = click.Context(group)
    command = group.get_command(context, name)
    assert command is not None
    command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("words", sorted(commands()), ids=" ".join)
def test_pages_commands_take_these_arguments(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for word in words:
        if word.endswith(".json"):  # some commands read files that others have written
            (tmp_path / word).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / word).touch()
    match words:
        case ["treering", *rest]:
            parse(treering_command, rest)
        case ["python", "-m", "bench", *rest]:
            parse(bench_command, rest)
        case ["make", target]:
            assert target in TARGETS
        case ["pip", "install", what]:
            extras = re.fullmatch(r"(?:\.|treering)(?:\[([a-z,]+)\])?", what)
            assert extras is not None
            assert set((extras[1] or "all").split(",")) <= EXTRAS.keys()
        case _:
            assert words[0] in ("git", "jq")


def test_every_other_block_is_of_a_kind_that_is_checked() -> None:
    kinds = {kind for page in PAGES for kind, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
    in_a_browser = {"html", "js"}  # tests/viewer/test_example.py
    in_a_database = {"sql"}  # tests/postgres/test_sql.py
    assert kinds == {"", "json", "python", "sh", "text", "toml"} | in_a_browser | in_a_database


def test_the_lines_of_the_native_format_are_read() -> None:
    ((page, block),) = [each for each in blocks("") if each[0] == "format.md"]
    header, *lines = block.encode().splitlines()
    dialect = NativeDialect()
    assert dialect.decode_header(header, Where(page)).id == "0b0e7b1c-58f4-4b6c-9f51-0c7f5a3f9a10"
    entries = [dialect.decode(line, seq) for seq, line in enumerate(lines, 1)]
    assert [entry and entry.type for entry in entries] == ["message", "message", "message", "label"]


def test_documents_are_valid_json() -> None:
    documents = {page: json.loads(block) for page, block in blocks("json")}
    assert documents.pop("exporting.md")["format"] == "treering-session"
    assert [*documents] == ["mcp.md"]  # which the tests of `treering mcp` run


async def test_the_lines_of_the_index_have_the_keys_that_are_shown(tmp_path: Path) -> None:
    async with SessionHost(tmp_path) as host:
        await (await host.create()).append_message("user", "Hello")
    written = (tmp_path / ".treering" / "index.jsonl").read_text(encoding="utf-8").splitlines()
    (block,) = [block for page, block in blocks("") if page == "catalog.md"]
    shown = [json.loads(line.replace(",...", "")) for line in block.splitlines()]
    assert [list(json.loads(line)) for line in written] == [list(line) for line in shown]


def test_settings_are_ones_that_exist() -> None:
    page = (PROJECT / "docs" / "catalog.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (true|false|\d+) \|", page, re.MULTILINE))
    assert {name: msgspec.json.decode(value) for name, value in listed.items()} == msgspec.to_builtins(Settings())
    (example,) = re.findall(r"```toml\n(.*?)```", (PROJECT / "docs" / "cli.md").read_text(encoding="utf-8"), re.DOTALL)
    assert Settings.load(tomllib.loads(example)) != Settings()


def test_the_picture_shows_the_tree_of_the_demo() -> None:
    image = (PROJECT / "docs" / "tree.svg").read_text(encoding="utf-8")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", tree()).splitlines()
    assert "".join(text_of(image).split()) == "".join("".join(lines).split()), (
        "run: python docs/picture.py > docs/tree.svg"
    )
    assert max(map(len, lines)) < WIDTH
