"""Keys and their file names: readable, safe, and distinct."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from treering.actors.host import names as keys
from treering.actors.host.names import KEY_BYTES_MAX, checked_id, id_of_key
from treering.errors import InvalidSessionId
from treering.sessions import SessionKey

PARTS = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1).filter(lambda part: part != "agent")
KEYS = st.one_of(
    st.text("ab:_/.-~A ", min_size=1, max_size=8),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    st.sampled_from(["con", "nul.txt", ".hidden", "x.jsonl", "é", "é", "telegram:1", "telegram_1", "Telegram:1"]),
).filter(lambda key: key not in (".", ".."))

RESERVED_NAME = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""What Windows does not take for a name: those of devices, with any ending."""


@pytest.mark.feature("P-25", "P-27", "P-43")
def test_the_names_are_as_the_docstring_shows() -> None:
    shown = re.findall(r"^    (\S+) +(\S+)\.jsonl$", keys.__doc__ or "", re.MULTILINE)
    assert len(shown) == 5
    assert [(key, id_of_key(key)) for key, _ in shown] == shown
    assert id_of_key("telegram:-1001234567890") == "telegram_-1001234567890"


@pytest.mark.feature("P-28")
@given(st.lists(KEYS, min_size=2, max_size=20, unique=True))
def test_distinct_keys_have_distinct_files_on_every_file_system(given_keys: list[str]) -> None:
    names = [unicodedata.normalize("NFC", id_of_key(key)).casefold() for key in given_keys]
    assert len(set(names)) == len(given_keys)


@pytest.mark.feature("P-49")
@given(KEYS)
@example("x" * KEY_BYTES_MAX)
@example("ü" * (KEY_BYTES_MAX // 2))
@example("👩‍👩‍👧" * 40)
@example("a\x00b")
def test_every_name_is_a_valid_file_name_and_id_on_every_system(key: str) -> None:
    name = id_of_key(key)
    assert checked_id(name) == name
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._~-]*", name)
    assert len(name) <= 120
    assert not name.endswith(".jsonl")
    assert not RESERVED_NAME.fullmatch(name)


@pytest.mark.feature("P-49")
@pytest.mark.parametrize(
    "device", ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)
def test_no_name_is_that_of_a_device_however_its_key_is_written(device: str) -> None:
    for ending in ("", ".x", ".tar.gz", ".", " ", ".x y", ":1", "/1"):
        for key in (device + ending, device.upper() + ending, device.capitalize() + ending):
            name = id_of_key(key)
            assert not RESERVED_NAME.fullmatch(name), key
            assert checked_id(name) == name


@pytest.mark.feature("P-44")
@pytest.mark.parametrize(
    ("key", "told"),
    [
        (SessionKey("t", "1"), "SessionKey(channel='t', chat_id='1', agent=None) is not a key: give a string; "),
        ("", "'' is not a key: give a name, such as telegram:123456"),
        (".", "'.' is not a key: give a name, such as telegram:123456"),
        ("..", "'..' is not a key: give a name, such as telegram:123456"),
        ("x" * 50 + "\ud800", f"the key '{'x' * 40}' contains a lone surrogate: give valid Unicode"),
        ("x" * 1025, f"the key '{'x' * 40}'... takes 1025 bytes: at most 1024 are allowed"),
        ("ü" * 513, f"the key '{'ü' * 40}'... takes 1026 bytes: at most 1024 are allowed"),
    ],
    ids=["parts", "empty", "dot", "dots", "surrogate", "long", "long in bytes"],
)
def test_a_refusal_tells_what_is_wrong_with_a_key(key: str, told: str) -> None:
    with pytest.raises(InvalidSessionId) as raised:
        id_of_key(key)
    assert str(raised.value).startswith(told)
    assert len(id_of_key("X" * 200)) == 119  # the longest of them


@pytest.mark.feature("P-25", "P-26")
@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("telegram:123456", SessionKey("telegram", "123456")),
        ("telegram:-100123", SessionKey("telegram", "-100123")),
        ("matrix:!room:example.org", SessionKey("matrix", "!room:example.org")),
        ("agent:main:telegram:123456", SessionKey("telegram", "123456", agent="main")),
        ("agent:main:telegram:-100123", SessionKey("telegram", "-100123", agent="main")),
    ],
)
def test_session_keys_parse_and_format(key: str, parts: SessionKey) -> None:
    assert SessionKey.parse(key) == parts
    assert str(parts) == key


@pytest.mark.feature("P-26", "D-67")
@given(PARTS, st.text(min_size=1), st.none() | PARTS)
def test_the_parts_of_a_key_round_trip(channel: str, chat_id: str, agent: str | None) -> None:
    parts = SessionKey(channel, chat_id, agent)
    assert SessionKey.parse(str(parts)) == parts


@pytest.mark.feature("P-26")
@pytest.mark.parametrize("key", ["", "telegram", ":1", "telegram:", "agent:main", "agent:main:telegram", "agent::t:1"])
def test_text_that_is_not_a_session_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidSessionId, match=r"write channel:chat or agent:name:channel:chat") as raised:
        SessionKey.parse(key)
    assert str(raised.value).startswith(f"{key!r} ")


@pytest.mark.parametrize(("channel", "chat_id", "agent"), [("a:b", "1", None), ("agent", "1", None), ("t", "1", "a:b")])
def test_parts_that_would_parse_differently_are_refused(channel: str, chat_id: str, agent: str | None) -> None:
    with pytest.raises(InvalidSessionId):
        SessionKey(channel, chat_id, agent)
