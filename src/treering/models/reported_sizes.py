"""The size of a request and the limit, as providers report them when a request is too long.

Some report both, some only one, most only in the message. A size that is not reported is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

_NUMBER = r"(\d[\d,]*)"

_NEEDED = re.compile(
    rf"""
      resulted\ in\ {_NUMBER}\ tokens                                    # OpenAI
    | requested:?\ (?:about\ )?{_NUMBER}                                 # OpenAI, vLLM, OpenRouter
    | request\ (?:has|contains)\ {_NUMBER}\ (?:input\ )?tokens           # vLLM, xAI
    | request\ \({_NUMBER}\ tokens\)                                     # llama.cpp
    | too\ long:\ {_NUMBER}\ tokens                                      # Anthropic
    | input\ token\ count\ (?:of\ )?\(?{_NUMBER}                         # Google
    """,
    re.IGNORECASE | re.VERBOSE,
)

_AVAILABLE = re.compile(
    rf"""
      maximum\ (?:context|prompt)\ length\ (?:is|of)\ {_NUMBER}          # OpenAI, vLLM, OpenRouter, xAI
    | tokens\ >\ {_NUMBER}\ maximum                                      # Anthropic
    | available\ context\ size\ \({_NUMBER}\ tokens                      # llama.cpp
    | context\ length\ of\ only\ {_NUMBER}                               # LM Studio
    | maximum\ number\ of\ tokens\ allowed\ \(?{_NUMBER}                 # Google
    | \(TPM\):\ limit\ {_NUMBER}                                         # OpenAI: the tokens of a minute
    """,
    re.IGNORECASE | re.VERBOSE,
)

_SUM = re.compile(rf"exceed\ context\ limit:\ {_NUMBER}\ \+\ {_NUMBER}(?:\ >\ {_NUMBER})?", re.IGNORECASE)
"""Anthropic: the prompt, `max_tokens`, and the limit that their sum exceeds."""


def reported_sizes(details: object, words: str) -> tuple[int | None, int | None]:
    """Return the tokens that a request needs and those available, each None if not reported.

    Args:
        details: The decoded error.
        words: Its message.
    """
    together = _SUM.search(words)
    if together is not None:
        prompt, answer, limit = together.groups()
        return _tokens(prompt) + _tokens(answer), None if limit is None else _tokens(limit)
    fields: Mapping[str, object] = cast("Mapping[str, object]", details) if isinstance(details, Mapping) else {}
    needed, available = fields.get("n_prompt_tokens"), fields.get("n_ctx")  # llama.cpp
    return (
        needed if type(needed) is int else _first(_NEEDED, words),
        available if type(available) is int else _first(_AVAILABLE, words),
    )


def _first(pattern: re.Pattern[str], words: str) -> int | None:
    match = pattern.search(words)
    return None if match is None else _tokens(next(group for group in match.groups() if group is not None))


def _tokens(digits: str) -> int:
    return int(digits.replace(",", ""))
