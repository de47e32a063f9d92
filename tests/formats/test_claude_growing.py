"""A transcript of Claude Code that is read as it grows is the one that is read at once."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from treering.formats.claude_code.reader import Reader

DATA = Path(__file__).resolve().parents[1] / "data" / "claude_code"
FILES = sorted(DATA.rglob("*.jsonl"))


def laid_out(reader: Reader) -> list[object]:
    """Return the conversations with their steps: what each is made of, and what it is below."""
    return [
        (
            conversation.session,
            conversation.agent,
            [
                (step.kind, step.id, [node.number for node in step.nodes], step.parent and step.parent.id)
                for step in conversation.in_order()
            ],
        )
        for conversation in reader.tree.conversations
    ]


def read(batches: Sequence[Sequence[bytes]]) -> Reader:
    reader = Reader(Path("t"))
    for batch in batches:
        reader.add(batch)
    return reader


def cut(lines: Sequence[bytes], chance: random.Random) -> list[Sequence[bytes]]:
    ends = sorted(chance.sample(range(len(lines) + 1), min(len(lines), 12)))
    return [lines[start:end] for start, end in zip([0, *ends], [*ends, len(lines)], strict=True)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_lines_make_the_same_steps_however_they_come(path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines = path.read_bytes().splitlines(keepends=True)
    if seed % 2:  # parents after their children, and boundaries below what they end
        for _ in range(4):
            lines.insert(chance.randrange(len(lines)), lines.pop(chance.randrange(len(lines))))
    whole, grown = read([lines]), read(cut(lines, chance))
    assert laid_out(grown) == laid_out(whole)
    assert grown.title == whole.title


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_line_is_placed_once_and_each_step_told_when_it_has_its_lines(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    reader = Reader(Path("t"))
    told: dict[str, list[int]] = {}
    placed: list[int] = []
    for line in lines:
        before = reader.lines_placed
        reader.add([line])
        placed.append(reader.lines_placed - before)
        told.update((step.id, [node.number for node in step.nodes]) for step in reader.changed())
    conversation = reader.conversation
    assert conversation is not None
    early = set(conversation.early())
    steps = [step for step in conversation.in_order() if step not in early]
    assert {step.id: told[step.id] for step in steps} == {
        step.id: [node.number for node in step.nodes] for step in steps
    }
    if path.stem != "tangled":  # in which a line comes before its parent: then all are placed anew
        assert sum(placed) == len(reader.scan.nodes)


USER = {"type": "user", "message": {"role": "user", "content": "words"}}
LATE = {  # a last line that says where earlier ones belong
    "one names a parent": [{"uuid": "u1"}, {"uuid": "u2"}, {"uuid": "u3", "parentUuid": "u2"}],
    "one names the session": [{"uuid": "u1"}, {"uuid": "u2", "parentUuid": "u1", "sessionId": "s"}],
    "one is the parent": [{"uuid": "u1"}, {"uuid": "u3", "parentUuid": "u2"}, {"uuid": "u2"}],
}


@pytest.mark.parametrize("what", LATE)
def test_a_late_line_puts_earlier_ones_where_they_belong(what: str) -> None:
    lines = [json.dumps({**USER, **line}).encode() for line in LATE[what]]
    grown = read([[line] for line in lines])
    assert laid_out(grown) == laid_out(read([lines]))
    assert grown.lines_placed > len(lines)
