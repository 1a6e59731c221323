"""Many sessions over one file: what is told when, and what a failing disk changes."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from metadata.store.committed_tree import NO_SESSION, CommittedTree, Written
from metadata.store.node_tree import NodeTree, Staged, StoredSession
from metadata.store.port import (
    AccessDeniedError,
    Acl,
    ConnectionLossError,
    Create,
    NoNodeError,
    Operation,
    SessionExpiredError,
    SetData,
    StoreError,
)
from metadata.store.store_file import FILE_NAME, StoreFile
from runtime.clock import SystemClock
from runtime.disk.os_disk_queue import OsDiskQueue
from runtime.tasks import TaskScope

ONE, TWO = StoredSession(1, b"one", 6_000), StoredSession(2, b"two", 6_000)


class RefusingFile:
    """The real file; `error` is raised by commits while it is set."""

    def __init__(self, path: str) -> None:
        self._file = StoreFile(path)
        self.error: OSError | None = None
        self.batches: list[int] = []

    def load(self) -> NodeTree:
        return self._file.load()

    def commit(self, batch: Sequence[Staged]) -> None:
        if self.error is not None:
            raise self.error
        self._file.commit(batch)
        self.batches.append(len(batch))

    def close(self) -> None:
        self._file.close()


class Scene:
    """A tree, and all that was heard of it, in order."""

    def __init__(self, tree: CommittedTree, file: RefusingFile, failures: list[OSError]) -> None:
        self.tree = tree
        self.file = file
        self.failures = failures
        self.heard: list[object] = []
        self._waiting: list[asyncio.Future[Written | StoreError]] = []
        tree.subscribe(lambda staged: self.heard.append(("applied", staged.zxid)))

    def ask(self, start: Callable[..., None], *arguments: object, **options: object) -> None:
        answer: asyncio.Future[Written | StoreError] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)

        def done(outcome: Written | StoreError) -> None:
            self.heard.append(("done", outcome.zxid if isinstance(outcome, Written) else type(outcome)))
            answer.set_result(outcome)

        start(*arguments, on_done=done, **options)

    def write(self, *operations: Operation, session_id: int = NO_SESSION, **options: object) -> None:
        self.ask(self.tree.write, operations, session_id=session_id, **options)

    async def outcomes(self) -> list[object]:
        """Of what was asked since the last call: the zxid, or the kind of the error."""
        waiting, self._waiting = self._waiting, []
        found = [await each for each in waiting]
        return [each.zxid if isinstance(each, Written) else type(each) for each in found]


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    queue = OsDiskQueue(str(folder), asyncio.get_running_loop())
    files: list[RefusingFile] = []
    failures: list[OSError] = []

    def open_file() -> RefusingFile:
        files.append(RefusingFile(str(folder / FILE_NAME)))
        return files[-1]

    async with TaskScope("test") as tasks:
        tree = await CommittedTree.open(open_file, queue, SystemClock(), tasks, failures.append)
        try:
            yield Scene(tree, files[-1], failures)
        finally:
            await tree.close()
            await queue.close()


async def test_sessions_and_their_ephemerals_outlive_the_process(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.ask(one.tree.open_session, ONE)
        one.ask(one.tree.open_session, TWO)
        one.write(Create("/p"), session_id=1)
        one.write(Create("/p/one", ephemeral=True), session_id=1)
        one.write(Create("/p/two", ephemeral=True), session_id=2)
        assert await one.outcomes() == [1, 2, 3, 4, 5]
    async with scene(tmp_path) as two:
        assert two.tree.sessions == {1: ONE, 2: TWO}
        assert two.tree.zxid == 5
        assert two.tree.tree.children("/p") == ["one", "two"]
        two.ask(two.tree.close_session, 1)
        two.write(Create("/p/late", ephemeral=True), session_id=1)
        two.ask(two.tree.close_session, 1)
        assert await two.outcomes() == [6, SessionExpiredError, SessionExpiredError]
        assert two.tree.tree.children("/p") == ["two"]
    async with scene(tmp_path) as three:
        assert three.tree.sessions == {2: TWO}
        assert three.tree.tree.nodes.ephemerals == {"/p/two": 2}


async def test_what_was_applied_is_told_before_who_asked_and_errors_in_order(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.write(Create("/a"))
        one.write(SetData("/missing", b""))
        one.write(Create("/b", acl=(Acl(1, "world", "anyone"),)))
        one.write(SetData("/b", b""), identities=frozenset({("ip", "127.0.0.1")}))
        assert one.heard == []
        await one.outcomes()
        assert one.heard == [
            ("applied", 1), ("done", 1), ("done", NoNodeError), ("applied", 2), ("done", 2), ("done", AccessDeniedError),
        ]  # fmt: skip
        assert len(one.file.batches) == 1


async def test_writes_during_a_commit_share_the_next(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.write(Create("/first"))
        await asyncio.sleep(0)  # its commit begins
        for number in range(50):
            one.write(Create(f"/{number}"))
        await one.outcomes()
        assert one.file.batches == [1, 50]


async def test_a_full_disk_refuses_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with scene(tmp_path) as one:
        one.ask(one.tree.open_session, ONE)
        await one.outcomes()
        one.file.error = OSError(errno.ENOSPC, "full")
        one.write(Create("/a"))
        one.ask(one.tree.close_session, 1)
        one.ask(one.tree.open_session, TWO)
        one.write(Create("/a/b"))
        assert await one.outcomes() == [ConnectionLossError] * 4
        assert one.tree.sessions == {1: ONE}
        assert not one.failures
        one.file.error = None
        one.write(Create("/e", ephemeral=True), session_id=1)
        one.ask(one.tree.open_session, TWO)
        one.write(Create("/a/b"))
        assert await one.outcomes() == [2, 3, NoNodeError]
        assert "store commit failed" in caplog.text


async def test_another_error_of_the_disk_ends_the_writes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with scene(tmp_path) as one:
        one.file.error = OSError(errno.EIO, "broken")
        one.write(Create("/a"))
        assert await one.outcomes() == [ConnectionLossError]
        one.file.error = None
        one.write(Create("/a"))
        one.ask(one.tree.open_session, ONE)
        assert await one.outcomes() == [ConnectionLossError] * 2
        assert [error.errno for error in one.failures] == [errno.EIO]
        assert caplog.text.count("store commit failed") == 1


async def test_a_close_waits_for_the_writes_before_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.write(Create("/first"))
        await asyncio.sleep(0)
        one.write(Create("/second"))
        closing = asyncio.ensure_future(one.tree.close())
        await asyncio.sleep(0)
        one.write(Create("/third"))
        assert await one.outcomes() == [1, 2, SessionExpiredError]
        await closing
    async with scene(tmp_path) as two:
        assert two.tree.tree.children("/") == ["first", "second"]


async def test_what_waits_for_the_writes_before_it_waits_for_no_others(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        heard: list[str] = []
        one.tree.after_writes(lambda: heard.append("at once"))
        one.tree.write([Create("/a")], session_id=NO_SESSION, on_done=lambda _: heard.append("first"))
        one.tree.after_writes(lambda: heard.append("after it"))
        one.write(Create("/b"))
        await one.outcomes()
        assert heard == ["at once", "first", "after it"]
