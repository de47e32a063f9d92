"""Random steps of a session, and a replica of its context that follows them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress

from treering import Changed, Context, InvalidInput, Session, Snapshot, message
from treering.entries import CustomMessage, Label, ModelChange, Payload, ThinkingLevel
from treering.projections import context_changes
from treering.subscriptions import ContextChange


def payload(chance: random.Random, number: int) -> Payload:
    """Draw a payload that needs no other entry."""
    drawn: Sequence[Payload] = (
        message("user", f"question {number}"),
        message("assistant", f"answer {number}", model="m", provider=chance.choice(["one", "other"])),
        message("system", f"rule {number}"),
        CustomMessage("extension", ()),
        ModelChange("one", f"model {number}"),
        ThinkingLevel(chance.choice(["low", "high"])),
    )
    return chance.choice(drawn)


async def step(session: Session, chance: random.Random, number: int) -> None:
    """Perform one random operation on a session; a refused operation changes nothing."""
    entries = [node.id for node in session.tree().nodes]
    path = session.path()
    below = chance.choice(entries) if entries else None
    with suppress(InvalidInput):
        match chance.randrange(12):
            case 0 if entries:
                await session.branch(chance.choice(entries))
            case 1:
                await session.reset_leaf()
            case 2 if path:
                await session.append_compaction(f"summary {number}", chance.choice([None, *path]), 100)
            case 3 if entries:
                await session.set_label(chance.choice(entries), chance.choice([None, "one", "other"]))
            case 4 if path:
                await session.append_context_edit(chance.choice(path), chance.choice([None, f"edited {number}"]))
            case 5 if path:
                await session.branch_with_summary(below, f"left at {number}")
            case 6 if entries:
                await session.append(payload(chance, number), below=below, aside=True)
            case 7:
                named = [Label(chance.choice(entries), "batch")] if entries else []
                await session.append_many([payload(chance, number), *named, payload(chance, number)])
            case 8:
                await session.append_session_info(name=f"title {number}")
            case 9 if number % 3 == 0:
                await session.passivate()
            case _:
                await session.append(payload(chance, number))


class ContextReplica:
    """A context that is maintained from the changes of the view."""

    def __init__(self) -> None:
        self.value: Context | None = None

    def take(self, item: Snapshot[Context] | Changed[ContextChange]) -> Context:
        if isinstance(item, Snapshot):
            self.value = item.value
        else:
            assert self.value is not None
            self.value = context_changes.apply_change(self.value, item.change)
        return self.value
