"""The embedded store: the tree of a standalone broker, in this process, in one SQLite file.

Rules:
- The tree is in memory, so reads never wait. A write is staged, committed to the file by the disk queue, and only then
  applied, sent to watches and returned: nothing depends on a write that a crash could undo. Writes that arrive during a commit
  share the next one.
- One session for the life of the process; the ephemeral nodes of the one before are removed at the start.
- A commit that the disk refuses is undone; its callers, and those staged upon them, get ConnectionLossError. On a full disk
  it is retried with the next write; any other failure ends the store, and `on_failed` is called once.
- The file is in the first log directory, not in a folder: Apache Kafka reads an unknown folder there as a partition.

Why WAL with synchronous=FULL: a commit is one append and one fsync (a rollback journal takes three and a file
creation), and it is durable, as a write of an ensemble is. Locking is exclusive, so a second process on the file fails
immediately and no shared-memory file is needed.
"""

from __future__ import annotations

import errno
import logging
import sqlite3
from asyncio import Future, get_running_loop
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from metadata.store.node_map import Node, Nodes
from metadata.store.node_tree import NodeTree, Staged, Watches
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
from metadata.store.store_use import StoreUse
from runtime.clock import Clock
from runtime.disk.disk_queue import DiskQueue
from runtime.tasks import TaskScope

FILE_NAME = "barnabas-store.sqlite"
FORMAT_VERSION = 1
COMMIT_TRANSACTIONS_MAX = 1_000  # bounds one commit's time, and so the wait of a small write behind a large batch

logger = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    path TEXT PRIMARY KEY, data BLOB NOT NULL, version INTEGER NOT NULL, czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL,
    ctime_ms INTEGER NOT NULL, mtime_ms INTEGER NOT NULL, ephemeral_owner INTEGER NOT NULL,
    children_created INTEGER NOT NULL, num_children INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
# In KiB. The tree is in memory already, and commits write pages that are neighbours: SQLite's own 2 MB are useless.
_CACHE = "cache_size=-256"
_PUT_NODE = "INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_FACT = "INSERT OR REPLACE INTO fact VALUES (?, ?)"


class StoreFileError(Exception):
    """The file cannot be used: another process has it, it is damaged, or a newer release wrote it."""


class _File:
    """The SQLite file. Every method blocks: disk queue only."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            # The queue runs one job at a time, on any thread: the connection is never used concurrently.
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL", _CACHE):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.executescript(_SCHEMA)
            self._facts = dict(self._connection.execute("SELECT name, value FROM fact"))
        except sqlite3.Error as error:
            self._connection.close()
            raise self._unusable(error) from error
        version = self._facts.get("format", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            self._connection.close()
            raise StoreFileError(f"the store {path} has format {version}, this release reads format {FORMAT_VERSION}")

    def _unusable(self, error: sqlite3.Error) -> StoreFileError:
        return StoreFileError(f"cannot open the store {self._path}: {error}")

    def load(self) -> tuple[NodeTree, int]:
        """Load the tree and the id of a new session, higher than any before. Raises StoreFileError, OSError."""
        try:
            nodes = Nodes()
            for path, *values in self._connection.execute("SELECT * FROM node ORDER BY path"):  # parents first
                nodes.put(path, Node(*values))
        except sqlite3.Error as error:
            self._connection.close()
            raise StoreFileError(f"cannot read the store {self._path}: {error}") from error
        session_id = self._facts.get("session", 0) + 1
        self.commit([], {"format": FORMAT_VERSION, "session": session_id})
        return NodeTree(nodes, self._facts.get("zxid", 0)), session_id

    def commit(self, batch: Sequence[Staged], facts: dict[str, int]) -> None:
        changed: dict[str, Node | None] = {}
        for staged in batch:
            changed.update(staged.nodes)
        if batch:
            facts = {**facts, "zxid": batch[-1].zxid}
        rows = [
            (
                path,
                node.data,
                node.version,
                node.czxid,
                node.mzxid,
                node.ctime_ms,
                node.mtime_ms,
                node.ephemeral_owner,
                node.children_created,
                node.num_children,
            )
            for path, node in changed.items()
            if node is not None
        ]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "DELETE FROM node WHERE path = ?", [(p,) for p, n in changed.items() if n is None]
            )
            self._connection.executemany(_PUT_NODE, rows)
            self._connection.executemany(_PUT_FACT, list(facts.items()))
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                with suppress(sqlite3.Error):  # the first error is reported
                    self._connection.execute("ROLLBACK")
            is_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            code = errno.ENOSPC if is_full else errno.EIO
            raise OSError(code, f"the store {self._path} refused a commit: {error}") from error

    def close(self) -> None:
        self._connection.close()


@dataclass(slots=True)
class _Write:
    """A pending write: the staged changes, or its error. Errors are returned in order, too: they may depend on writes that
    are not committed yet, and that the caller must be able to read."""

    outcome: Staged | StoreError
    answer: Future[list[OperationResult]]


class EmbeddedStore:
    """`metadata.store.port.Store` and its only `Session` in one. Life: `open`, then operations, then `close`."""

    def __init__(
        self,
        file: _File,
        tree: NodeTree,
        session_id: int,
        queue: DiskQueue,
        clock: Clock,
        tasks: TaskScope,
        on_failed: Callable[[OSError], None],
    ) -> None:
        self.use = StoreUse()
        self.session_id = session_id
        self._file = file
        self._tree = tree
        self._queue = queue
        self._clock = clock
        self._tasks = tasks
        self._on_failed = on_failed
        self._has_failed = False
        self._watches = Watches()
        self._pending: list[_Write] = []
        self._is_committing = False
        self._is_closed = False
        self._subscribers: list[Callable[[SessionEvent], None]] = []

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

        def load() -> tuple[_File, NodeTree, int]:
            file = _File(path)
            return file, *file.load()

        file, tree, session_id = await queue.run(load)
        store = cls(file, tree, session_id, queue, clock, tasks, on_failed)
        left = tree.ephemerals_not_of(session_id)
        if left:
            try:
                await store.multi([Delete(each) for each in left])
            except ConnectionLossError as error:
                raise OSError(f"the store's file {path} cannot be written; is the disk full?") from error
        return store

    # The store.

    def session(self) -> EmbeddedStore:
        return self

    def subscribe(self, callback: Callable[[SessionEvent], None]) -> None:
        self._subscribers.append(callback)

    async def close(self) -> None:
        if self._is_closed:
            return
        own = self._tree.ephemerals_of(self.session_id)
        if own:
            try:
                await self.multi([Delete(each) for each in own])
            except ConnectionLossError:  # the disk may be full; the next start removes them
                logger.warning("ephemeral nodes not removed from the store: nodes=%d", len(own))
        self._is_closed = True
        self._watches.clear()
        await self._queue.run(self._file.close)

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
        answer: Future[list[OperationResult]] = get_running_loop().create_future()
        if self._is_closed:
            answer.set_exception(SessionExpiredError(operations[0].path if operations else ""))
            return answer
        if self._has_failed:
            answer.set_exception(ConnectionLossError())
            return answer
        outcome: Staged | StoreError
        try:
            outcome = self._tree.stage(operations, session_id=self.session_id, now_ms=self._clock.wall_ms())
        except StoreError as error:
            outcome = error
        self._pending.append(_Write(outcome, answer))
        if not self._is_committing:
            self._is_committing = True
            self._tasks.spawn(self._commit_pending(), name="store commit")
        return answer

    async def _commit_pending(self) -> None:
        try:
            while self._pending:
                batch = self._pending[:COMMIT_TRANSACTIONS_MAX]
                staged = [write.outcome for write in batch if isinstance(write.outcome, Staged)]
                if staged:
                    try:
                        await self._queue.run(lambda staged=staged: self._file.commit(staged, {}))  # type: ignore[misc]
                    except OSError as error:
                        logger.error("store commit failed: error=%s", str(error))  # noqa: TRY400 (the text says it all)
                        self._fail_pending()
                        if error.errno != errno.ENOSPC:
                            self._has_failed = True
                            self._on_failed(error)
                        continue
                del self._pending[: len(batch)]
                for write in batch:
                    self._finish(write)
        finally:
            self._is_committing = False

    def _finish(self, write: _Write) -> None:
        """Apply a committed write. Watches are triggered before it returns: no read can come between."""
        if isinstance(write.outcome, Staged):
            self._tree.apply(write.outcome)
            for event in write.outcome.events:
                for watch in self._watches.take(event):
                    watch(event)
            if not write.answer.done():
                write.answer.set_result(write.outcome.results)
        elif not write.answer.done():
            write.answer.set_exception(write.outcome)

    def _fail_pending(self) -> None:
        """Drop everything staged: later transactions were checked against the failed ones."""
        failed, self._pending = self._pending, []
        self._tree.abandon_staged()
        for write in failed:
            if not write.answer.done():
                write.answer.set_exception(ConnectionLossError())
