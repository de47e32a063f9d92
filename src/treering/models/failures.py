"""What providers answer when they do not answer, told in the errors of the tree.

Both libraries raise an error with a status, headers and a body, or one of their transport. What it means is read from the
provider's own codes first, then from its words, last from the status: the servers that speak OpenAI's interface agree on
the status at best.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

import msgspec
from anyio import EndOfStream

from ..events.errors import (
    AnswerCutOff,
    ModelError,
    ModelUnavailable,
    RateLimited,
    RequestRefused,
    RequestTooLong,
)
from .told_sizes import told_sizes

_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})

_TOO_LONG_WORDS = re.compile(
    r"""
      (prompt|input)\ is\ too\ long                                        # Anthropic, Bedrock
    | exceed\ context\ limit                                               # Anthropic: prompt and max_tokens together
    | maximum\ (context|prompt)\ length                                    # OpenAI, vLLM, OpenRouter, xAI
    | exceeds?\ (the\ )?((available|maximum|model's)\ )*context\ (size|window|length)   # OpenAI, llama.cpp, Ollama
    | context\ (size|window|length)\ (has\ been\ |was\ )?exceeded           # LM Studio
    | context\ the\ overflows                                              # LM Studio
    | (greater|more)\ than\ the\ context\ length                           # LM Studio
    | reached\ context\ length                                             # LM Studio
    | input\ token\ count.{0,40}exceeds\ the\ maximum                      # Google
    | reduce\ the\ length\ of\ the\ messages                               # OpenAI, Groq
    | request\ too\ large\ for                                             # OpenAI: more than the tokens of a minute
    """,
    re.IGNORECASE | re.VERBOSE,
)

_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})

_STATUS_OF_CODES = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "overloaded_error": 529,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
}

_COME_AGAIN = frozenset({408, 409, 425})
"""What a client did wrong that may be right the next time: a timeout, a lock, an early request."""


def transport_errors() -> tuple[type[Exception], ...]:
    """Return the errors by which the loaded HTTP libraries say that a connection failed.

    The providers' libraries do not wrap all that goes wrong while an answer streams, and came to another HTTP library
    of the same shape between versions.
    """
    return (*_of_loaded("TransportError"), OSError, EndOfStream)


def exchange_errors(library: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what a request may fail with: a library's errors, those of its transport, and what cannot be read."""
    return (library, msgspec.DecodeError, *_of_loaded("DecodingError"), *transport_errors())


def _of_loaded(name: str) -> list[type[Exception]]:
    """Return the errors of a name that the loaded HTTP libraries have."""
    loaded = (sys.modules.get(library) for library in ("httpx2", "httpx"))
    return [cast("type[Exception]", getattr(module, name)) for module in loaded if module is not None]


def failed_exchange(provider: str, error: Exception, connection: type[Exception], *, begun: bool) -> ModelError:
    """Tell of a request that got no answer with a status: the connection failed, or what came cannot be read.

    Args:
        provider: Who was asked.
        error: One of `exchange_errors`.
        connection: The library's own error of connections.
        begun: Whether the answer had begun.
    """
    if isinstance(error, (connection, *transport_errors())):
        return failed_connection(provider, error, begun=begun)
    return ModelUnavailable(f"{provider} answered what cannot be read: {error}")


def failed_connection(provider: str, error: Exception, *, begun: bool) -> ModelError:
    """Tell of a connection that was not made, or broke.

    Args:
        provider: Who was asked.
        error: What the transport said.
        begun: Whether the answer had begun.
    """
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    cause = str(error.__cause__ or "")
    if cause and cause not in said:
        said += f" ({cause})"
    if begun:
        return AnswerCutOff(f"the connection to {provider} ended in the middle of its answer: {said}")
    return ModelUnavailable(f"{provider} cannot be reached: {said}")


def failed_request(provider: str, status: int | None, headers: Mapping[str, str], body: object) -> ModelError:
    """Tell of an answer that is an error.

    Args:
        provider: Who answered.
        status: The HTTP status; None where the error came inside of an answer that had begun well.
        headers: The answer's headers, with names in lower case or found whatever their case.
        body: What it said: decoded JSON, or text.
    """
    said = _innermost(body)
    codes, words = _read(said)
    if status is None or status < 400:
        status = next(filter(None, map(_status_of, codes)), None)
    told = f"{provider} answered{'' if status is None else f' {status}'}: {words or 'nothing'}"
    if status == 413 or not _TOO_LONG_CODES.isdisjoint(codes) or _TOO_LONG_WORDS.search(words):
        needed, available = told_sizes(said, words)
        return RequestTooLong(told, status=status, needed=needed, available=available)
    if not _QUOTA_CODES.isdisjoint(codes):
        return RequestRefused(told, status=status)
    if status == 429:
        return RateLimited(told, status=status, retry_after_s=retry_after_s(headers))
    if status is None or status >= 500 or status in _COME_AGAIN:
        return ModelUnavailable(told, status=status)
    return RequestRefused(told, status=status)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return in how many seconds to come again, from `retry-after-ms` or `retry-after`; None where neither says."""
    in_ms = _number(headers.get("retry-after-ms"))
    if in_ms is not None:
        return in_ms / 1000
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None or said is None:
        return seconds
    try:
        at = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    now = datetime.now(UTC)
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())


def _number(said: str | None) -> float | None:
    return float(said) if said is not None and re.fullmatch(r"\d+(\.\d*)?", said) else None


def _status_of(code: str) -> int | None:
    status = int(code) if code.isdecimal() else _STATUS_OF_CODES.get(code, 0)
    return status if status >= 400 else None


def _innermost(body: object) -> object:
    """Return what an error's body says of the error itself: many put it under `error`, once or twice."""
    if not isinstance(body, Mapping):
        return body
    fields = cast("Mapping[str, object]", body)
    inner = fields.get("error")
    return _innermost(inner) if inner else fields


def _read(said: object) -> tuple[tuple[str, ...], str]:
    """Return the codes and the words of an error, of which there are many shapes."""
    if not isinstance(said, Mapping):
        return (), "" if said is None else str(said)[:2000]
    fields = cast("Mapping[str, object]", said)
    codes = tuple(str(fields[name]) for name in ("code", "type") if fields.get(name) is not None)
    words = next((str(fields[name]) for name in ("message", "detail") if fields.get(name)), "")
    return codes, words or str(dict(fields))[:2000]
