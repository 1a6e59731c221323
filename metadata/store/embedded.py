"""The embedded store: the tree of a standalone broker, in this process, in one SQLite file.

Rules:
- One session for the life of the process. The sessions that were open when the process before ended are closed at the
  start: their ephemeral nodes are removed.
- Reads are answered immediately from memory. A write is returned when it is on the disk; its watches are triggered before.
- On a full disk writes raise ConnectionLossError, and the next one tries again; after any other failure of the disk every
  write does, and `on_failed` is called once.
"""

from __future__ import annotations

import logging
from asyncio import Future, get_running_loop
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from metadata.store.committed_tree import CommittedTree, Written
from metadata.store.node_tree import Staged, StoredSession, Watches
from metadata.store.port import (
    ANY_VERSION,
    ConnectionLossError,
    Create,
    Delete,
    OperationResult,
    SessionEvent,
    SessionExpiredError,
    SetData,
    Stat,
    StoreError,
    Transaction,
    Watch,
)
from metadata.store.store_file import StoreFile
from metadata.store.store_use import StoreUse
from runtime.clock import Clock
from runtime.disk.disk_queue import DiskQueue
from runtime.tasks import TaskScope

SESSION_TIMEOUT_MS: Final = 6_000
"""After which a store server that gets this file removes the ephemeral nodes of a broker that was killed."""

logger = logging.getLogger(__name__)


class EmbeddedStore:
    """`metadata.store.port.Store` and its only `Session` in one. Life: `open`, then operations, then `close`."""

    def __init__(self, committed: CommittedTree, session_id: int) -> None:
        self.use = StoreUse()
        self.session_id = session_id
        self._committed = committed
        self._tree = committed.tree
        self._watches = Watches()
        self._is_closed = False
        committed.subscribe(self._trigger)

    @classmethod
    async def open(
        cls,
        path: str,
        queue: DiskQueue,
        clock: Clock,
        tasks: TaskScope,
        on_failed: Callable[[OSError], None] = lambda error: None,
    ) -> EmbeddedStore:
        """Open the store. `queue` should be the store's own, so that its fsyncs do not queue appends; `tasks` must outlive the
        store; `on_failed` is called when nothing can be written any more. Raises StoreFileError, OSError."""
        committed = await CommittedTree.open(lambda: StoreFile(path), queue, clock, tasks, on_failed)
        session_id = max((committed.zxid, *committed.sessions)) + 1
        # Nobody takes it up again: it has no password.
        session = StoredSession(session_id, b"", SESSION_TIMEOUT_MS)
        answers = [_answer(partial(committed.close_session, each)) for each in list(committed.sessions)]
        answers.append(_answer(partial(committed.open_session, session)))
        try:
            for answer in answers:
                await answer
        except ConnectionLossError as error:
            raise OSError(f"the store's file {path} cannot be written; is the disk full?") from error
        return cls(committed, session_id)

    # The store.

    def session(self) -> EmbeddedStore:
        return self

    def subscribe(self, callback: Callable[[SessionEvent], None]) -> None:
        """There is one session for the life of the process, so there are no events."""

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await _answer(partial(self._committed.close_session, self.session_id))
        except ConnectionLossError:  # the disk may be full; the next start removes them
            left = self._tree.ephemerals_of(self.session_id)
            logger.warning("ephemeral nodes not removed from the store: nodes=%d", len(left))
        self._watches.clear()
        await self._committed.close()

    # Reads: immediately, from memory.

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        self._check_open(path)
        node = self._tree.node(path)
        if watch is not None:
            self._watches.data.setdefault(path, []).append(watch)
        return node.data, node.stat

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        self._check_open(path)
        if watch is not None:
            self._watches.data.setdefault(path, []).append(watch)
        node = self._tree.nodes.find(path)
        return None if node is None else node.stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        self._check_open(path)
        names = self._tree.children(path)
        if watch is not None:
            self._watches.children.setdefault(path, []).append(watch)
        return names

    async def read_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[tuple[bytes, Stat] | None]:
        self._check_open("")
        found: list[tuple[bytes, Stat] | None] = []
        for path in paths:
            node = self._tree.nodes.find(path)
            if node is not None and watch is not None:
                self._watches.data.setdefault(path, []).append(watch)
            found.append(None if node is None else (node.data, node.stat))
        return found

    async def sync(self, path: str) -> None:
        self._check_open(path)

    # Writes: staged in the order of calls, returned after the commit.

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        [created] = await self._write([Create(path, data, ephemeral, sequential)])
        assert isinstance(created, str)
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        [stat] = await self._write([SetData(path, data, version)])
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._write([Delete(path, version)])

    async def multi(self, operations: Transaction) -> list[OperationResult]:
        return await self._write(operations)

    async def write_many(self, transactions: Sequence[Transaction]) -> list[list[OperationResult] | StoreError]:
        answers = [self._write(transaction) for transaction in transactions]
        results: list[list[OperationResult] | StoreError] = []
        failure: StoreError | None = None
        for answer in answers:
            try:
                results.append(await answer)
            except (SessionExpiredError, ConnectionLossError) as error:
                failure = error
            except StoreError as error:
                results.append(error)
        if failure is not None:
            raise failure
        return results

    def _check_open(self, path: str) -> None:
        if self._is_closed:
            raise SessionExpiredError(path)

    def _write(self, operations: Transaction) -> Future[list[OperationResult]]:
        return _answer(partial(self._committed.write, operations, session_id=self.session_id))

    def _trigger(self, staged: Staged) -> None:
        for event in staged.events:
            for watch in self._watches.take(event):
                watch(event)


def _answer(ask: Callable[..., None]) -> Future[list[OperationResult]]:
    """Start a write of the tree; the future gets its results, or its error."""
    answer: Future[list[OperationResult]] = get_running_loop().create_future()

    def done(outcome: Written | StoreError) -> None:
        if answer.done():
            return  # its caller was cancelled
        if isinstance(outcome, Written):
            answer.set_result(outcome.results)
        else:
            answer.set_exception(outcome)

    ask(on_done=done)
    return answer
