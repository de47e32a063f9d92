"""Compares the token estimate with exact counts: `python -m bench.estimator` prints the table of docs/tokens.md.

It needs the extra `tokens`. The texts are prose in many scripts, questions to agents, this project's own sources and
documentation, and typical tool output. Vocabularies differ from each other more than the estimate differs from the
newest of them.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from treering.models.exact_tokens import ExactTokenizer
from treering.projections.tokens import ByteEstimator

from .estimator_texts import CHATS, PARAGRAPHS

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = "o200k_base"
OTHERS = ("cl100k_base", "voyage3_base")


class Row(NamedTuple):
    """The counts for one text.

    Attributes:
        kind: "prose", "chat", "sources" or "output".
        name: The name of the text.
        chars: Its length in characters.
        estimate: The estimated number of tokens.
        exact: The exact number in the reference vocabulary.
        others: The exact numbers in other vocabularies.
    """

    kind: str
    name: str
    chars: int
    estimate: int
    exact: int
    others: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """The estimate divided by the exact count; below 1, the estimate is too low."""
        return self.estimate / self.exact


def texts() -> Iterator[tuple[str, str, str]]:
    """Yield each text with its kind and name."""
    yield from (("prose", name, each) for name, each in PARAGRAPHS.items())
    yield from (("chat", name, each) for name, each in CHATS.items())
    sources = sorted((ROOT / "projections").glob("*.py"))
    yield "sources", "Python", "\n".join(path.read_text() for path in sources)
    yield (
        "sources",
        "Markdown",
        "\n".join((ROOT / "docs" / f"{name}.md").read_text() for name in ("architecture", "format")),
    )
    words = sorted({word.strip(",.").lower() for word in PARAGRAPHS["English"].split()})
    files = [
        {
            "path": f"src/{word}.py",
            "size": place * 977,
            "modified": f"2026-01-{place % 28 + 1:02}T10:20:{place % 60:02}Z",
        }
        for place, word in enumerate(words)
    ]
    yield "output", "JSON", json.dumps(files)
    yield "output", "JSON, indented", json.dumps(files, indent=2)
    matches = (
        f"{path.name}:{at}:{line}" for path in sources for at, line in enumerate(path.read_text().splitlines(), 1)
    )
    yield "output", "search results", "\n".join(line for line in matches if "def " in line)
    yield "output", "numbers", "\n".join(f"{each * 0.7717:.6f},{each**3},{each * 37 % 1000}" for each in range(200))
    hashes = [sha256(str(each).encode()) for each in range(50)]
    yield "output", "hexadecimal", "\n".join(each.hexdigest() for each in hashes)
    yield "output", "base64", b64encode(b"".join(each.digest() for each in hashes)).decode()


def measured() -> list[Row]:
    """Count every text."""
    estimator, exact = ByteEstimator(), ExactTokenizer(REFERENCE)
    others = [ExactTokenizer(name) for name in OTHERS]
    return [
        Row(kind, name, len(text), estimator.count(text), exact.count(text), tuple(each.count(text) for each in others))
        for kind, name, text in texts()
    ]


def main() -> None:
    """Print the table."""
    print(f"| | text | characters | estimate | {REFERENCE} | estimate / exact | {' | '.join(OTHERS)} |")
    print("|---|---|---|---|---|---|" + "---|" * len(OTHERS))
    for row in measured():
        others = " | ".join(map(str, row.others))
        print(f"| {row.kind} | {row.name} | {row.chars} | {row.estimate} | {row.exact} | {row.ratio:.2f} | {others} |")


if __name__ == "__main__":
    main()
