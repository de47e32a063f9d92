"""Exact token counts with a public vocabulary."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import util

import pytest

from treering import ExtraMissing, InvalidInput, image, message, text, tool_use
from treering.models.anthropic import AnthropicModel
from treering.models.exact_tokens import PIECE_CHARS, ExactTokenizer
from treering.models.openai import OpenAIModel
from treering.projections.tokens import IMAGE_TOKENS, MESSAGE_TOKENS, Tokenizer, count_messages

# On Python 3.11 and 3.12, the library opens its vocabularies with a deprecated function.
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")


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

    monkeypatch.setattr("treering.models.connecting.find_spec", absent)
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
