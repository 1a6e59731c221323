"""The tree with its file: transactions of many sessions, each visible only when it is on the disk.

Rules:
- The tree is in memory, so reads never wait. A write is staged, committed to the file by the disk queue, and only then
  applied, told to subscribers and to its caller: nothing depends on a write that a crash could undo. Writes that arrive during
  a commit share the next one.
- Subscribers hear of a transaction when it is applied, before its caller does, both without a step of the event loop
  between: replies and watch events have one order.
- Errors are told in the order of calls, too: they may depend on writes that are not committed yet, and that the caller
  must be able to read.
- Sessions are kept in the file. Nothing here ends them: the owner of this tree closes the session whose time is over.
- A commit that the disk refuses is undone; its callers, and those staged upon them, get ConnectionLossError. On a full disk
  it is retried with the next write; any other failure ends the tree's writes, and `on_failed` is called once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from metadata.store.node_acls import Identities
from metadata.store.node_map import Node
from metadata.store.node_tree import NodeTree, Staged, StoredSession
from metadata.store.port import (
    ConnectionLossError,
    OperationResult,
    SessionExpiredError,
    StoreError,
    Transaction,
)
from runtime.clock import Clock
from runtime.disk.disk_queue import DiskQueue
from runtime.tasks import TaskScope

COMMIT_TRANSACTIONS_MAX: Final = (
    1_000  # bounds one commit's time, and so the wait of a small write behind a large batch
)
NO_SESSION: Final = 0
"""The owner of the tree itself: it needs no session to write, and cannot own ephemeral nodes."""

logger = logging.getLogger(__name__)


class TreeFile(Protocol):
    """What keeps the tree. Every method blocks."""

    def load(self) -> NodeTree: ...

    def commit(self, batch: Sequence[Staged]) -> None:
        """Write the transactions, all or none; they are durable when this returns. Raises OSError: ENOSPC when there is no
        room now."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Written:
    """`time_ms` is the Unix time of the transaction."""

    zxid: int
    results: list[OperationResult]
    time_ms: int = 0


OnDone = Callable[[Written | StoreError], None]


@dataclass(slots=True)
class _Write:
    """A pending write: the staged changes, or its error."""

    outcome: Staged | StoreError
    on_done: OnDone


def is_passing(error: OSError) -> bool:
    """Whether a commit that ended in `error` may succeed later: there was no room."""
    return error.errno == errno.ENOSPC


class CommittedTree:
    """Life: `open`, then writes, then `close`."""

    def __init__(
        self,
        file: TreeFile,
        tree: NodeTree,
        queue: DiskQueue,
        clock: Clock,
        tasks: TaskScope,
        on_failed: Callable[[OSError], None],
    ) -> None:
        self.tree = tree
        """The applied state. For reads only."""
        self._file = file
        self._queue = queue
        self._clock = clock
        self._tasks = tasks
        self._on_failed = on_failed
        self._has_failed = False
        self._is_closed = False
        self._pending: list[_Write] = []
        self._is_committing = False
        self._subscribers: list[Callable[[Staged], None]] = []

    @classmethod
    async def open(
        cls,
        open_file: Callable[[], TreeFile],
        queue: DiskQueue,
        clock: Clock,
        tasks: TaskScope,
        on_failed: Callable[[OSError], None] = lambda error: None,
    ) -> CommittedTree:
        """Open the file and load the tree. `queue` should be the tree's own, so that its fsyncs do not queue appends; `tasks`
        must outlive the tree; `on_failed` is called when nothing can be written any more. Raises what `open_file` and
        `load` raise."""

        def load() -> tuple[TreeFile, NodeTree]:
            file = open_file()
            return file, file.load()

        file, tree = await queue.run(load)
        return cls(file, tree, queue, clock, tasks, on_failed)

    @property
    def zxid(self) -> int:
        """Of the newest transaction that is applied."""
        return self.tree.zxid

    @property
    def sessions(self) -> Mapping[int, StoredSession]:
        """The open sessions, by id."""
        return self.tree.sessions

    def subscribe(self, callback: Callable[[Staged], None]) -> None:
        """Call `callback` with each transaction from now on, as it is applied."""
        self._subscribers.append(callback)

    def write(
        self, operations: Transaction, *, session_id: int, on_done: OnDone, identities: Identities | None = None
    ) -> None:
        """Execute the operations atomically. `on_done` gets their results or the error of the first that fails, with its index;
        SessionExpiredError when the session is closed by then, ConnectionLossError when the file cannot take them."""

        def stage() -> Staged:
            if session_id != NO_SESSION and not self.tree.is_session_open(session_id):
                raise SessionExpiredError(operations[0].path if operations else "")
            now_ms = self._clock.wall_ms()
            return self.tree.stage(operations, session_id=session_id, now_ms=now_ms, identities=identities)

        self._enqueue(stage, on_done)

    def put_nodes(self, nodes: Mapping[str, Node], on_done: OnDone) -> None:
        """Put nodes as they are; see `NodeTree.stage_nodes`."""
        self._enqueue(lambda: self.tree.stage_nodes(nodes), on_done)

    def open_session(self, session: StoredSession, on_done: OnDone) -> None:
        """Open a session, whose id must be new."""
        self._enqueue(lambda: self.tree.stage_session(session), on_done)

    def close_session(self, session_id: int, on_done: OnDone) -> None:
        """Close a session and delete its ephemeral nodes. SessionExpiredError when it is closed already."""

        def stage() -> Staged:
            if not self.tree.is_session_open(session_id):
                raise SessionExpiredError
            return self.tree.stage_session_end(session_id)

        self._enqueue(stage, on_done)

    def after_writes(self, on_decided: Callable[[], None]) -> None:
        """Call `on_decided` when every write that was made before is decided: at once if there is none."""
        if self._pending:
            self._pending.append(_Write(SessionExpiredError(), lambda _: on_decided()))
        else:
            on_decided()

    async def close(self) -> None:
        """Close the file when the writes that there are have been answered. Later ones get SessionExpiredError."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pending:
            answered = asyncio.get_running_loop().create_future()
            self._pending.append(_Write(SessionExpiredError(), answered.set_result))
            await answered
        await self._queue.run(self._file.close)

    def _enqueue(self, stage: Callable[[], Staged], on_done: OnDone) -> None:
        if self._is_closed:
            on_done(SessionExpiredError())
            return
        if self._has_failed:
            on_done(ConnectionLossError())
            return
        outcome: Staged | StoreError
        try:
            outcome = stage()
        except StoreError as error:
            outcome = error
        self._pending.append(_Write(outcome, on_done))
        if not self._is_committing:
            self._is_committing = True
            self._tasks.spawn(self._commit_pending(), name="store commit")

    async def _commit_pending(self) -> None:
        try:
            while self._pending:
                batch = self._pending[:COMMIT_TRANSACTIONS_MAX]
                staged = [write.outcome for write in batch if isinstance(write.outcome, Staged)]
                if staged:
                    try:
                        await self._commit(staged)
                    except OSError as error:
                        logger.error("store commit failed: error=%s", str(error))  # noqa: TRY400 (the text says it all)
                        self._has_failed = not is_passing(error)
                        self._fail_pending()
                        if self._has_failed:
                            self._on_failed(error)
                        continue
                del self._pending[: len(batch)]
                for write in batch:
                    self._finish(write)
        finally:
            self._is_committing = False

    async def _commit(self, staged: Sequence[Staged]) -> None:
        """Raises OSError."""
        await self._queue.run(lambda: self._file.commit(staged))

    def _finish(self, write: _Write) -> None:
        outcome = write.outcome
        if isinstance(outcome, StoreError):
            write.on_done(outcome)
            return
        self.tree.apply(outcome)
        for subscriber in self._subscribers:
            subscriber(outcome)
        write.on_done(Written(outcome.zxid, outcome.results, outcome.time_ms))

    def _fail_pending(self) -> None:
        """Drop everything staged: later transactions were checked against the failed ones."""
        failed, self._pending = self._pending, []
        self.tree.abandon_staged()
        for write in failed:
            write.on_done(ConnectionLossError())
