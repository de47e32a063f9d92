"""Tokens: random words by which a server knows who asks, of which it keeps a hash alone.

A token is `tr_ID_SECRET`. The file that keeps the hashes is read again whenever it changes, so a token that is made or
revoked while a server runs counts at once. Secrets are compared in constant time.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct
from starlette.requests import HTTPConnection

from ..events.disk.atomic_files import write_atomically
from ..events.disk.disk import Disk
from ..events.errors import InvalidInput
from .principals import Principal, Role

TOKEN = re.compile(r"tr_([0-9a-f]{12})_([0-9A-Za-z_-]{43})")
_COOKIE_VALUE = re.compile(r"[!#-+\--:<-\[\]-~]+")
_ONCE = timedelta(minutes=10)
_GIVEN_CHARS_MIN = 16


def now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


class StoredToken(Struct, frozen=True, omit_defaults=True):
    """What a server keeps of a token.

    Attributes:
        id: Its public part, which names its owner in logs.
        hash: The SHA-256 of its secret part, in hex.
        role: What its owner may do.
        prefix: The keys within which the role holds; None for all sessions.
        created: When it was made.
        expires: When it ends.
        once: Whether it only serves to get a cookie, once.
        signed_in: Whether it was got so: it is the cookie of a browser.
    """

    id: str
    hash: str
    role: Role
    created: datetime
    prefix: str | None = None
    expires: datetime | None = None
    once: bool = False
    signed_in: bool = False

    @property
    def closes(self) -> bool:
        """Whether requests need a token because of this one."""
        return not (self.once or self.signed_in)

    def principal(self) -> Principal:
        """Return whoever has this token."""
        return Principal(name=self.id, role=self.role, prefix=self.prefix, expires=self.expires, token=self.id)


class Tokens:
    """The tokens of a root.

    Args:
        path: The file that keeps them, which only its owner may read.
        disk: The disk that it is on.
        given: Tokens of the program's own, of any form, which may do everything.
        clock: Returns the time.
    """

    def __init__(
        self, path: Path, disk: Disk, *, given: Sequence[str] = (), clock: Callable[[], datetime] = now
    ) -> None:
        if not all(len(each) >= _GIVEN_CHARS_MIN for each in given):
            raise InvalidInput(f"a token of one's own has at least {_GIVEN_CHARS_MIN} characters: give a longer one")
        self._given = [_hash(each) for each in given]
        self._path = path
        self._disk = disk
        self._clock = clock
        self._stamp: tuple[int, int] | None = None
        self._by_id: dict[str, StoredToken] = {}

    def create(
        self,
        role: Role,
        *,
        prefix: str | None = None,
        expires: datetime | None = None,
        once: bool = False,
        signed_in: bool = False,
    ) -> str:
        """Make a token and return it; nothing keeps its secret.

        Args:
            role: What its owner may do.
            prefix: The keys within which the role holds, ending with ":"; None for all sessions.
            expires: When it ends; by default never, and within ten minutes if it serves once.
            once: Whether it only serves to get a cookie, once.
            signed_in: Whether it is the cookie of a browser.

        Raises:
            InvalidInput: The prefix does not end with ":", or the token would have ended already.
            OSError: The file cannot be written.
        """
        created = self._clock()
        if once and expires is None:
            expires = created + _ONCE
        if expires is not None and expires <= created:
            raise InvalidInput(f"a token that expires at {expires.isoformat()} has expired: give a time to come")
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        token = StoredToken(token_id, _hash(secret), role, created, prefix, expires, once, signed_in)
        token.principal()  # refuses a prefix that covers more than it says
        with self._changing():
            self._save([*self.all(), token])
        return f"tr_{token_id}_{secret}"

    def revoke(self, token_id: str) -> bool:
        """End a token now; return whether there was one with this id."""
        with self._changing():
            tokens = self.all()
            left = [each for each in tokens if each.id != token_id]
            if len(left) < len(tokens):
                self._save(left)
        return len(left) < len(tokens)

    def all(self) -> list[StoredToken]:
        """Return what is kept of all tokens, those that have expired included."""
        self._refresh()
        return list(self._by_id.values())

    def any(self) -> bool:
        """Return whether there are tokens, beside those of links and browsers, so that requests need one."""
        self._refresh()
        return bool(self._given) or any(each.closes for each in self._by_id.values())

    def present(self) -> datetime:
        """Return the time by which tokens expire."""
        return self._clock()

    def has(self, token_id: str) -> bool:
        """Return whether there is a token with this id, which was not revoked."""
        self._refresh()
        return token_id in self._by_id

    def find(self, text: str) -> Principal | None:
        """Return who has a token, or None if it is wrong, has expired or serves once."""
        token = self._token(text)
        if token is not None:
            return None if token.once else token.principal()
        hashed = _hash(text)
        is_given = [hmac.compare_digest(hashed, each) for each in self._given]
        return Principal(name="given", role="admin") if any(is_given) else None

    def spend(self, text: str) -> str | None:
        """Return the cookie for a token; None if the token is not valid.

        For one that serves once, that is another one of the same rights that lasts a day. Any other is its own cookie,
        so that it counts no longer than its token; None as well if it has characters that a cookie cannot hold.
        """
        token = self._token(text)
        if token is None or not token.once:
            return text if self.find(text) is not None and _COOKIE_VALUE.fullmatch(text) else None
        if not self.revoke(token.id):
            return None
        expires = self._clock() + timedelta(days=1)
        return self.create(token.role, prefix=token.prefix, expires=expires, signed_in=True)

    def sign_out(self, cookie: str) -> None:
        """End what a browser got for a link; a token that is its own cookie stays."""
        token = self._token(cookie)
        if token is not None and token.signed_in:
            self.revoke(token.id)

    def _token(self, text: str) -> StoredToken | None:
        match = TOKEN.fullmatch(text)
        if match is None:
            return None
        self._refresh()
        token = self._by_id.get(match[1])
        is_right = hmac.compare_digest(_hash(match[2]), token.hash if token is not None else _hash(""))
        if token is None or not is_right or (token.expires is not None and token.expires <= self._clock()):
            return None
        return token

    def _refresh(self) -> None:
        """Read the file again if it changed."""
        try:
            stat = os.stat(self._path)
        except FileNotFoundError:
            self._stamp, self._by_id = None, {}
            return
        stamp = stat.st_mtime_ns, stat.st_ino
        if stamp != self._stamp:
            tokens = msgspec.json.decode(self._path.read_bytes(), type=list[StoredToken])
            self._by_id, self._stamp = {each.id: each for each in tokens}, stamp  # in this order for other threads

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Keep other processes from changing the file meanwhile."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(f"{self._path}.lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _save(self, tokens: list[StoredToken]) -> None:
        """Keep those that have not expired, and one that has rather than open a closed server to everybody."""
        live = [each for each in tokens if each.expires is None or each.expires > self._clock()]
        if not any(each.closes for each in live):
            live += [each for each in tokens if each.closes][-1:]
        write_atomically(self._disk, str(self._path), [msgspec.json.format(msgspec.json.encode(live))], sync=True)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def token_of(request: HTTPConnection) -> str | None:
    """Return the token that a request carries in its Authorization header, or else in its cookie."""
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, token = header.partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None
    return request.cookies.get(cookie_name(request))


def carries_cookie(request: HTTPConnection) -> bool:
    """Return whether a request says by a cookie who sends it, which a browser adds by itself."""
    return "authorization" not in request.headers and cookie_name(request) in request.cookies


def cookie_name(request: HTTPConnection) -> str:
    """Return the name of the cookie, which tells servers on different ports of a host apart, as browsers do not."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"treering_token_{port}" if port.isdigit() else "treering_token"
