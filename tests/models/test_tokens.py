"""Tokens: the estimate, and exact counts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treering import ExtraMissing, InvalidInput, image, message, text, tool_use
from treering.models.anthropic import AnthropicModel
from treering.models.exact_tokens import PIECE_CHARS, ExactTokenizer
from treering.models.openai import OpenAIModel
from treering.projections.tokens import IMAGE_TOKENS, MESSAGE_TOKENS, ByteEstimator, Tokenizer, count_messages

pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")
ESTIMATE = ByteEstimator()
LOW = {"hexadecimal": 0.6, "base64": 0.4}


@pytest.fixture(scope="module")
def rows() -> list[Any]:
    pytest.importorskip("bpe_openai")
    root = str(Path(__file__).resolve().parents[2])
    sys.path.insert(0, root)
    try:
        from bench.estimator import measured
    finally:
        sys.path.remove(root)
    return list(measured())


def test_the_estimate_is_within_its_documented_bounds(rows: list[Any]) -> None:
    assert [row for row in rows if not LOW.get(row.name, 0.8) <= row.ratio <= 1.5] == []
    assert {row.kind for row in rows} == {"prose", "chat", "sources", "output"}
    assert len(rows) > 30


@given(st.text(), st.text())
def test_the_estimate_is_monotonic_and_subadditive(text: str, more: str) -> None:
    assert ESTIMATE.count(text) <= ESTIMATE.count(text + more) <= ESTIMATE.count(text) + ESTIMATE.count(more)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_text_counts_the_same_in_the_ascii_and_the_byte_count(text: str) -> None:
    dense = sum(each in '0123456789"{}[]:-_/=' for each in text)
    assert ESTIMATE.count(text) == -(-(len(text) + dense) // 4)
    # One character outside ASCII makes every byte count; it counts 7/8 of a token, the rest as before.
    assert ESTIMATE.count(text + "山") == -(-(2 * (len(text) + dense) + 7) // 8)


def test_the_estimate_of_given_texts() -> None:
    counted = {"": 0, "a": 1, "word": 1, "words": 2, "1234": 2, '{"a":1}': 4, "\ud800": 1, "日本語": 3, "🎉": 2, "é": 1}
    assert {text: ESTIMATE.count(text) for text in counted} == counted


# On Python 3.11 and 3.12, the library opens its vocabularies with a deprecated function.


@pytest.fixture(scope="module")
def exact() -> ExactTokenizer:
    return ExactTokenizer()


def test_texts_are_counted_exactly(exact: ExactTokenizer) -> None:
    assert exact.count("") == 0
    assert exact.count("hello world") == 2
    assert exact.count("The quick brown fox jumps over the lazy dog.") == 10
    assert exact.count("<|endoftext|>") > 1  # the text, not the special token
    assert exact.count("\ud800") > 0
    assert ExactTokenizer("cl100k_base").count("Привет, мир") > exact.count("Привет, мир") > 0


def test_a_text_of_any_length_can_be_counted(exact: ExactTokenizer) -> None:
    long = "word " * (PIECE_CHARS // 2)
    assert abs(exact.count(long) - PIECE_CHARS // 2) <= 5


def test_messages_are_counted_exactly(exact: ExactTokenizer) -> None:
    counts: Tokenizer = exact
    assistant = message(
        "assistant", [text("hello world"), tool_use("c", "read", {}), image("QUJD" * 1000, "image/png")]
    )
    assert count_messages([assistant], counts) == MESSAGE_TOKENS + 2 + 1 + 1 + IMAGE_TOKENS


def test_an_unknown_vocabulary_is_refused() -> None:
    with pytest.raises(InvalidInput, match="o200k_base"):
        ExactTokenizer("gpt2")


@pytest.mark.parametrize(
    ("module", "make", "extra"),
    [
        ("bpe_openai", ExactTokenizer, "tokens"),
        ("openai", lambda: OpenAIModel("m"), "openai"),
        ("anthropic", lambda: AnthropicModel("m"), "anthropic"),
    ],
)
def test_a_missing_library_raises_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, make: Callable[[], object], extra: str
) -> None:
    find = util.find_spec

    def absent(name: str, package: str | None = None) -> object:
        return None if name == module else find(name, package)

    monkeypatch.setattr("treering.models.remote.find_spec", absent)
    with pytest.raises(ExtraMissing, match=rf"treering\[{extra}\]"):
        make()


def test_importing_the_clients_imports_no_provider_library() -> None:
    heavy = ("openai", "anthropic", "httpx2", "httpx", "bpe_openai", "pydantic")
    modules = ("openai", "anthropic", "naming", "exact_tokens", "echo")
    program = (
        f"import sys, treering, {', '.join(f'treering.models.{each}' for each in modules)}\n"
        "treering.models.naming.model_named('openai:gpt-5'); treering.models.naming.model_named('anthropic:claude')\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
