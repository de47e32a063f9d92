"""nanocoder: the file a session that it ships, and the folder a session that its design describes.

A file holds the whole session::

    {"id":"da85...","title":"Look at main","createdAt":"...","lastAccessedAt":"...","messageCount":4,"provider":"ollama",
     "model":"qwen3:8b","workingDirectory":"/work/project","messages":[{"role":"user","content":"Read main.go"},...]}

A message may have the model's `reasoning`, and `images`: `[{"data":"...","mediaType":"image/png"}]`.

A folder `session-<id>` holds metadata.json, messages.jsonl, tools.jsonl and summaries/. The index files beside them say
nothing that the sessions do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..content import JSON
from ..entries import EPOCH, NATIVE_VERSION, Header, KnownEntry, ModelChange, Provider, SessionInfo
from ..errors import ForeignFormatError, Where
from ..findings import Finding
from ..providers.reading import ANY_IMAGE
from ..wording import counted
from .base import ForeignSession
from .chain import Chain, derived_id
from .chat_messages import read_message
from .json_lines import Notes, beginning, document
from .nanocoder_folder import MESSAGES, METADATA, NAME, PREFIX, read_folder
from .values import Object, as_list, as_object, as_text, as_time

_LOOK = 4096
_CHAT = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "media"})
_OWN = frozenset({"reasoning", "images"})
_THOUGHTS = ("reasoning_content", "reasoning")


class NanocoderFormat:
    """Sessions of nanocoder."""

    name = NAME
    title = "nanocoder"

    def recognizes(self, path: Path, head: bytes) -> bool:
        """Tell whether this is a session of nanocoder: a file, or the folder of one."""
        if path.is_dir():
            return _is_folder(path)
        return _is_session(head) or _is_message(head)

    def read(self, path: Path) -> Iterator[ForeignSession]:
        """Read a file, or a session's folder; see `Format.read`."""
        return iter((_read(path),))


def _is_session(head: bytes) -> bool:
    return beginning(head).startswith(b"{") and all(
        f'"{key}"'.encode() in head for key in ("id", "createdAt", "lastAccessedAt", "workingDirectory")
    )


def _is_message(head: bytes) -> bool:
    line = head.partition(b"\n")[0]
    own = any(name in line for name in (b'"seq"', b'"tokens"', b'"tokenCount"'))
    return own and b'"parentId"' in line and b'"role"' in line


def _is_folder(path: Path) -> bool:
    """Tell whether a folder is a session: by its name and its files, or by what these say."""
    there = [name for name in (MESSAGES, METADATA) if (path / name).is_file()]
    if path.name.startswith(PREFIX):
        return bool(there)
    if MESSAGES in there:
        return _is_message(_head(path / MESSAGES))
    return METADATA in there and all(name in _head(path / METADATA) for name in (b'"project', b'"messageCount"'))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LOOK)


def _read(path: Path) -> ForeignSession:
    if path.is_dir():
        return read_folder(path)
    if path.name in (MESSAGES, METADATA):
        return read_folder(path.parent)
    value = document(path)
    if isinstance(value, list):
        raise ForeignFormatError(
            "this lists sessions and holds none: import the files beside it", where=Where(str(path))
        )
    given = as_object(value)
    if not isinstance(given.get("messages"), list):
        raise ForeignFormatError("this is no session of nanocoder: it has no messages", where=Where(str(path)))
    session = as_text(given.get("id")) or derived_id(NAME, path.stem)
    created = as_time(given.get("createdAt")) or as_time(given.get("lastAccessedAt")) or EPOCH
    header = Header(
        id=session,
        version=NATIVE_VERSION,
        timestamp=created,
        cwd=as_text(given.get("workingDirectory")) or None,
        title=as_text(given.get("title")) or None,
    )
    findings: list[Finding] = []
    return ForeignSession(header=header, entries=_entries(given, header, Notes(path, findings)), findings=findings)


def _usual(given: Object, left_out: Counter[str]) -> Object:
    """Return a message as chat completions have it: thinking and images under their names; count what has no place."""
    left_out.update(name for name, value in given.items() if value is not None and name not in _CHAT | _OWN)
    usual: Object = {name: value for name, value in given.items() if name in _CHAT}
    thoughts = [thought for name in _THOUGHTS if (thought := as_text(given.get(name)))]
    usual["reasoning_content"] = thoughts[0] if thoughts else None
    left_out["reasoning"] += len({*thoughts}) > 1
    images = as_list(given.get("images"))
    shown: list[JSON] = [address for each in images if (address := _address(as_object(each)))]
    left_out["images"] += len(shown) < len(images)
    if shown:
        usual["media"] = [*as_list(given.get("media")), *shown]
        if given.get("content") == "":  # an image needs no empty text before it
            del usual["content"]
    return usual


def _address(image: Object) -> str:
    """Return an image as an address that holds it; "" where there is none."""
    data, media_type = as_text(image.get("data")), as_text(image.get("mediaType"))
    return f"data:{media_type or ANY_IMAGE};base64,{data}" if data else ""


def _entries(given: Object, header: Header, notes: Notes) -> Iterator[KnownEntry]:
    chain = Chain(NAME, header.id, header.timestamp)
    left_out: Counter[str] = Counter()
    for position, each_message in enumerate(as_list(given.get("messages"))):
        message = read_message(_usual(as_object(each_message), left_out))
        if message is None:
            notes.add("damaged", "error", f"messages[{position}] has no role, or answers no call: it is left out")
            continue
        yield chain.add(message)
    provider, model = as_text(given.get("provider")), as_text(given.get("model"))
    if provider and model:
        yield chain.describe(ModelChange(provider, model))
    title = header.title if given.get("titleManuallySet") is True else None
    if title or provider:
        yield chain.describe(SessionInfo(name=title, provider=Provider(provider, model) if provider else None))
    for name, count in sorted(left_out.items()):
        if count:
            what = f"{name!r} of {counted(count, 'message')} left out: a message here has no such field"
            notes.add("part_left_out", "warning", what)
