"""Text that has the form of a secret is redacted wherever it occurs, and all other text is left unchanged."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import string
import time
import uuid
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from treering import (
    Content,
    Custom,
    CustomEntry,
    Entry,
    Header,
    InvalidInput,
    Message,
    MessageEntry,
    OpaqueEntry,
    Redaction,
    Session,
    SessionHost,
    image,
    text,
    thinking,
    tool_result,
    tool_use,
)
from treering.events.content import JSON

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
def test_no_planted_secret_remains(secret: tuple[str, str], before: str, after: str) -> None:
    original, hidden = secret
    redaction = Redaction()
    shown = redaction.text(f"{before}{original}{after}")
    assert hidden not in shown
    assert "[redacted:" in shown
    assert sum(redaction.counts.values()) >= 1
    assert Redaction().text(shown) == shown, "redacting again changes nothing"


@given(PLANTED)
def test_no_field_of_an_entry_or_header_keeps_a_secret(secret: tuple[str, str]) -> None:
    original, hidden = secret
    raw = Raw(json.dumps({"deep": [{original: {"note": original}}], "n": 1}).encode())
    content: list[Content] = [
        text(original),
        thinking(original, signature=original),
        tool_use(original, original, raw),
        tool_result("c", [text(original)]),
        tool_result("c", original, is_error=True),
    ]
    entries: list[Entry] = [
        MessageEntry(
            id="a",
            parent_id=None,
            timestamp=NOW,
            message=Message("user", tuple(content), error=original, raw_metadata=raw),
        ),
        CustomEntry(id="a", parent_id=None, timestamp=NOW, custom=Custom(original, raw)),
        OpaqueEntry(type="novel", id="a", parent_id=None, timestamp=NOW, raw=raw),
    ]
    for entry in entries:
        shown = repr(Redaction().entry(entry))
        assert hidden not in shown
        assert type(Redaction().entry(entry)) is type(entry)
    header = Header(id="a", version=1, timestamp=NOW, cwd=original, title=original)
    assert hidden not in repr(Redaction().header(header))


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


def test_images_are_unchanged() -> None:
    data = "AKIA" + "ABCDEFGH23456789" + "/sk-abcdefghijklmnop1234567890"
    part = image(data, "image/png")
    entry = MessageEntry(id="a", parent_id=None, timestamp=NOW, message=Message("user", (part,)))
    assert Redaction().entry(entry) is entry
    in_pi: JSON = {"type": "image", "mimeType": "image/png", "data": data}
    assert Redaction().value({"content": [in_pi]}) == {"content": [in_pi]}
    assert Redaction().value({"data": data}) != {"data": data}


def test_values_under_names_of_secrets_are_redacted() -> None:
    redaction = Redaction()
    shown = redaction.value(
        {
            "dbPassword": "trees",
            "headers": {"Authorization": "abc", "X-Api-Key": "abcdef1234"},
            "token": "oak",
            "max_tokens": 3,
            "password": None,
        }
    )
    assert shown == {
        "dbPassword": "[redacted:password]",
        "headers": {"Authorization": "[redacted:authorization]", "X-Api-Key": "[redacted:secret]"},
        "token": "oak",
        "max_tokens": 3,
        "password": None,
    }
    assert redaction.counts == {"authorization": 1, "password": 1, "secret": 1}


def test_redacted_keys_stay_distinct_and_deep_nesting_is_redacted() -> None:
    keys = ["sk-ant-api03-aaaaaaaaaaaaaaaa", "sk-ant-api03-bbbbbbbbbbbbbbbb"]
    assert Redaction().value({keys[0]: 1, keys[1]: 2}) == {
        "[redacted:anthropic_key]": 1,
        "[redacted:anthropic_key] 2": 2,
    }
    deep = '{"a":' * 400 + f'"{keys[0]}"' + "}" * 400
    assert keys[0] not in json.dumps(Redaction().value(json.loads(deep)))


def test_a_program_can_add_patterns_and_secrets() -> None:
    redaction = Redaction(
        patterns={"ticket": r"TREE-[0-9]+", "name": re.compile(r"Dr\. (?P<secret>\w+)")},
        secrets=["oak and ash"],
    )
    assert (
        redaction.text("TREE-12: Dr. Elm saw oak and ash")
        == "[redacted:ticket]: Dr. [redacted:name] saw [redacted:given]"
    )
    assert redaction.counts == {"given": 1, "name": 1, "ticket": 1}


@pytest.mark.parametrize(
    ("patterns", "secrets"),
    [
        ({"Not A Word": "x"}, ()),
        ({"x": "("}, ()),
        ({"x": "y*"}, ()),
        ({}, ["abc"]),
        ({}, "abcdef"),
        (["x"], ()),
        ({}, [None]),
    ],
)
def test_patterns_and_secrets_that_would_match_everything_or_nothing_are_refused(
    patterns: Any,  # noqa: ANN401  # invalid arguments are of any type
    secrets: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(InvalidInput):
        Redaction(patterns=patterns, secrets=secrets)


async def session_with_secrets(host: SessionHost, secrets: list[str]) -> Session:
    session = await host.create(cwd=f"/work/{secrets[0]}")
    for secret in secrets:
        label = await session.append_message("user", f"Mine is {secret} indeed")
        await session.set_label(label, secret)
        await session.append_message("assistant", [thinking(secret), tool_use("c", "run", {"argument": secret})])
        await session.append_tool_execution("c", "run", {"argument": secret}, f"it says {secret}")
        await session.append_custom_entry("ext", {"kept": [secret]})
        await session.branch(label)
        await session.append_compaction(f"They said {secret}", None, 10)
        await session.append_session_info(secret)
    return session


@pytest.mark.feature("N-57")
@pytest.mark.parametrize("format", ["json", "markdown", "html"])
async def test_no_redacted_export_contains_a_secret(format: Literal["json", "markdown", "html"]) -> None:
    secrets = [
        "sk-ant-api03-abcdefghijklmnop1234",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAABCDEFGH23456789",
        "xoxb-123456789012-abcdef",
    ]
    async with SessionHost() as host:
        session = await session_with_secrets(host, secrets)
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
    ("value", "redacted"),
    [
        ({"password": 12345678}, {"password": "[redacted:password]"}),
        ({"password": 8, "passwords": 12345678}, {"password": 8, "passwords": 12345678}),
        ({"password": True}, {"password": True}),
        ({"password": ["correct horse", None]}, {"password": ["[redacted:password]", None]}),
        ({"Authorization": ["Basic dXNlcjpwYXNz"]}, {"Authorization": ["[redacted:authorization]"]}),
        ([{"name": "DB_PASSWORD", "value": "horse"}], [{"name": "DB_PASSWORD", "value": "[redacted:password]"}]),
        ([{"key": "api_key", "value": "a1b2c3d4e5"}], [{"key": "api_key", "value": "[redacted:secret]"}]),
        ([{"name": "city", "value": "horse"}], [{"name": "city", "value": "horse"}]),
    ],
)
def test_values_under_names_of_secrets_are_redacted_in_every_notation(value: JSON, redacted: JSON) -> None:
    assert Redaction().value(value) == redacted


@pytest.mark.parametrize(
    "piece",
    [
        "-",
        "--a-",
        "cookie:",
        "authorization: ",
        "curl -",
        "password='a ",
        "sk-a",
        "eyJ",
        "a://b:c/",
        "://:@a",
        "session token = aa",
        "authorization: digest a=b,",
        "aws_session_token ",
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
