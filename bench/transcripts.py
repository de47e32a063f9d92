"""Synthetic Claude Code transcripts: deterministic for a given size, and shaped like real ones.

A turn is a prompt and some rounds of work. A round is an answer in three lines (thinking with its signature, text, a
call), a progress report, and the result, which appears twice in its line, as it does in real transcripts. Most lines
have 1 to 3 KB; one result in twenty is a file of 40 KB.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

_WORDS = ("session", "log", "keeps", "every", "entry", "of", "the", "tree", "and", "nobody", "rewrites", "what", "was")
_CODE = (
    'def load(path: str) -> bytes:\n    """Read a file."""\n'
    '    with open(path, "rb") as file:\n        return file.read()\n'
)


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.parent: str | None = None
        self.session = self.new_id()
        self.seconds = 0
        self.lines: list[bytes] = []
        self.size = 0

    def new_id(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def prose(self, size: int) -> str:
        words = self.random.choices(_WORDS, k=size // 6)
        return " ".join(words)

    def add(self, kind: str, *, follows: bool = True, **fields: object) -> str:
        own = self.new_id()
        self.seconds += 1
        line = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/user/work/project",
            "sessionId": self.session,
            "version": "2.1.12",
            "gitBranch": "main",
            "type": kind,
            **fields,
            "uuid": own,
            "timestamp": f"2026-01-{1 + self.seconds // 86400 % 28:02}T{self.seconds // 3600 % 24:02}:"
            f"{self.seconds // 60 % 60:02}:{self.seconds % 60:02}.000Z",
        }
        data = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self.lines.append(data)
        self.size += len(data)
        if follows:
            self.parent = own
        return own

    def turn(self) -> None:
        self.add("user", message={"role": "user", "content": self.prose(400)})
        for _ in range(self.random.randint(2, 12)):
            self.round()

    def round(self) -> None:
        message, call = f"msg_01{self.random.getrandbits(96):024x}", f"toolu_01{self.random.getrandbits(96):024x}"
        signature = base64.b64encode(self.random.randbytes(500)).decode()
        parts: list[dict[str, Any]] = [
            {"type": "thinking", "thinking": self.prose(800), "signature": signature},
            {"type": "text", "text": self.prose(700)},
            {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": f"/home/user/{self.prose(600)}"}},
        ]
        for part in parts:
            usage = {"input_tokens": 9, "cache_creation_input_tokens": 512, "cache_read_input_tokens": 40_000}
            tokens = {**usage, "output_tokens": 300, "service_tier": "standard"}
            envelope = {"model": "claude-opus-4-5", "id": message, "type": "message", "role": "assistant"}
            body = {**envelope, "content": [part], "stop_reason": None, "stop_sequence": None, "usage": tokens}
            self.add("assistant", message=body, requestId=f"req_{message[4:]}")
        report = {"type": "hook_progress", "hookEvent": "PostToolUse", "command": self.prose(200)}
        self.add("progress", follows=False, data=report, toolUseID=call, parentToolUseID=call)
        size = 40_000 if self.random.random() < 0.05 else self.random.randint(200, 2_000)
        text = _CODE * (size // len(_CODE) + 1)
        part = {"tool_use_id": call, "type": "tool_result", "content": text}
        shown = {
            "type": "text",
            "file": {"filePath": "/home/user/work/project/load.py", "content": text, "numLines": 9},
        }
        self.add("user", message={"role": "user", "content": [part]}, toolUseResult=shown)


def write_transcript(path: Path, size: int) -> int:
    """Write a transcript of at least `size` bytes and return its actual size."""
    writer = _Writer(Random(1))
    while writer.size < size:
        writer.turn()
    path.write_bytes(b"".join(writer.lines))
    return writer.size
