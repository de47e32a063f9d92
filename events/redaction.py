"""Taking secrets out of what a session says, before somebody else is to read it.

A `Redaction` goes through every string of an entry or a header: what was said, the arguments and results of tools, free
JSON with its keys, ids. What has the form of a secret becomes `[redacted:<kind>]`; the data of images is left alone.
It finds what has a form (see `secret_forms`) or was named to it, and counts what it took out. It is a help and no
proof: whoever publishes a session reads it first.

Redaction never changes a log. It goes with an export, whose product says that it was redacted and is never taken in
again as a session: with holes in it, a conversation cannot go on.
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

from .content import JSON, ImageSource, json_value, raw_json
from .entries import Entry, Header
from .errors import InvalidInput
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
    """Finds secrets and puts `[redacted:<kind>]` in their place.

    It may be used for many exports, from several threads at once; `counts` then speaks of all of them.

    Args:
        patterns: What else is to be taken out: regular expressions by kind, whose group `secret`, or else whole match,
            goes. A kind is a word in lower case.
        secrets: Texts that are to be taken out wherever they stand, such as the program's own keys.

    Raises:
        InvalidInput: A kind is no such word; a pattern is no regular expression, or matches the empty text; a secret is
            shorter than four characters.
    """

    def __init__(
        self, *, patterns: Mapping[str, str | re.Pattern[str]] | None = None, secrets: Sequence[str] = ()
    ) -> None:
        if patterns is not None and not isinstance(patterns, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput(
                "`patterns` takes regular expressions by kind: give a dict such as {'ticket': r'T-\\d+'}"
            )
        own = [_own_form(kind, pattern) for kind, pattern in (patterns or {}).items()]
        self._forms = (*_given_forms(secrets), *own, *secret_forms())
        self._password_key = re.compile(rf"(?s).*{PASSWORD_NAME}")
        self._secret_key = re.compile(rf"(?s).*{SECRET_NAME}")
        self._secret_value = re.compile(SECRET_VALUE)
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def counts(self) -> dict[str, int]:
        """How many secrets of each kind were taken out so far, by kind in alphabetical order."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    def text(self, text: str) -> str:
        """Return a text without its secrets; the same object where there are none."""
        lowered = text.lower()
        found: Counter[str] = Counter()
        for form in self._forms:
            if not form.marks or any(mark in lowered for mark in form.marks):
                text = _without(form, text, found)
        if found:
            with self._lock:
                self._counts.update(found)
        return text

    def value(self, value: JSON) -> JSON:
        """Return a JSON value without the secrets in its strings and keys; base64 data of images stays.

        What stands under the name of a secret, such as `password`, is taken out for its name. A number that is beyond
        every float becomes null, as it does for most readers of JSON.
        """
        return self._value(value, 0)

    def header(self, header: Header) -> Header:
        """Return a header without its secrets."""
        return self._struct(header)

    def entry(self, entry: Entry) -> Entry:
        """Return an entry without its secrets, in the same place of the tree.

        Ids are texts like all others: where one holds a secret, those that refer to it are changed alike.
        """
        return self._struct(entry)

    def _struct(self, struct: S) -> S:
        """Redact the fields of a struct; what its class fixes, such as the name of its type, is no text."""
        changed: dict[str, object] = {}
        for name in struct.__struct_fields__:
            value: object = getattr(struct, name)
            shown = self._field(value)
            if shown is not value:
                changed[name] = shown
        return msgspec.structs.replace(struct, **changed) if changed else struct

    def _field(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Raw):
            decoded = json_value(value)
            shown = self.value(decoded)
            return value if shown == decoded else raw_json(shown)
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
        if depth > _DEPTH_MAX:
            return (
                self.text(json.dumps(value, ensure_ascii=False)) if value and isinstance(value, dict | list) else value
            )
        if isinstance(value, list):
            return [self._value(each, depth + 1) for each in value]
        if not isinstance(value, dict):
            return None if isinstance(value, float) and not isfinite(value) else value
        image = _image_data(value)
        name = value.get("name", value.get("key"))  # as lists of headers and of variables have it
        redacted: dict[str, JSON] = {}
        for key, each in value.items():
            shown = _unused(self.text(key), redacted)
            named = name if key == "value" and isinstance(name, str) else key
            redacted[shown] = each if key == image else self._named(named, each, depth + 1)
        return redacted

    def _named(self, key: str, value: JSON, depth: int) -> JSON:
        """Redact what stands under a key: a text, texts in a list, and the digits of a password."""
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
        shown = self.text(value)
        if kind is None or shown != value or value.startswith(_MARK):
            return shown
        with self._lock:
            self._counts[kind] += 1
        return f"{_MARK}{kind}]"


def _without(form: SecretForm, text: str, found: Counter[str]) -> str:
    groups = [name for name in form.pattern.groupindex if name.startswith("secret")]
    parts: list[str] = []
    end = 0
    for match in form.pattern.finditer(text):
        name = next((name for name in groups if match.start(name) >= 0), 0)
        start, stop = match.span(name)
        if start == stop:
            continue
        parts += [text[end:start], _MARK, form.kind, "]"]
        end = stop
        found[form.kind] += 1
    return "".join([*parts, text[end:]]) if parts else text


def _own_form(kind: str, pattern: str | re.Pattern[str]) -> SecretForm:
    if not _KIND.fullmatch(kind):
        raise InvalidInput(f"{kind!r} cannot name a kind of secret: give a word in lower case, such as 'ticket'")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidInput(f"the pattern of {kind!r} is no regular expression: {error}") from error
    if compiled.search(""):
        raise InvalidInput(f"the pattern of {kind!r} matches the empty text: it would take out nothing, everywhere")
    return SecretForm(kind, compiled)


def _given_forms(secrets: Sequence[str]) -> list[SecretForm]:
    """Make a form of the texts themselves, the longest first, so that no rest of one stays where another begins it."""
    given = cast("Sequence[object]", secrets)  # whatever it is declared to be
    if isinstance(secrets, str) or not all(isinstance(each, str) and len(each) >= _SECRET_CHARS_MIN for each in given):
        raise InvalidInput(f"`secrets` takes a sequence of texts of at least {_SECRET_CHARS_MIN} characters")
    ordered = sorted(secrets, key=len, reverse=True)
    return [SecretForm("given", re.compile("|".join(map(re.escape, ordered))))] if ordered else []


def _image_data(value: Mapping[str, JSON]) -> str | None:
    """Return the key under which an object holds the base64 data of an image, as we or as pi and its like write it."""
    kind = value.get("media_type", value.get("mimeType"))
    if isinstance(kind, str) and kind.startswith("image/") and value.get("type") in ("base64", "image"):
        return "data"
    return None


def _unused(key: str, taken: Mapping[str, JSON]) -> str:
    """Tell apart keys that are alike without their secrets."""
    if key not in taken:
        return key
    number = 2
    while f"{key} {number}" in taken:
        number += 1
    return f"{key} {number}"
