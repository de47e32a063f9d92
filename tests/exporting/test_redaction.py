"""Text that has the form of a secret is redacted wherever it occurs, and all other text is left unchanged."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import string
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from treering import Entry, Header, InvalidInput, Message, SessionHost, image, text, thinking, tool_result, tool_use
from treering.entries import Content, Custom, CustomEntry, MessageEntry, OpaqueEntry
from treering.events.json_values import JSON
from treering.sessions import Redaction

from .conftest import append_everywhere

KEY = "sk-ant-api03-abcdefghijklmnop1234"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LETTERS = string.ascii_letters + string.digits


def word(size: int, alphabet: str = LETTERS) -> st.SearchStrategy[str]:
    """Words of a given length, with a digit in them, as keys have."""
    return st.text(alphabet, min_size=size, max_size=size).map(lambda drawn: f"{drawn[:-2]}7{drawn[-1]}")


def planted(template: str, size: int, alphabet: str = LETTERS) -> st.SearchStrategy[tuple[str, str]]:
    """A text with a secret in it, and the part of it that must not appear afterwards."""
    return word(size, alphabet).map(lambda drawn: (template.replace("@", drawn), drawn))


UPPER = string.ascii_uppercase + string.digits
PLANTED = st.one_of(
    planted("sk-@", 48),
    planted("sk-proj-@", 40, LETTERS + "_-"),
    planted("sk-ant-api03-@", 90, LETTERS + "_-"),
    planted("ghp_@", 36),
    planted("github_pat_@", 60, LETTERS + "_"),
    planted("glpat-@", 20),
    planted("xoxb-@", 30, string.digits + "-"),
    planted("AKIA@", 16, UPPER),
    planted("AIza@", 35, LETTERS + "_-"),
    planted("hf_@", 34),
    planted("eyJhbGciOiJIUzI1NiJ9.eyJzdWIi@.c2ln", 20),
    planted("-----BEGIN RSA PRIVATE KEY-----\n@\n-----END RSA PRIVATE KEY-----", 200),
    planted("-----BEGIN PRIVATE KEY-----\\n@", 100),
    planted("Authorization: Bearer @", 24),
    planted("'authorization': 'Basic @=='", 20),
    word(12).map(lambda drawn: (f"postgres://ann:{drawn}@db.example.org/trees", drawn)),
    word(12).map(lambda drawn: (f"postgres://ann:p@{drawn}@db/trees", drawn)),
    word(12).map(lambda drawn: (f"mysql://ann:a/{drawn}/b@db/trees", drawn)),
    planted("Authorization: Bearer @", 30, string.ascii_lowercase),
    planted('Authorization: Digest username="ann", response="@"', 32),
    planted('{\\"Proxy-Authorization: Digest username=\\"ann\\", nc=1,response=\\"@\\"', 32),
    planted("Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;range, Signature=@", 64),
    planted("aws_secret_access_key = @", 40, LETTERS + "/+"),
    planted("aws_session_token = @==", 300, LETTERS + "/+"),
    planted("AWS Secret Access Key [None]: @", 40, LETTERS + "/+"),
    planted("API_KEY=@", 12),
    planted("export DB_PASSWORD='@'", 9),
    planted('{"password": "@"}', 9),
    planted('{\\"client_secret\\": \\"@\\"}', 24),
    planted("password: @", 10),
    planted("?access_token=@&x=1", 20),
    planted("--password @", 8),
    planted("curl -u ann:@ https://example.org", 10),
)
AROUND = st.sampled_from(["", " ", "\n", "it is ", "\\n", "\\t", '"', "=", "(", "\x1b[0m", "%20"])
PROSE = st.sampled_from(["", " ", "\n", ", then", ".", '"', ")", "\\n"])


@given(PLANTED, AROUND, PROSE)
def test_no_text_and_no_field_of_an_entry_or_header_keeps_a_secret(
    secret: tuple[str, str], before: str, after: str
) -> None:
    original, hidden = secret
    redaction = Redaction()
    shown = redaction.text(f"{before}{original}{after}")
    assert hidden not in shown
    assert "[redacted:" in shown
    assert sum(redaction.counts.values()) >= 1
    assert Redaction().text(shown) == shown, "redacting again changes nothing"
    raw = Raw(json.dumps({"deep": [{original: {"note": original}}], "n": 1}).encode())
    content: list[Content] = [
        text(original),
        thinking(original, signature=original),
        tool_use(original, original, raw),
        tool_result("c", [text(original)]),
        tool_result("c", original, is_error=True),
    ]
    base: Any = {"id": "a", "parent_id": None, "timestamp": NOW}
    structs: list[Entry | Header] = [
        MessageEntry(message=Message("user", tuple(content), error=original, raw_metadata=raw), **base),
        CustomEntry(custom=Custom(original, raw), **base),
        OpaqueEntry(type="novel", raw=raw, **base),
        Header(id="a", version=1, timestamp=NOW, cwd=original, title=original),
    ]
    for each in structs:
        redacted = redaction.header(each) if isinstance(each, Header) else redaction.entry(each)
        assert hidden not in repr(redacted)
        assert type(redacted) is type(each)


def test_only_the_fields_that_hold_a_secret_change() -> None:
    kept, image_part = Raw(b'{ "n": 1.0 }'), image(f"AKIA{'B7' * 8}", "image/png")
    parts = (text("It is [redacted:anthropic_key]."), tool_use("c", "run", kept), image_part)
    entry = MessageEntry(id="a", parent_id=None, timestamp=NOW, message=Message("user", parts, raw_metadata=kept))
    assert Redaction().entry(entry) is entry
    secret = replace(entry, message=replace(entry.message, content=(text(f"It is {KEY}."), *parts[1:])))
    redacted = Redaction().entry(secret)
    assert redacted == entry
    assert isinstance(redacted, MessageEntry)
    assert redacted.message.content[2] is image_part


ORDINARY = [
    "The password must be at least 12 characters long; the token: a word, the secret: patience.",
    "def login(user: str, password: str, token: str | None = None) -> Session: ...",
    "password = getpass()\ntoken = tokens[0]\nsecret = os.environ['SECRET']",
    "GITHUB_TOKEN=${GITHUB_TOKEN} API_KEY=<your key> TOKEN=$TOKEN",
    'fetch(url, {credentials: "same-origin"}); max_tokens=4096, PWD=/work/trees1/src',
    '{"type": "object", "properties": {"password": {"type": "string"}, "token": "word"}}',
    "See https://example.org:8080/a/b@c and http://user@example.org/ and git@example.org:trees.git",
    "a task-list, a disk-image-of-some-kind-2026-01-01, sk-learn-tutorial-for-everybody-else",
    "eyJ is how JSON begins in base64; -----BEGIN CERTIFICATE-----",
    "postgres://db:5432/trees@v1 postgresql://{user}:{password}/{trees}@db http://host:port/a@b docker://oak:80/ash@sha256:a1",
    "secret_access_key = credentials2.secretAccessKey1; session_token = new_session_token_of2(aws_secret_access_key)",
    "Authorization: Bearer your-own-access-token, Authorization: Digest realm and AWS4-HMAC-SHA256 are schemes",
    "The bearer of good news; Authorization is required; a cookie: sweet.",
]


@pytest.mark.parametrize("original", ORDINARY)
def test_ordinary_text_is_unchanged(original: str) -> None:
    redaction = Redaction()
    assert redaction.text(original) is original
    assert redaction.counts == {}


@pytest.mark.parametrize(
    ("original", "shown"),
    [
        ("postgres://ann:p@ss@w0rd99@db/x", "postgres://ann:[redacted:url_password]@db/x"),
        ("Authorization: Bearer abcdefghijklmnopqrstuvwxyz", "Authorization: Bearer [redacted:authorization]"),
        ("mysql://root:a/b/c1234@h/db", "mysql://root:[redacted:url_password]@h/db"),
        (
            """curl -H 'Authorization: Digest username="ann", response="6629fae4"' https://example.org""",
            "curl -H 'Authorization: Digest [redacted:authorization]' https://example.org",
        ),
        (
            "Authorization: AWS4-HMAC-SHA256 Credential=oak/us, Signature=fe5f80f7\nHost: ash",
            "Authorization: AWS4-HMAC-SHA256 [redacted:authorization]\nHost: ash",
        ),
        (
            (
                rf"aws_secret_access_key = {'wJalrXUtnFEMI/K7MDEN' * 2}\n"
                rf"aws_session_token = {'IQoJb3JpZ2luX2VjEJr/' * 6}w==\nregion = x"
            ),
            (
                r"aws_secret_access_key = [redacted:aws_secret_key]\n"
                r"aws_session_token = [redacted:aws_secret_key]\nregion = x"
            ),
        ),
    ],
)
def test_exactly_the_secret_is_replaced(original: str, shown: str) -> None:
    assert Redaction().text(original) == shown


@given(st.binary(min_size=1, max_size=400), st.uuids())
def test_hashes_ids_and_base64_are_unchanged(data: bytes, own: uuid.UUID) -> None:
    for original in (
        hashlib.sha256(data).hexdigest(),
        f"commit {hashlib.sha1(data, usedforsecurity=False).hexdigest()}",
        str(own),
        f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}",
        base64.b64encode(data).decode(),
        f"toolu_{own.hex}",
    ):
        assert Redaction().text(original) is original


MARK, PASSWORD, BASIC = "[redacted:anthropic_key]", "[redacted:password]", "[redacted:authorization]"
IN_PI: dict[str, JSON] = {"type": "image", "mimeType": "image/png", "data": KEY}


def nested(levels: int, leaf: JSON, key: str | None = None) -> JSON:
    """A value in lists, or in objects with one key, within each other."""
    for _ in range(levels):
        leaf = [leaf] if key is None else {key: leaf}
    return leaf


@pytest.mark.parametrize(
    ("value", "redacted"),
    [
        (KEY, MARK),
        ([KEY, "oak", 1, 2.5, None, True, [], {}], [MARK, "oak", 1, 2.5, None, True, [], {}]),
        ([float("inf"), {"n": float("-inf")}], [None, {"n": None}]),
        ({KEY: 1, f"{KEY}b": 2, f"{KEY}c": 3, f"{KEY}d": 4}, {MARK: 1, f"{MARK} 2": 2, f"{MARK} 3": 3, f"{MARK} 4": 4}),
        ({f"{MARK} 2": 0, KEY: 1, f"{KEY}b": 2}, {f"{MARK} 2": 0, MARK: 1, f"{MARK} 3": 2}),
        ({"content": [IN_PI], "data": KEY}, {"content": [IN_PI], "data": MARK}),
        ({**IN_PI, "type": "novel"}, {**IN_PI, "type": "novel", "data": MARK}),
        ({"type": "base64", "media_type": "image/gif", "data": KEY, "x": KEY},
         {"type": "base64", "media_type": "image/gif", "data": KEY, "x": MARK}),
        ({"type": "base64", "media_type": "text/plain", "data": KEY},
         {"type": "base64", "media_type": "text/plain", "data": MARK}),
        ({"dbPassword": "trees", "password": None, "max_tokens": 3, "token": "oak"},
         {"dbPassword": PASSWORD, "password": None, "max_tokens": 3, "token": "oak"}),
        ({"headers": {"Authorization": "abc", "X-Api-Key": "abcdef1234", "Set-Cookie": "a"}},
         {"headers": {"Authorization": BASIC, "X-Api-Key": "[redacted:secret]", "Set-Cookie": "[redacted:cookie]"}}),
        ({"password": 12345678}, {"password": PASSWORD}),
        ({"password": 1234, "pin": 1234}, {"password": PASSWORD, "pin": 1234}),
        ({"password": -123, "passwords": 12345678}, {"password": -123, "passwords": 12345678}),
        ({"password": -1234}, {"password": PASSWORD}),
        ({"password": True, "passphrase": ""}, {"password": True, "passphrase": ""}),
        ({"password": KEY, "api_key": MARK}, {"password": MARK, "api_key": MARK}),
        ({"password": ["correct horse", None]}, {"password": [PASSWORD, None]}),
        ({"Authorization": ["Basic dXNlcjpwYXNz"]}, {"Authorization": [BASIC]}),
        ([{"name": "DB_PASSWORD", "value": "horse"}], [{"name": "DB_PASSWORD", "value": PASSWORD}]),
        ([{"key": "api_key", "value": "a1b2c3d4e5"}], [{"key": "api_key", "value": "[redacted:secret]"}]),
        ([{"name": "city", "value": "horse"}, {"name": 5, "value": "horse"}],
         [{"name": "city", "value": "horse"}, {"name": 5, "value": "horse"}]),
        *((nested(101, KEY, key), nested(101, MARK, key)) for key in (None, "a")),
        *((nested(102, KEY, key), nested(101, json.dumps(nested(1, MARK, key)), key)) for key in (None, "a")),
        (nested(102, [KEY, "\xfc"]), nested(101, f'[["{MARK}", "\xfc"]]')),
        (nested(101, []), nested(101, [])),
        ({"password": nested(100, "horse")}, {"password": nested(100, PASSWORD)}),
        ({"password": nested(101, "horse")}, {"password": nested(100, '["horse"]')}),
    ],
)  # fmt: skip
def test_values_lose_their_secrets_by_form_and_by_name(value: JSON, redacted: JSON) -> None:
    redaction = Redaction()
    shown = redaction.value(value)
    assert shown == redacted
    found = Counter(re.findall(r"\[redacted:(\w+)\]", json.dumps(shown)))
    found.subtract(re.findall(r"\[redacted:(\w+)\]", json.dumps(value)))
    assert redaction.counts == dict(sorted((+found).items()))
    assert [*redaction.counts] == sorted(redaction.counts)


def test_a_program_can_add_patterns_and_secrets() -> None:
    redaction = Redaction(
        patterns={
            "ticket": r"TREE-[0-9]+",
            "name": re.compile(r"Dr\. (?P<secret>\w+)|(?P<secret_2>Prof\. \w+)"),
            "code": r"code=(?P<secret>\w*)",
        },
        secrets=["elms", "oak and ash"],
    )
    given = "TREE-12: Dr. Elm and Prof. Oak saw oak and ash, elms; code=, code=1"
    shown = (
        "[redacted:ticket]: Dr. [redacted:name] and [redacted:name] saw [redacted:given], [redacted:given]; "
        "code=, code=[redacted:code]"
    )
    assert (redaction.text(given), redaction.text("Prof. Oak")) == (shown, "[redacted:name]")
    assert redaction.counts == {"code": 1, "given": 2, "name": 3, "ticket": 1}
    assert Redaction(secrets=["oaks", "oaks and ash"]).text("oaks and ash") == "[redacted:given]"


@pytest.mark.parametrize(
    ("patterns", "secrets", "why"),
    [
        ({"Not A Word": "x"}, (), "'Not A Word' cannot name a kind of secret"),
        ({"x": "("}, (), "the pattern of 'x' is not a valid regular expression"),
        ({"x": "y*"}, (), "the pattern of 'x' matches the empty text"),
        ({}, ["abc"], "a sequence of texts of at least 4 characters"),
        ({}, "abcdef", "a sequence of texts"),
        (["x"], (), "`patterns` takes regular expressions by kind"),
        ({}, [None], "a sequence of texts"),
    ],
)
def test_patterns_and_secrets_that_would_match_everything_or_nothing_are_refused(
    patterns: Any,  # noqa: ANN401  # invalid arguments are of any type
    secrets: Any,  # noqa: ANN401
    why: str,
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(why)):
        Redaction(patterns=patterns, secrets=secrets)


@pytest.mark.feature("N-57")
@pytest.mark.parametrize("format", ["json", "markdown", "html"])
async def test_no_redacted_export_contains_a_secret(format: Literal["json", "markdown", "html"]) -> None:
    secrets = [KEY, "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "AKIAABCDEFGH23456789", "xoxb-123456789012-abcdef"]
    async with SessionHost() as host:
        session = await host.create(cwd=f"/work/{KEY}")
        for secret in secrets:
            await append_everywhere(session, f"Mine is {secret} indeed")
        plain, redaction = (await session.export(format)).decode(), Redaction()
        shown = (await session.export(format, redact=redaction)).decode()
        assert all(secret in plain for secret in secrets)
        assert not any(secret in shown for secret in secrets)
        assert "Mine is [redacted:anthropic_key] indeed" in shown.replace("\\", "") or format == "markdown"
        assert redaction.counts.keys() == {"anthropic_key", "aws_access_key", "github_token", "slack_token"}
        assert all(count >= 3 for count in redaction.counts.values())
        assert "redacted" in shown


@pytest.mark.parametrize("format", ["markdown", "html"])
@pytest.mark.parametrize(
    "secret", [f"eyJhbGciOiJIUzI1NiJ9.eyJ{'zdWIiOiIx' * 30}.c2ln", "correct horse battery staple " * 8]
)
async def test_a_shortened_title_contains_no_part_of_a_secret(format: Literal["markdown", "html"], secret: str) -> None:
    async with SessionHost() as host:
        session = await host.create()
        await session.append_message("user", f"Log in with {secret}")
        redaction = Redaction(secrets=["correct horse battery staple " * 8])
        shown = (await session.export(format, redact=redaction)).decode()
    assert "Log in with [redacted:" in shown.replace("\\", "")
    assert secret[:28] not in shown


@pytest.mark.parametrize(
    "piece",
    [
        *("-", "--a-", "cookie:", "authorization: ", "curl -", "password='a ", "sk-a", "eyJ", "a://b:c/", "://:@a"),
        *("session token = aa", "authorization: digest a=b,", "aws_session_token "),
    ],
)
def test_redaction_takes_time_linear_in_the_text(piece: str) -> None:
    """Four times the text takes about four times as long, and not sixteen times."""
    redaction = Redaction()

    def seconds_for(size: int) -> float:
        original = piece * (size // len(piece)) + " token"
        started = time.process_time()
        redaction.text(original)
        return time.process_time() - started

    assert seconds_for(80_000) < 8 * seconds_for(20_000) + 0.1
