"""Checkpoints for LangGraph.

    from treering.adapters.langgraph import TreeringSaver

    graph = builder.compile(checkpointer=TreeringSaver("~/sessions"))
    await graph.ainvoke({"messages": [("user", "Hello")]}, {"configurable": {"thread_id": "support-42"}})

A thread is a session, which its id names as a key. A checkpoint costs what it changed, so a thread grows with what
happened in it and not with the square of that; going back to an old checkpoint makes a branch. It needs the extra
`langgraph`.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, cast, get_args

from ..actors.host.host import SessionHost
from ..events.arguments import check_word
from ..events.errors import InvalidInput
from ..formats.langgraph.records import Written
from .checkpoints import CheckpointRow, Thread
from .hosting import Hosting, HostOrRoot
from .session_index import SessionIndexes
from .versions import LANGGRAPH

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_metadata,
        writes_sort_key,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ImportError as error:
    raise LANGGRAPH.missing(error, "checkpoints for it need LangGraph") from error

LANGGRAPH.check()

__all__ = ["TreeringSaver"]

Pruning: TypeAlias = Literal["keep_latest", "delete"]
"""What is left of a thread: its latest checkpoints, or nothing."""


class TreeringSaver(BaseCheckpointSaver[Any]):  # versions are int or str, which its variable takes one of
    """A checkpointer whose threads are sessions.

    Both faces may be used at once, from any loop and any thread; the blocking one not from the event loop of a host
    that was passed in. Checkpoints that are deleted or pruned are shown no more; their bytes stay in the session, which
    others are made of, until the thread is deleted.

    Args:
        host: An open host, or a root: a directory or a URL. Objects with the same root share one host.
        serde: LangGraph's serializer of values, if it is another one.

    Raises:
        InvalidInput: The host is none.
    """

    def __init__(self, host: HostOrRoot, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._hosting = Hosting(host)
        self._threads = SessionIndexes(lambda session: Thread(session, self.serde))

    def get_next_version(self, current: int | str | None, channel: None) -> int | str:
        """Return the version after another one: in words if that is one, as where LangGraph's savers began a thread."""
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{0.0:016}"
        return (current or 0) + 1

    # -- the asynchronous face

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint, by default the latest of the thread, with the writes that wait; None if there is none.

        Args:
            config: Names the thread, and perhaps a namespace and a checkpoint.
        """
        return await self._hosting.run(lambda host: self._get(host, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, the latest first.

        Args:
            config: Names the thread, and perhaps a namespace and a checkpoint; None for all threads.
            filter: What their metadata has to hold.
            before: Only those before this checkpoint.
            limit: The most that are yielded.
        """
        for thread_id, row in await self._hosting.run(lambda host: self._found(host, config, filter, before, limit)):
            each = await self._hosting.run(partial(self._still, thread_id=thread_id, row=row))
            if each is not None:
                yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint below the one that the config names, and return the config that names the new one.

        Args:
            config: Names the thread, the namespace and the parent.
            checkpoint: The checkpoint, with the values of its channels.
            metadata: What is known about it.
            new_versions: Not needed: what changed is seen by the values.

        Raises:
            TreeringError: It could not be written; see `Session.append`.
        """
        return await self._hosting.run(lambda host: self._put(host, config, checkpoint, metadata))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote after a checkpoint.

        Args:
            config: Names the thread, the namespace and the checkpoint.
            writes: The channels and their values.
            task_id: The task.
            task_path: Its path, by which writes are ordered.
        """
        await self._hosting.run(lambda host: self._put_writes(host, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread with its session; do nothing if there is none."""
        await self._hosting.run(lambda host: self._delete(host, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Show the checkpoints of runs no more, in whatever threads they are."""
        await self._hosting.run(lambda host: self._delete_for_runs(host, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Append all of a thread, its branches included, to another thread."""
        await self._hosting.run(lambda host: self._copy(host, source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Leave only the latest checkpoint of each namespace of threads, or nothing.

        Raises:
            InvalidInput: There is no such strategy.
        """
        await self._hosting.run(lambda host: self._prune(host, thread_ids, strategy))

    # -- the blocking face

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint; see `aget_tuple`."""
        return self._hosting.run_blocking(lambda host: self._get(host, config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the latest first; see `alist`."""
        for thread_id, row in self._hosting.run_blocking(lambda host: self._found(host, config, filter, before, limit)):
            each = self._hosting.run_blocking(partial(self._still, thread_id=thread_id, row=row))
            if each is not None:
                yield each

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; see `aput`."""
        return self._hosting.run_blocking(lambda host: self._put(host, config, checkpoint, metadata))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote; see `aput_writes`."""
        self._hosting.run_blocking(lambda host: self._put_writes(host, config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread; see `adelete_thread`."""
        self._hosting.run_blocking(lambda host: self._delete(host, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Show the checkpoints of runs no more; see `adelete_for_runs`."""
        self._hosting.run_blocking(lambda host: self._delete_for_runs(host, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Append all of a thread to another; see `acopy_thread`."""
        self._hosting.run_blocking(lambda host: self._copy(host, source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Leave only the latest checkpoints of threads; see `aprune`."""
        self._hosting.run_blocking(lambda host: self._prune(host, thread_ids, strategy))

    # -- what both do, on the host's loop

    async def _get(self, host: SessionHost, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, namespace, checkpoint_id = _named(config)
        thread = await self._threads.of(host, thread_id)
        row = None if thread is None else thread.row(namespace or "", checkpoint_id)
        return None if thread is None or row is None else await self._tuple(thread, thread_id, row)

    async def _still(self, host: SessionHost, *, thread_id: str, row: CheckpointRow) -> CheckpointTuple | None:
        """Return a checkpoint that was found before; None if it is gone."""
        thread = await self._threads.of(host, thread_id)
        if thread is None or thread.row(row.namespace, row.id) is None:
            return None
        return await self._tuple(thread, thread_id, row)

    @staticmethod
    async def _tuple(thread: Thread, thread_id: str, row: CheckpointRow) -> CheckpointTuple:
        """Return a checkpoint as LangGraph has it."""
        async with thread.lock:
            record = await thread.record(row)
            checkpoint = {**thread.load(record.checkpoint), "channel_values": await thread.values(row)}
        writes = sorted(thread.writes(row), key=lambda each: writes_sort_key(each.task_path, each.task_id, each.at))
        return CheckpointTuple(
            config=_config(thread_id, row.namespace, row.id),
            checkpoint=cast("Checkpoint", checkpoint),  # it was one when it was stored
            metadata=thread.load(record.metadata),
            parent_config=None if row.parent is None else _config(thread_id, row.namespace, row.parent),
            pending_writes=[(each.task_id, each.channel, thread.load(each.value)) for each in writes],
        )

    async def _found(
        self,
        host: SessionHost,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> builtins.list[tuple[str, CheckpointRow]]:
        """Return the checkpoints to list, with their threads."""
        thread_id, namespace, checkpoint_id = (None, None, None) if config is None else _named(config)
        last = None if before is None else _named(before)[2]
        found: builtins.list[tuple[str, CheckpointRow]] = []
        for each in [thread_id] if thread_id is not None else await _thread_ids(host):
            thread = await self._threads.of(host, each)
            if thread is None:
                continue
            for row in thread.rows(namespace):
                if limit is not None and len(found) >= limit:
                    return found
                if checkpoint_id not in (None, row.id) or (last is not None and row.id >= last):
                    continue
                if not filter or await self._has(thread, row, filter):
                    found.append((each, row))
        return found

    @staticmethod
    async def _has(thread: Thread, row: CheckpointRow, filter: Mapping[str, Any]) -> bool:
        """Return whether the metadata of a checkpoint holds all that is asked for."""
        async with thread.lock:
            metadata = thread.load((await thread.record(row)).metadata)
        return all(metadata.get(name) == wanted for name, wanted in filter.items())

    async def _put(
        self, host: SessionHost, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> RunnableConfig:
        thread_id, namespace, parent_id = _named(config)
        thread = await self._threads.made(host, thread_id)
        known = get_checkpoint_metadata(config, metadata)
        async with thread.lock:
            await thread.put(namespace or "", checkpoint, known, parent_id)
        return _config(thread_id, namespace or "", checkpoint["id"])

    async def _put_writes(
        self, host: SessionHost, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> None:
        thread_id, namespace, checkpoint_id = _named(config)
        thread = await self._threads.made(host, thread_id)
        placed = tuple(
            (WRITES_IDX_MAP.get(channel, index), channel, thread.dump(value))
            for index, (channel, value) in enumerate(writes)
        )
        async with thread.lock:
            await thread.put_writes(Written(namespace or "", checkpoint_id or "", task_id, task_path, placed))

    async def _delete(self, host: SessionHost, thread_id: str) -> None:
        self._threads.forget(thread_id)
        session = await host.find_by_key(thread_id)
        if session is not None:
            await host.delete(session)

    async def _delete_for_runs(self, host: SessionHost, run_ids: Sequence[str]) -> None:
        for thread_id in await _thread_ids(host) if run_ids else ():
            thread = await self._threads.of(host, thread_id)
            if thread is not None:
                async with thread.lock:
                    await thread.hide([row for row in thread.rows() if row.run_id in run_ids])

    async def _copy(self, host: SessionHost, source_id: str, target_id: str) -> None:
        source = await self._threads.of(host, source_id)
        if source is not None and source_id != target_id:
            target = await self._threads.made(host, target_id)
            async with target.lock:
                await target.append_all(source.session)
                await target.refresh()

    async def _prune(self, host: SessionHost, thread_ids: Sequence[str], strategy: str) -> None:
        check_word("strategy", strategy, get_args(Pruning))
        for thread_id in thread_ids:
            thread = await self._threads.of(host, thread_id)
            if strategy == "delete":
                await self._delete(host, thread_id)
            elif thread is not None:
                async with thread.lock:
                    rows = thread.rows()
                    latest = {row.namespace: row.id for row in reversed(rows)}
                    await thread.hide([row for row in rows if latest[row.namespace] != row.id])


async def _thread_ids(host: SessionHost) -> list[str]:
    """Return the keys of all sessions, each of which may be a thread."""
    rows = await host.list_sessions(status="any")
    return [row.key for row in rows if row.key is not None]


def _named(config: RunnableConfig) -> tuple[str, str | None, str | None]:
    """Return what a config names: the thread, the namespace, the checkpoint."""
    names = config.get("configurable", {})
    if not names.get("thread_id"):
        raise InvalidInput("the config names no thread: give {'configurable': {'thread_id': ...}}")
    return str(names["thread_id"]), names.get("checkpoint_ns"), names.get("checkpoint_id")


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    names = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
    return {"configurable": names}
