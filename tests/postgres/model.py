"""A model of the database for the simulation: what each statement of the store does, at once, by the server's clock.

It also keeps the truth: who may write a log, and what was written by whom. A statement that breaks a rule is noticed
when it is carried out, whatever its own conditions say.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import anyio
from msgspec import Struct

from treering.stores.postgres.statements import Statements

Row: TypeAlias = tuple[object, ...]
Wanted: TypeAlias = Mapping[str, Any]

Fault: TypeAlias = Literal["unfenced", "own clock"]
"""What can be planted: appends without a look at owner and epoch; leases that are judged by the clock of who asks."""


class Log(Struct):
    """The row of a log, and its lines.

    Attributes:
        writer: The truth about who may write it: the host that acquired it last, until it released it.
    """

    owner: str | None
    epoch: int
    history: int | None = None
    head: int = 0
    header: bytes | None = None
    lines: list[bytes] = []
    writer: str | None = None


class Database:
    """The tables, and the statements that the library sends.

    Args:
        fault: A fault to plant, if any.

    Attributes:
        logs: The logs.
        broken: The rules that were broken.
        taken: How often a log was taken from a host whose lease had ended.
        fenced: How many appends were refused.
        statements: How many statements were carried out.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        self.logs: dict[str, Log] = {}
        self.taken = self.fenced = self.statements = 0
        self.broken: list[str] = []
        self._fault = fault
        self._hosts: dict[str, tuple[str, float]] = {}
        self._beside: dict[tuple[str, str], tuple[int, int, bytes]] = {}
        self._last = 0
        statements = Statements("treering")
        self.names = statements.names
        self._own_clock = 0.0

    def execute(self, query: object, wanted: Wanted, wrong_by_s: float) -> list[Row]:
        """Carry out a statement for a host whose clock is wrong by so much, and return its rows."""
        self.statements += 1
        run: Callable[[Wanted], list[Row]] = getattr(self, f"_{self.names[query]}")
        self._own_clock = anyio.current_time() + wrong_by_s
        return run(wanted)

    def _next(self) -> int:
        self._last += 1
        return self._last

    def _lives(self, owner: str | None) -> bool:
        now = self._own_clock if self._fault == "own clock" else anyio.current_time()
        return owner in self._hosts and self._hosts[owner][1] > now

    def _mine(self, wanted: Wanted) -> Log | None:
        """Return the log if the host may write it, by the conditions of the statements."""
        log = self.logs.get(wanted["ref"])
        return log if log is not None and (log.owner, log.epoch) == (wanted["owner"], wanted["epoch"]) else None

    # -- owning

    def _renew(self, wanted: Wanted) -> list[Row]:
        self._hosts[wanted["owner"]] = (wanted["name"], anyio.current_time() + wanted["lease_s"])
        mine: list[Row] = [(False, ref, log.epoch) for ref, log in self.logs.items() if log.owner == wanted["owner"]]
        return mine or [(False, None, None)]

    def _acquire(self, wanted: Wanted) -> list[Row]:
        owner, now = wanted["owner"], anyio.current_time()
        if self._hosts.get(owner, ("", 0))[1] < now + wanted["lease_s"] / 2:
            self._hosts[owner] = (wanted["name"], now + wanted["lease_s"])
        rows: list[Row] = []
        for ref in wanted["refs"]:
            log = self.logs.setdefault(ref, Log(None, 0))
            if log.owner in (None, owner) or not self._lives(log.owner):
                before = log.writer
                if before not in (None, owner) and before in self._hosts and self._hosts[before][1] > now:
                    self.broken.append(f"{ref} was taken from a host whose lease goes on")
                self.taken += before not in (None, owner)
                log.owner, log.writer, log.epoch = owner, owner, self._next()
                rows.append((ref, log.epoch, log.history, log.head, log.header, False))  # its lines are in no object
        return rows

    def _holders(self, wanted: Wanted) -> list[Row]:
        return [
            (ref, *self._host(log.owner)[:1], None, self._host(log.owner)[1])
            for ref in wanted["refs"]
            if (log := self.logs.get(ref)) is not None and self._lives(log.owner)
        ]

    def _host(self, owner: str | None) -> tuple[str, float]:
        name, until = self._hosts[owner or ""]
        return name, until - anyio.current_time()

    def _end_unfinished(self, _: Wanted) -> list[Row]:
        return []  # every statement is carried out at once

    def _release(self, wanted: Wanted) -> list[Row]:
        for ref, epoch in zip(wanted["refs"], wanted["epochs"], strict=True):
            log = self._mine({"ref": ref, "epoch": epoch, "owner": wanted["owner"]})
            if log is not None:
                self._let_go(ref, log)
        return []

    def _leave(self, wanted: Wanted) -> list[Row]:
        self._hosts.pop(wanted["owner"], None)
        for ref, log in list(self.logs.items()):
            if log.owner == wanted["owner"]:
                self._let_go(ref, log)
        return []

    def _let_go(self, ref: str, log: Log) -> None:
        if log.header is None:
            del self.logs[ref]
        log.owner = log.writer = None

    def _fence(self, wanted: Wanted) -> list[Row]:
        log = self._mine(wanted)
        if log is None:
            return []
        log.epoch = self._next()
        return [(log.epoch, log.history, log.head, log.header is not None)]

    def _state(self, wanted: Wanted) -> list[Row]:
        found = [(ref, self.logs[ref]) for ref in wanted["refs"] if ref in self.logs]
        return [(ref, log.epoch, log.history, log.head, log.header is not None, log.owner) for ref, log in found]

    # -- writing

    def _append(self, wanted: Wanted) -> list[Row]:
        rows: list[Row] = []
        columns = [wanted[each] for each in ("refs", "epochs", "histories", "heads", "headers")]
        for n, (ref, epoch, history, head, header) in enumerate(zip(*columns, strict=True), 1):
            lines = [line for of, line in zip(wanted["of"], wanted["lines"], strict=True) if of == n]
            log = self.logs.get(ref)
            is_mine = log is not None and (
                self._fault == "unfenced" or (log.owner, log.epoch) == (wanted["owner"], epoch)
            )
            if log is None or not is_mine or log.head != head or (header is None) != (log.header is not None):
                self.fenced += 1
                continue
            if header is None and log.history != history:
                self.fenced += 1
                continue
            if log.writer != wanted["owner"]:
                self.broken.append(f"{ref} was written by a host from which it had been taken, at {head}")
            if header is not None:
                log.header, log.history = header, self._next()
            log.lines += lines
            log.head += len(lines)
            rows.append((n, log.history, log.head))
        return rows

    def _save(self, wanted: Wanted) -> list[Row]:
        log = self._mine(wanted)
        if log is None or log.history != wanted["history"] or log.head < wanted["seq"]:
            return []
        self._beside[wanted["ref"], wanted["kind"]] = (log.history or 0, wanted["seq"], wanted["data"])
        return [(1,)]

    # -- reading

    def _open(self, wanted: Wanted) -> list[Row]:
        log = self.logs.get(wanted["ref"])
        return [] if log is None or log.header is None else [(log.history, log.head, log.header, None, None, None)]

    def _read(self, wanted: Wanted) -> list[Row]:
        log = self.logs.get(wanted["ref"])
        if log is None or log.header is None:
            return []
        is_same = log.history == wanted["history"]
        lines: list[bytes | None] = [*log.lines[wanted["after"] : wanted["through"]]] if is_same else []
        return [(log.history, None, log.head, line) for line in lines or [None]]

    def _bodies(self, wanted: Wanted) -> list[Row]:
        log = self.logs.get(wanted["ref"])
        if log is None or log.header is None:
            return []
        is_same = log.history == wanted["history"]
        found = [(seq, log.lines[seq - 1]) for seq in wanted["seqs"] if is_same and seq <= log.head]
        return [(log.history, None, *each) for each in found or [(None, None)]]

    def _load(self, wanted: Wanted) -> list[Row]:
        log, found = self.logs.get(wanted["ref"]), self._beside.get((wanted["ref"], wanted["kind"]))
        return [] if log is None or found is None or found[0] != log.history else [found]

    def _exist(self, wanted: Wanted) -> list[Row]:
        return [(ref,) for ref in wanted["refs"] if self._open({"ref": ref})]

    # -- the same of several logs

    def _read_each(self, wanted: Wanted) -> list[Row]:
        return self._of_each(self._read, ref="refs", history="histories", after="afters", through="throughs", of=wanted)

    def _load_each(self, wanted: Wanted) -> list[Row]:
        return self._of_each(self._load, ref="refs", kind="kinds", of=wanted)

    @staticmethod
    def _of_each(ask: Callable[[Wanted], list[Row]], *, of: Wanted, **columns: str) -> list[Row]:
        each = zip(*(of[column] for column in columns.values()), strict=True)
        return [(n, *row) for n, values in enumerate(each, 1) for row in ask(dict(zip(columns, values, strict=True)))]

    def _page(self, wanted: Wanted) -> list[Row]:
        return []
