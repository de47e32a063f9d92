r"""The forms of known secrets: what the keys of various services look like in a text.

A form is matched only against texts that contain one of its marks, since searching for a few letters is many times
faster than matching, and most texts contain none. The group `secret` (or `secret_2`, if a pattern has two alternatives)
is removed, or the whole match if there is no such group::

    password=correct-horse-1      becomes   password=[redacted:password]
    postgres://ann:s3cret@db/x    becomes   postgres://ann:[redacted:url_password]@db/x

Forms are narrow on purpose: prose must come through unchanged, and so must hashes, ids and base64. Secrets without a
form (a name, an address, a confidential sentence) are not found here.
"""

from __future__ import annotations

import re
from functools import cache

from msgspec import Struct


class SecretForm(Struct, frozen=True):
    """The form of secrets of one kind.

    Attributes:
        kind: The kind, shown in their place as `[redacted:<kind>]`.
        pattern: The pattern that matches them.
        marks: Substrings in lower case, one of which every text with such a secret contains; empty to match all texts.
    """

    kind: str
    pattern: re.Pattern[str]
    marks: tuple[str, ...] = ()


def _row(kind: str, pattern: str, *marks: str) -> tuple[str, str, tuple[str, ...]]:
    return kind, pattern, marks


def _begin(start: str) -> str:
    r"""Return a pattern for the first letters of a key, at a place where a key can begin.

    A key cannot begin inside a word, except after an escape of JSON (`\n`), of a URL (`%3D`) or of a terminal's colour.
    The lookbehind follows the letters, so that the letters are searched for first, which is fast.
    """
    before = [r"(?<![A-Za-z0-9_-]%s)", r"(?<=\\[nrt]%s)", r"(?<=%%[0-9A-Fa-f]{2}%s)", r"(?<=[0-9;\[]m%s)"]
    literal = re.escape(start)
    return literal + "(?:" + "|".join(each % literal for each in before) + ")"


_NO_WORD = r"(?!(?i:none|null|true|false|undefined|string|str|required|optional|password|token|secret)\b)"
_BARE = r"[^\s\"'`\\,;&<>|(){}\[\]]"
_QUOTED = r"[^\s\"'`\\]"
_PLACEHOLDER = r"(?![$<%{*\[=])"
_OPTION = r"(?<!-)--[a-z-]{0,40}"  # bounded, or a line of dashes would be searched again from each of them
_SEPARATOR = r"\\*[\"']?(?:\s*(?:=>|:=|[:=])\s*"

_AUTHORIZATION = r"(?i:authorization)\\*[\"']?\s*[:=]\s*\\*[\"']?"
_PARAMETER = r"[A-Za-z][A-Za-z0-9_-]{0,40}\s?=\s?(?:\\*\"[^\"\\\r\n]{0,2000}\\*\"|[^\s,\"'\\]+)"

PASSWORD_NAME = r"(?i:passw(?:or)?d|passphrase|db[_-]?pass|(?<=;)pwd)"
"""The names of fields that hold a password; such a name may be the end of a longer one."""

SECRET_NAME = (
    r"(?i:api[_-]?key|(?:secret|access|private|signing|encryption|master|auth|account)[_-]?key|access[_-]?key[_-]?id"
    r"|token|secret)"
)
"""The names of fields that hold another secret; such a name may be the end of a longer one."""

_ENV_NAME = (
    r"(?:API_?KEY|(?:SECRET|ACCESS|PRIVATE|SIGNING|ENCRYPTION|MASTER|AUTH|ACCOUNT)_?KEY|KEY_ID|TOKEN|SECRET"
    r"|PASSW(?:OR)?D|PASSPHRASE|DB_PASS|PGPASS)"
)
_IS_RANDOM = rf"(?:(?={_QUOTED}{{0,200}}[0-9]){_QUOTED}{{8,}}|{_QUOTED}{{20,}})"
_KEY_MARKS = ("_key", "-key", *(f"{which}key" for which in ("api", "access", "private", "signing", "encryption")))
_NAME_MARKS = ("token", "secret", "authkey", "masterkey", "accountkey", *_KEY_MARKS)
_PASSWORD_MARKS = ("passw", "passphrase", "db_pass", "db-pass", "dbpass", ";pwd")

SECRET_VALUE = _PLACEHOLDER + _NO_WORD + _IS_RANDOM
"""The form of a value that counts as a secret if its key names one."""


_ROWS = (
    _row(
        "private_key",
        r"(?s)-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        "private key",
    ),
    _row("anthropic_key", r"sk-ant-[A-Za-z0-9_-]{12,}", "sk-ant-"),
    _row(
        "stripe_key", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9]{16,}", "k_live_", "k_test_", "whsec_"
    ),
    _row("openai_key", _begin("sk-") + r"(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{20,}", "sk-"),
    _row("github_token", r"gh[pousr]_[A-Za-z0-9]{30,}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _row("github_token", r"github_pat_[A-Za-z0-9_]{22,}", "github_pat_"),
    _row("gitlab_token", r"gl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,}", "glpat-", "gldt-", "glrt-"),
    _row("slack_token", r"xox[abeoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}", "xox", "xapp-"),
    _row("slack_webhook", r"hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{20,})", "hooks.slack.com"),
    _row("aws_access_key", _begin("AKIA") + r"[A-Z0-9]{16}(?![A-Za-z0-9])", "akia"),
    _row("aws_access_key", _begin("ASIA") + r"[A-Z0-9]{16}(?![A-Za-z0-9])", "asia"),
    # As AWS's own tools write and prompt for it, with spaces around the sign; elsewhere, such spaces suggest code.
    _row(
        "aws_secret_key",
        r"(?i:(?:secret[ _-]?access[ _-]?key|session[ _-]?token)(?: \[[^\]\n]{0,40}\])?\\*[\"']?"
        r"\s*(?:=>|:=|[:=])\s*\\*[\"']?"
        r"|aws_(?:secret_access_key|session_token)[ \t]+)"
        r"(?=[A-Za-z]{0,200}[0-9/+])(?P<secret>[A-Za-z0-9/+]{40,44}|[A-Za-z0-9/+_-]{100,}={0,2})"
        r"(?!\.?[A-Za-z0-9_/+(\[-])",
        "secret_access",
        "secretaccess",
        "secret access",
        "secret-access",
        "session_token",
        "sessiontoken",
        "session token",
        "session-token",
    ),
    _row("google_key", _begin("AIza") + r"[A-Za-z0-9_-]{35}", "aiza"),
    _row("google_token", _begin("ya29.") + r"[A-Za-z0-9_-]{20,}", "ya29."),
    _row("huggingface_token", _begin("hf_") + r"[A-Za-z0-9]{30,}", "hf_"),
    _row("npm_token", _begin("npm_") + r"[A-Za-z0-9]{36}", "npm_"),
    _row("pypi_token", r"pypi-AgEI[A-Za-z0-9_-]{30,}", "pypi-agei"),
    _row("sendgrid_key", _begin("SG.") + r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", "sg."),
    _row("telegram_token", r"(?<![A-Za-z0-9])(?:bot)?[0-9]{8,10}:AA[A-Za-z0-9_-]{33}", ":aa"),
    _row("jwt", _begin("eyJ") + r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*", "eyj"),
    _row(
        "authorization",
        _AUTHORIZATION + rf"(?i:digest|aws4-hmac-sha256|hawk|oauth)\s+(?P<secret>{_PARAMETER}(?:\s*,\s*{_PARAMETER})*)",
        "authorization",
    ),
    _row(
        "authorization",
        _AUTHORIZATION + r"(?:(?i:bearer|basic|token|bot|digest|apikey|negotiate)\s+"
        r"(?=[^\s\"']{0,200}[0-9A-Z=]|[a-z]{20})|(?!(?i:aws4-hmac-sha256)\b)(?=[^\s\"']{0,200}[0-9]))(?P<secret>[A-Za-z0-9._~+/:-]{8,}=*)",
        "authorization",
    ),
    _row("authorization", r"(?i:bearer)\s+(?=[A-Za-z._~+/-]{0,200}[0-9])(?P<secret>[A-Za-z0-9._~+/-]{8,}=*)", "bearer"),
    _row("cookie", r"(?i:cookie)\\*[\"']?\s*:\s*\\*[\"']?(?P<secret>[^\s\"'\\=;\[]{1,200}=[^\r\n\"'\\]{8,})", "cookie"),
    _row("url_password", r"://[^\s/:@\"'<>]*:(?!\[redacted)(?P<secret>[^\s/@\"'<>]+(?:@[^\s/@\"'<>\\]+)*)@", "://"),
    # A password with a slash looks like a port and a path, and does not occur in web addresses.
    _row(
        "url_password",
        r"(?<!http)(?<!https)(?<!ws)(?<!wss)(?<!ssh)(?<!file)://[^\s/:@\"'<>.]*:(?!\[redacted|[0-9]{1,5}[,/])"
        + _PLACEHOLDER
        + r"(?P<secret>[^\s/@\"'<>\\?]+/[^\s\"'<>\\?]{0,200})@(?=[\w\[])",
        "://",
    ),
    _row(
        "url_password", r"(?i:curl)\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']+:(?P<secret>[^\s\"'\[]+)", "curl"
    ),
    # As in an environment: the name marks it as a secret, whatever the value looks like.
    _row(
        "assignment",
        rf"{_ENV_NAME}=(?:{_PLACEHOLDER}{_NO_WORD}(?P<secret>{_QUOTED}{{4,}})|(?P<q>\\*[\"'])(?!\[redacted)"
        r"(?P<secret_2>[^\n]{4,2000}?)(?:(?P=q)|$))",
        "pass",
        *_NAME_MARKS,
    ),
    _row(
        "password",
        PASSWORD_NAME
        + _SEPARATOR
        + rf"(?P<q>\\*[\"']){_PLACEHOLDER}{_NO_WORD}(?P<secret>[^\n]{{4,2000}}?)(?:(?P=q)|$)"
        + rf"|(?:=|:[ \t]*){_PLACEHOLDER}{_NO_WORD}(?={_BARE}{{0,200}}[0-9])(?P<secret_2>{_BARE}{{6,}}))",
        *_PASSWORD_MARKS,
    ),
    _row(
        "password",
        _OPTION + rf"(?:password|passphrase)[ =]{_PLACEHOLDER}(?!-){_NO_WORD}[\"']?(?P<secret>{_QUOTED}{{4,}})",
        "--",
    ),
    _row(
        "secret",
        SECRET_NAME
        + _SEPARATOR
        + rf"(?P<q>\\*[\"']){_PLACEHOLDER}{_NO_WORD}(?P<secret>{_IS_RANDOM})(?:(?P=q)|$)"
        + rf"|(?:=|:[ \t]*){_PLACEHOLDER}{_NO_WORD}(?={_BARE}{{0,200}}[0-9])(?P<secret_2>{_BARE}{{8,}}))",
        *_NAME_MARKS,
    ),
    _row(
        "secret",
        _OPTION + rf"(?:token|secret|key)[ =]{_PLACEHOLDER}[\"']?(?P<secret>(?={_BARE}{{0,200}}[0-9]){_BARE}{{8,}})",
        "--",
    ),
)
"""The kinds, patterns and marks of all forms; those of particular services precede those that rely on field names."""


@cache
def secret_forms() -> tuple[SecretForm, ...]:
    """Return all forms; the first call compiles them, which takes a while."""
    return tuple(SecretForm(kind, re.compile(pattern), marks) for kind, pattern, marks in _ROWS)
