"""Translating failures of providers into `ModelError`.

Both libraries raise an error with a status, headers and a body, or a transport error. Its meaning is taken first from
the provider's codes, then from its message, and last from the status, since the servers with OpenAI's API agree on the
status at best. Some report the size of a request that is too long and the limit, some only one of them, most only in
the message; a size that is not reported is not guessed.
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

from ..events.errors import AnswerCutOff, ModelError, ModelUnavailable, RateLimited, RequestRefused, RequestTooLong

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


_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "request_too_large"})

_TOO_LONG_MESSAGE = re.compile(
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

_RETRYABLE = frozenset({408, 409, 425})
"""Client errors that may succeed on a retry: a timeout, a conflict, an early request."""


def transport_errors() -> tuple[type[Exception], ...]:
    """Return the errors with which the loaded HTTP libraries report a failed connection.

    The providers' libraries do not wrap every error while an answer streams, and some versions use a different HTTP
    library of the same design.
    """
    return (*_of_loaded("TransportError"), OSError, EndOfStream)


def exchange_errors(library: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the errors with which a request may fail: a library's own, transport errors and decoding errors."""
    return (library, msgspec.DecodeError, *_of_loaded("DecodingError"), *transport_errors())


def _of_loaded(name: str) -> list[type[Exception]]:
    """Return the errors with a given name of the loaded HTTP libraries."""
    loaded = (sys.modules.get(library) for library in ("httpx2", "httpx"))
    return [cast("type[Exception]", getattr(module, name)) for module in loaded if module is not None]


def failed_exchange(provider: str, error: Exception, connection: type[Exception], *, begun: bool) -> ModelError:
    """Return the error for a request without a status: the connection failed, or the response cannot be decoded.

    Args:
        provider: The provider's name.
        error: One of `exchange_errors`.
        connection: The library's class of connection errors.
        begun: Whether the answer had begun.
    """
    if not isinstance(error, (connection, *transport_errors())):
        return ModelUnavailable(f"the response of {provider} cannot be decoded: {error}")
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    cause = str(error.__cause__ or "")
    if cause and cause not in reason:
        reason += f" ({cause})"
    if begun:
        return AnswerCutOff(f"the connection to {provider} ended in the middle of its answer: {reason}")
    return ModelUnavailable(f"{provider} cannot be reached: {reason}")


def failed_request(provider: str, status: int | None, headers: Mapping[str, str], body: object) -> ModelError:
    """Return the error for an error response.

    Args:
        provider: The provider's name.
        status: The HTTP status; None if the error came within a stream that had begun successfully.
        headers: The response's headers, with lower-case or case-insensitive names.
        body: The body, as decoded JSON or text.
    """
    details = _innermost(body)
    codes, words = _codes_and_message(details)
    if status is None or status < 400:
        status = next(filter(None, map(_status_of, codes)), None)
    message = f"{provider} answered{'' if status is None else f' {status}'}: {words or 'no message'}"
    if status == 413 or not _TOO_LONG_CODES.isdisjoint(codes) or _TOO_LONG_MESSAGE.search(words):
        needed, available = reported_sizes(details, words)
        return RequestTooLong(message, status=status, needed=needed, available=available)
    if not _QUOTA_CODES.isdisjoint(codes):
        return RequestRefused(message, status=status)
    if status == 429:
        return RateLimited(message, status=status, retry_after_s=retry_after_s(headers))
    if status is None or status >= 500 or status in _RETRYABLE:
        return ModelUnavailable(message, status=status, retry_after_s=retry_after_s(headers))
    return RequestRefused(message, status=status)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the delay from `retry-after-ms` or `retry-after` in seconds, or None without either."""
    in_ms = _number(headers.get("retry-after-ms"))
    if in_ms is not None:
        return in_ms / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    now = datetime.now(UTC)
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and re.fullmatch(r"\d+(\.\d*)?", text) else None


def _status_of(code: str) -> int | None:
    status = int(code) if code.isdecimal() else _STATUS_OF_CODES.get(code, 0)
    return status if status >= 400 else None


def _innermost(body: object) -> object:
    """Return the innermost error of a body: many nest it under `error`, once or twice."""
    if not isinstance(body, Mapping):
        return body
    fields = cast("Mapping[str, object]", body)
    inner = fields.get("error")
    return _innermost(inner) if inner else fields


def _codes_and_message(details: object) -> tuple[tuple[str, ...], str]:
    """Return the codes and the message of an error, which comes in many shapes."""
    if not isinstance(details, Mapping):
        return (), "" if details is None else str(details)[:2000]
    fields = cast("Mapping[str, object]", details)
    codes = tuple(str(fields[name]) for name in ("code", "type") if fields.get(name) is not None)
    words = next((str(fields[name]) for name in ("message", "detail") if fields.get(name)), "")
    return codes, words or str(dict(fields))[:2000]
