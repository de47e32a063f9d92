"""Remove secrets from the content of a session before others read it.

A `Redaction` processes every string of an entry or a header: messages, the arguments and results of tools, free-form
JSON with its keys, ids. Text in the form of a secret becomes `[redacted:<kind>]`; the data of images is left alone. A
redaction finds secrets with a known form (see `secret_forms`) and those in its arguments, and counts them. It is an
aid and not a guarantee: read a session before you publish it.

Redaction never changes a log. It is part of an export, which states that it was redacted and is never imported again as
a session: a conversation with gaps cannot be resumed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from threading import Lock
from typing import TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from .content import ImageSource
from .entries import Entry, Header
from .errors import InvalidInput
from .json_values import JSON, json_value, raw_json
from .secret_forms import PASSWORD_NAME, SECRET_NAME, SECRET_VALUE, SecretForm, secret_forms

_KIND = re.compile(r"[a-z][a-z0-9_-]*")
_HEADER_KEYS = {"authorization": "authorization", "proxy-authorization": "authorization"} | dict.fromkeys(
    ("cookie", "set-cookie"), "cookie"
)
_MARK = "[redacted:"
_DEPTH_MAX = 100
_SECRET_CHARS_MIN = 4

S = TypeVar("S", bound=Struct)


class Redaction:
    """Finds secrets and replaces them by `[redacted:<kind>]`.

    It may be used for many exports, from several threads at once; `counts` then covers all of them.

    Args:
        patterns: Additional regular expressions by kind; the group `secret`, or else the whole match, is removed. A
            kind is a word in lower case.
        secrets: Texts to remove wherever they occur, such as the program's own keys.

    Raises:
        InvalidInput: A kind is not such a word; a pattern is not a regular expression, or matches the empty text; a
            secret is shorter than four characters.
    """

    def __init__(
        self, *, patterns: Mapping[str, str | re.Pattern[str]] | None = None, secrets: Sequence[str] = ()
    ) -> None:
        if patterns is not None and not isinstance(patterns, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(
                "`patterns` takes regular expressions by kind: give a dict such as {'ticket': r'T-\\d+'}"
            )
        custom_forms = [_custom_form(kind, pattern) for kind, pattern in (patterns or {}).items()]
        self._forms = (*_literal_forms(secrets), *custom_forms, *secret_forms())
        self._password_key = re.compile(rf"(?s).*{PASSWORD_NAME}")
        self._secret_key = re.compile(rf"(?s).*{SECRET_NAME}")
        self._secret_value = re.compile(SECRET_VALUE)
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def counts(self) -> dict[str, int]:
        """The number of secrets removed so far, by kind in alphabetical order."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    def text(self, text: str) -> str:
        """Return a text without its secrets; the same object if there are none."""
        lowered = text.lower()
        counts: Counter[str] = Counter()
        for form in self._forms:
            if not form.marks or any(mark in lowered for mark in form.marks):
                text = _without(form, text, counts)
        if counts:
            with self._lock:
                self._counts.update(counts)
        return text

    def value(self, value: JSON) -> JSON:
        """Return a JSON value without the secrets in its strings and keys; base64 data of images stays.

        A value under a key that names a secret, such as `password`, is removed because of its key. A number too large
        for a float becomes null, as it does for most readers of JSON.
        """
        return self._value(value, 0)

    def header(self, header: Header) -> Header:
        """Return a header without its secrets."""
        return self._struct(header)

    def entry(self, entry: Entry) -> Entry:
        """Return an entry without its secrets, at the same place in the tree.

        Ids are redacted like all other texts: if one holds a secret, references to it change in the same way.
        """
        return self._struct(entry)

    def _struct(self, struct: S) -> S:
        """Redact the fields of a struct, but not what its class fixes, such as the name of its type."""
        changed: dict[str, object] = {}
        for name in struct.__struct_fields__:
            value: object = getattr(struct, name)
            redacted = self._field(value)
            if redacted is not value:
                changed[name] = redacted
        return msgspec.structs.replace(struct, **changed) if changed else struct

    def _field(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Raw):
            decoded = json_value(value)
            redacted_json = self.value(decoded)
            return value if redacted_json == decoded else raw_json(redacted_json)
        if isinstance(value, tuple):
            parts = cast("tuple[object, ...]", value)
            redacted = tuple(self._field(each) for each in parts)
            return parts if all(one is other for one, other in zip(redacted, parts, strict=True)) else redacted
        if isinstance(value, ImageSource) and value.type == "base64":
            return value
        return self._struct(value) if isinstance(value, Struct) else value

    def _value(self, value: JSON, depth: int) -> JSON:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, float) and not isfinite(value):
            return None
        if not value or not isinstance(value, dict | list):
            return value
        if depth > _DEPTH_MAX:
            return self.text(json.dumps(value, ensure_ascii=False))
        if isinstance(value, list):
            return [self._value(each, depth + 1) for each in value]
        image = _image_data(value)
        name = value.get("name", value.get("key"))  # the form of items in lists of headers and of variables
        redacted: dict[str, JSON] = {}
        for key, each in value.items():
            new_key = _unused(self.text(key), redacted)
            named = name if key == "value" and isinstance(name, str) else key
            redacted[new_key] = each if key == image else self._named(named, each, depth + 1)
        return redacted

    def _named(self, key: str, value: JSON, depth: int) -> JSON:
        """Redact the value of a key: a text, texts in a list, and a password that consists of digits."""
        if isinstance(value, list) and depth <= _DEPTH_MAX:
            return [self._named(key, each, depth + 1) for each in value]
        if type(value) is int and len(str(abs(value))) >= _SECRET_CHARS_MIN and self._password_key.fullmatch(key):
            value = str(value)
        if not isinstance(value, str) or not value:
            return self._value(value, depth)
        kind = _HEADER_KEYS.get(key.lower())
        if kind is None and self._password_key.fullmatch(key):
            kind = "password"
        elif kind is None and self._secret_key.fullmatch(key) and self._secret_value.fullmatch(value):
            kind = "secret"
        redacted = self.text(value)
        if kind is None or redacted != value or value.startswith(_MARK):
            return redacted
        with self._lock:
            self._counts[kind] += 1
        return f"{_MARK}{kind}]"


def _without(form: SecretForm, text: str, counts: Counter[str]) -> str:
    groups = [name for name in form.pattern.groupindex if name.startswith("secret")]
    parts: list[str] = []
    end = 0
    for match in form.pattern.finditer(text):
        start, stop = match.span(next((name for name in groups if match[name] is not None), 0))
        if start == stop:
            continue
        parts += [text[end:start], _MARK, form.kind, "]"]
        end = stop
        counts[form.kind] += 1
    return "".join([*parts, text[end:]]) if parts else text


def _custom_form(kind: str, pattern: str | re.Pattern[str]) -> SecretForm:
    if not _KIND.fullmatch(kind):
        raise InvalidInput(f"{kind!r} cannot name a kind of secret: give a word in lower case, such as 'ticket'")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidInput(f"the pattern of {kind!r} is not a valid regular expression: {error}") from error
    if compiled.search(""):
        raise InvalidInput(f"the pattern of {kind!r} matches the empty text: give one that matches only secrets")
    return SecretForm(kind, compiled)


def _literal_forms(secrets: Sequence[str]) -> list[SecretForm]:
    """Make a form of literal texts, the longest first, so that one that is a prefix of another leaves no remainder."""
    given = cast("Sequence[object]", secrets)  # whatever it is declared to be
    if isinstance(secrets, str) or not all(isinstance(each, str) and len(each) >= _SECRET_CHARS_MIN for each in given):
        raise InvalidInput(f"`secrets` takes a sequence of texts of at least {_SECRET_CHARS_MIN} characters")
    ordered = sorted(secrets, key=len, reverse=True)
    return [SecretForm("given", re.compile("|".join(map(re.escape, ordered))))] if ordered else []


def _image_data(value: Mapping[str, JSON]) -> str | None:
    """Return the key of the base64 data of an image in treering's form or that of pi and its descendants."""
    kind = value.get("media_type", value.get("mimeType"))
    if isinstance(kind, str) and kind.startswith("image/") and value.get("type") in ("base64", "image"):
        return "data"
    return None


def _unused(key: str, taken: Mapping[str, JSON]) -> str:
    """Return a key that is not taken: keys may become equal when their secrets are removed."""
    if key not in taken:
        return key
    return next(new for number in range(2, len(taken) + 2) if (new := f"{key} {number}") not in taken)
