"""A storage of checkpoints: those of a workflow are entries of one session, each below the one that it came after."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from msgspec import Raw

from ...actors.host.host import SessionHost
from ...actors.session.session import Session
from ...events.entries import Custom, CustomEntry
from ...events.errors import EntryNotFound
from ...events.json_values import raw_object
from ..hosting import Hosting, HostOrRoot
from ..session_index import CustomIndex, SessionIndexes, append_and_let_go
from ..versions import AGENT_FRAMEWORK

try:
    from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException
    from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value
except ImportError as error:
    raise AGENT_FRAMEWORK.missing(error, "checkpoints need Microsoft's Agent Framework") from error

CHECKPOINT = "agent_framework.checkpoint"
DELETED = "agent_framework.deleted"
"""The types of the custom entries: a checkpoint, and the id of one that is deleted."""

_PREFIX = "workflow:"


class TreeringCheckpointStorage:
    """A checkpoint storage whose workflows are sessions of a host, with the keys "workflow:name".

    A deleted checkpoint is shown no more; its bytes stay in the session, which others stand below. It may be used in
    any event loop, by any number of workflows.

    Args:
        host: An open host, or a root: a directory or a URL. Objects with the same root share one host.
        allowed_checkpoint_types: The types beyond the framework's that checkpoints may be made of, such as
            "my_app.models:MyState".

    Raises:
        InvalidInput: The host is none.
    """

    def __init__(self, host: HostOrRoot, *, allowed_checkpoint_types: Iterable[str] = ()) -> None:
        self._hosting = Hosting(host)
        self._allowed = frozenset(allowed_checkpoint_types)
        self._workflows = SessionIndexes(_Workflow, shared=True)
        self._keys: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"TreeringCheckpointStorage({self._hosting!r})"

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Store a checkpoint, and return its id; it takes the place of one with the same id.

        Raises:
            WorkflowCheckpointException: It cannot be encoded, or be decoded with the types that are allowed.
            TreeringError: The write failed; see `Session.append`.
        """
        encoded = self._encoded(checkpoint)
        return await self._hosting.run(lambda host: self._save(host, checkpoint, encoded))

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint.

        Raises:
            WorkflowCheckpointException: There is none with this id, or it cannot be decoded with the types that are
                allowed.
        """

        async def read(host: SessionHost) -> object:
            workflow = await self._of(host, checkpoint_id)
            return None if workflow is None else await workflow.data(workflow.checkpoints[checkpoint_id])

        data = await self._hosting.run(read)
        if data is None:
            raise WorkflowCheckpointException(f"there is no checkpoint {checkpoint_id!r}")
        return self._decoded(data)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of a workflow in the order in which they were stored."""

        async def read(host: SessionHost) -> list[object]:
            workflow = await self._workflows.of(host, _key(workflow_name))
            return [] if workflow is None else [await workflow.data(each) for each in [*workflow.checkpoints.values()]]

        return [self._decoded(each) for each in await self._hosting.run(read)]

    async def delete(self, checkpoint_id: str) -> bool:
        """Delete a checkpoint, and return whether there was one.

        Raises:
            TreeringError: The write failed; see `Session.append`.
        """

        async def run(host: SessionHost) -> bool:
            workflow = await self._of(host, checkpoint_id)
            if workflow is None:
                return False
            async with workflow.lock:
                await workflow.refresh()
                stored = workflow.checkpoints.get(checkpoint_id)
                if stored is not None:
                    await workflow.append(Custom(DELETED, raw_object({"id": checkpoint_id}, "the id")), stored.entry_id)
                return stored is not None

        return await self._hosting.run(run)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the latest checkpoint of a workflow by its time, or None if there is none."""

        async def read(host: SessionHost) -> object:
            workflow = await self._workflows.of(host, _key(workflow_name))
            if workflow is None or not workflow.checkpoints:
                return None
            return await workflow.data(max(workflow.checkpoints.values(), key=lambda each: each.time))

        data = await self._hosting.run(read)
        return None if data is None else self._decoded(data)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of a workflow's checkpoints in the order in which they were stored."""

        async def read(host: SessionHost) -> list[str]:
            workflow = await self._workflows.of(host, _key(workflow_name))
            return [] if workflow is None else list(workflow.checkpoints)

        return await self._hosting.run(read)

    # -- on the host's loop

    async def _save(self, host: SessionHost, checkpoint: WorkflowCheckpoint, encoded: Raw) -> str:
        checkpoint_id, key = str(checkpoint.checkpoint_id), _key(checkpoint.workflow_name)
        workflow = await self._workflows.made(host, key)
        async with workflow.lock:
            await workflow.refresh()
            above = workflow.entry_ids.get(checkpoint.previous_checkpoint_id or "")
            await workflow.append(Custom(CHECKPOINT, encoded), above)
        self._keys[checkpoint_id] = key
        return checkpoint_id

    async def _of(self, host: SessionHost, checkpoint_id: str) -> _Workflow | None:
        """Return the workflow that has a checkpoint."""
        known = self._keys.get(checkpoint_id)
        keys = [known] if known is not None else await _keys_of(host)
        for key in keys:
            workflow = await self._workflows.of(host, key)
            if workflow is not None and checkpoint_id in workflow.checkpoints:
                self._keys[checkpoint_id] = key
                return workflow
        self._keys.pop(checkpoint_id, None)
        return None

    def _encoded(self, checkpoint: WorkflowCheckpoint) -> Raw:
        try:
            encoded = encode_checkpoint_value(checkpoint.to_dict())
            decode_checkpoint_value(encoded, allowed_types=self._allowed)
        except WorkflowCheckpointException:
            raise
        except Exception as error:  # values of any type may raise anything while they are pickled
            raise WorkflowCheckpointException(
                f"checkpoint {checkpoint.checkpoint_id!r} cannot be stored: {error}"
            ) from error
        return raw_object(encoded, "a checkpoint")

    def _decoded(self, data: object) -> WorkflowCheckpoint:
        return WorkflowCheckpoint.from_dict(decode_checkpoint_value(data, allowed_types=self._allowed))


class StoredCheckpoint(NamedTuple):
    """Where a checkpoint is stored, and its own time."""

    entry_id: str
    time: datetime


class _Workflow(CustomIndex):
    """The checkpoints of a session by their ids, and the entries of all that there were."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.checkpoints: dict[str, StoredCheckpoint] = {}
        self.entry_ids: dict[str, str] = {}

    async def append(self, payload: Custom, below: str | None) -> None:
        """Append an entry below another one, or as a root."""
        self._note(await append_and_let_go(self.session, payload, below=below), payload)

    async def data(self, stored: StoredCheckpoint) -> Any:  # noqa: ANN401  # of whatever a workflow keeps
        """Return what is stored of a checkpoint, which may have been deleted meanwhile.

        Raises:
            EntryNotFound: Its entry is gone.
        """
        entry = await self.session.entry(stored.entry_id)
        if not isinstance(entry, CustomEntry):
            raise EntryNotFound(stored.entry_id)
        return entry.custom.data

    def _note(self, entry_id: str, custom: Custom) -> None:
        data = custom.data
        if not isinstance(data, dict):
            return
        if custom.custom_type == CHECKPOINT:
            checkpoint_id = str(data["checkpoint_id"])
            self.checkpoints.pop(checkpoint_id, None)  # a later one with this id takes its place
            self.entry_ids[checkpoint_id] = entry_id
            self.checkpoints[checkpoint_id] = StoredCheckpoint(entry_id, _time(str(data["timestamp"])))
        elif custom.custom_type == DELETED:
            self.checkpoints.pop(str(data["id"]), None)


def _key(workflow_name: str) -> str:
    return _PREFIX + quote(workflow_name, safe="")


async def _keys_of(host: SessionHost) -> list[str]:
    rows = await host.list_sessions(status="any")
    return [row.key for row in rows if row.key is not None and row.key.startswith(_PREFIX)]


def _time(written: str) -> datetime:
    time = datetime.fromisoformat(written)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
