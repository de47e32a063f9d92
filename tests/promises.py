"""What the tests prove, from their marks: `python -m tests.promises [ID...]` prints each promise with its tests.

A promise is proven by the tests that are marked with its id, and says what their names say. The groups view the same
library from different sides, so a test may have ids of several.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent
GROUPS = {
    "G": (140, "the tree of a session: entries, native format, branches, compaction"),
    "N": (168, "keeping everything, and fitting it into a model's window"),
    "O": (57, "files that pi and omp read and write as well"),
    "P": (59, "chat histories under a key, as bots keep them"),
    "D": (70, "sessions as an agent loop sees them: turns, stores, forks"),
    "U": (27, "failures that people reported of other systems"),
    "X": (35, "actors, streams, durability, many agents at once"),
}
"""The groups: how many promises each has, numbered from 1, and what it covers."""
BEGUN = {
    "S": (47, "sessions over HTTP: the server, its clients, its pages"),
    "C": (25, "many hosts over one database"),
    "A": (38, "sessions under frameworks, and beside other programs"),
}
"""Groups of which some promises are proven."""
PROMISED = [f"{group}-{number}" for group, (count, _) in GROUPS.items() for number in range(1, count + 1)]

BEGUN_IDS = [f"{group}-{number}" for group, (count, _) in BEGUN.items() for number in range(1, count + 1)]


class Mark(NamedTuple):
    """One id in a `feature` mark, None if it is not a string literal; and what the marked test or module says."""

    id: object
    line: int
    says: str


def marks(source: str) -> Iterator[Mark]:
    """Yield every id in the `feature` marks of a module."""
    yield from _marks(ast.parse(source), "")


@cache
def proofs() -> dict[object, list[str]]:
    """Return for each id the places of its marks, with what the tests there say."""
    found: dict[object, list[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        if ".feature(" in (source := path.read_text(encoding="utf-8")):  # most of the others are long to parse
            for mark in marks(source):
                found.setdefault(mark.id, []).append(f"{mark.says}  [{path.relative_to(TESTS.parent)}:{mark.line}]")
    return found


def _marks(node: ast.AST, says: str) -> Iterator[Mark]:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="feature"), args=arguments):
            for argument in arguments or [node]:
                yield Mark(argument.value if isinstance(argument, ast.Constant) else None, node.lineno, says)
        case ast.Module():
            says = (ast.get_docstring(node) or "").partition("\n")[0]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            says = name.removeprefix("test_").replace("_", " ")
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from _marks(child, says)


def main(ids: Sequence[str]) -> None:
    """Print each promise with its tests."""
    for id_ in ids or PROMISED:
        sys.stdout.write("\n  ".join([id_, *proofs().get(id_, ["no test is marked with this id"])]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
