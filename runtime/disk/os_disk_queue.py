"""Threads that wait for disks: the real adapter of `runtime.disk.disk_queue`.

Rules: one thread per queue, started when it is first needed; a small pool for cold reads. A thread runs only the
jobs passed to it, and reports to the event loop through `call_soon_threadsafe`.
Invariants: jobs of one queue run in the order of submission, inline ones included: a write runs inline only while no
other job is pending. `done` and every awaitable complete on the loop.
"""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.disk.disk_queue import DiskQueue, Readers
from runtime.process.os_threads import OsThreads

if TYPE_CHECKING:
    from runtime.disk.filesystem import Buffer, File

T = TypeVar("T")

# An inline write that took longer than this waited for a disk (the kernel's dirty limit, a journal write), or another
# process had the core, which is the more frequent reason on a busy machine and no reason to queue writes. The kernel's
# count of voluntary context switches distinguishes them. It is read for every write in the time after a slow one, which
# costs 0.7 us.
SLOW_WRITE_NS = 5_000_000
WATCH_NS = 2_000_000_000
# A write that took this long waited for a disk, whether it was watched or not.
VERY_SLOW_WRITE_NS = 50_000_000
# A write in the thread reacquires the interpreter's lock before its time is measured, which alone takes up to 5 ms.
SLOW_THREAD_WRITE_NS = 50_000_000
# After a slow write the directory's writes go to the thread for this time, which doubles each time that the next slow
# write comes within `SLOW_MEMORY_NS`.
FIRST_SLOW_PERIOD_NS = 50_000_000
LONGEST_SLOW_PERIOD_NS = 1_600_000_000
SLOW_MEMORY_NS = 2_000_000_000
# The number of writes that go to the thread together, and how long the loop runs queued writes in one turn: at first, and
# twice as long each time that some remain. With a constant time, clients that send their next write after each response
# would keep the queue, and so the slow path of every request, for ever.
BATCH_WRITES = 64
INLINE_TURN_NS = 5_000_000
LONGEST_INLINE_TURN_NS = 80_000_000
READER_THREADS = 4
_now_ns = time.perf_counter_ns
_NOT_WATCHED = -1


def _waits() -> int:
    """Return the number of voluntary context switches of the calling thread so far."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


class _Job:
    """A queued job and what the loop does with its outcome."""

    __slots__ = ("finish", "is_write", "run")

    def __init__(
        self, run: Callable[[], Any], finish: Callable[[Any, BaseException | None], None], *, is_write: bool
    ) -> None:
        self.run = run
        self.finish = finish
        self.is_write = is_write


# Job, result, error, duration in the thread in ns.
_Outcome = tuple[_Job, Any, BaseException | None, int]


class OsDiskQueue:
    """One FIFO and its thread. Created by `OsDisk.queue`, closed by it or by the owner of the directory."""

    def __init__(self, directory: str, loop: asyncio.AbstractEventLoop) -> None:
        self._directory = directory
        self._loop = loop
        self._pending: deque[_Job] = deque()
        # A started job has not reported its outcome yet, so new jobs are queued.
        self._is_under_way = False
        self._turn_ns = INLINE_TURN_NS
        self._batches: SimpleQueue[list[_Job] | None] = SimpleQueue()  # at most one, to the thread
        self._outcomes: deque[_Outcome] = deque()
        self._slow_until_ns = 0
        self._slow_period_ns = 0
        self._watched_until_ns = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def write(self, job: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        assert not self._is_closed, "write on a closed disk queue"
        started_ns = _now_ns()
        if self._is_under_way or started_ns < self._slow_until_ns:
            self._submit(_Job(job, lambda _, error: _report(done, error), is_write=True))
            return
        waits = _NOT_WATCHED if started_ns >= self._watched_until_ns else _waits()
        error: OSError | None = None
        try:
            job()
        except OSError as raised:
            error = raised
        self._note_time(started_ns, waits)
        done(error)

    def write_now(self, file: File, content: Buffer, position: int) -> bool:
        assert not self._is_closed, "write on a closed disk queue"
        started_ns = _now_ns()
        if self._is_under_way or started_ns < self._slow_until_ns:
            return False
        waits = _NOT_WATCHED if started_ns >= self._watched_until_ns else _waits()
        file.write_at((content,), position)
        if _now_ns() - started_ns > SLOW_WRITE_NS:
            self._note_time(started_ns, waits)
        return True

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        assert not self._is_closed, "job for a closed disk queue"
        future: asyncio.Future[T] = self._loop.create_future()
        self._submit(_Job(job, lambda result, error: _resolve(future, result, error), is_write=False))
        return future

    async def drain(self) -> None:
        if self._is_under_way:
            await self.run(_nothing)

    async def close(self) -> None:
        if self._is_closed:
            return
        await self.drain()
        self._is_closed = True
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join()  # its queue is empty, so it only has to return

    def _submit(self, job: _Job) -> None:
        self._pending.append(job)
        if not self._is_under_way:
            self._is_under_way = True
            self._start_next()

    def _start_next(self) -> None:
        """Start the next work: in the thread, or here for writes that only waited for a job to end. If only the thread emptied
        the queue, a busy loop would fill it as fast, and no write would ever run inline again."""
        pending = self._pending
        turn_ends_ns = _now_ns() + self._turn_ns
        try:
            while pending:
                started_ns = _now_ns()
                if not pending[0].is_write or started_ns < self._slow_until_ns:
                    self._start_batch()
                    return
                if started_ns > turn_ends_ns:
                    self._turn_ns = min(2 * self._turn_ns, LONGEST_INLINE_TURN_NS)
                    self._loop.call_soon(self._start_next)
                    return
                job = pending.popleft()
                waits = _NOT_WATCHED if started_ns >= self._watched_until_ns else _waits()
                error: BaseException | None = None
                try:
                    job.run()
                except BaseException as raised:  # noqa: BLE001 - goes to the job's owner
                    error = raised
                self._note_time(started_ns, waits)
                job.finish(None, error)
        except BaseException:  # queued jobs are not lost with it
            self._loop.call_soon(self._start_next)
            raise
        self._is_under_way = False
        self._turn_ns = INLINE_TURN_NS

    def _start_batch(self) -> None:
        """Pass the next batch to the thread: one job, or consecutive writes."""
        pending = self._pending
        batch = [pending.popleft()]
        if batch[0].is_write:
            while pending and pending[0].is_write and len(batch) < BATCH_WRITES:
                batch.append(pending.popleft())
        if self._thread is None and not self._start_thread():
            self._loop.call_soon(self._finished, _done(batch))
            return
        self._batches.put(batch)

    def _start_thread(self) -> bool:
        """Start the thread; returns False when the system grants none (memory, process limit): then the loop runs the jobs."""
        thread = threading.Thread(target=self._work, name=f"disk {self._directory}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _finished(self, outcomes: list[_Outcome]) -> None:
        """Called when the thread has finished its batch."""
        self._outcomes.extend(outcomes)
        self._report_outcomes()

    def _report_outcomes(self) -> None:
        outcomes = self._outcomes
        try:
            while outcomes:
                job, result, error, elapsed_ns = outcomes.popleft()
                if job.is_write and elapsed_ns > SLOW_THREAD_WRITE_NS:
                    self._avoid_inline_writes(_now_ns())
                job.finish(result, error)
        except BaseException:  # later outcomes are reported in the next turn of the loop
            self._loop.call_soon(self._report_outcomes)
            raise
        self._start_next()

    def _note_time(self, started_ns: int, waits: int) -> None:
        """Note the duration of an inline write. `waits` is the thread's count before it, or `_NOT_WATCHED`."""
        ended_ns = _now_ns()
        elapsed_ns = ended_ns - started_ns
        if elapsed_ns <= SLOW_WRITE_NS:
            return
        self._watched_until_ns = ended_ns + WATCH_NS
        if elapsed_ns > VERY_SLOW_WRITE_NS or (waits != _NOT_WATCHED and _waits() > waits):
            self._avoid_inline_writes(ended_ns)

    def _avoid_inline_writes(self, now_ns: int) -> None:
        """Queue writes to the thread for a while, because one was slow."""
        if now_ns - self._slow_until_ns > SLOW_MEMORY_NS:
            self._slow_period_ns = FIRST_SLOW_PERIOD_NS
        else:
            self._slow_period_ns = min(2 * self._slow_period_ns, LONGEST_SLOW_PERIOD_NS)
        self._slow_until_ns = now_ns + self._slow_period_ns
        self._watched_until_ns = self._slow_until_ns + WATCH_NS

    def _work(self) -> None:
        """The thread's function."""
        batches, post = self._batches, self._loop.call_soon_threadsafe
        while (batch := batches.get()) is not None:
            try:
                post(self._finished, _done(batch))
            except RuntimeError:
                return  # the loop is closed: the process ends and nothing waits
            del batch  # or its objects would live until the next one


class OsReaders:
    """The real adapter of `runtime.disk.disk_queue.Readers`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = READER_THREADS) -> None:
        self._loop = loop
        self._threads = OsThreads(loop, threads, "cold read")
        self._is_closed = False

    def run(self, job: Callable[[], T]) -> Awaitable[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        if self._is_closed:  # a file is let go of that a connection was still sending
            try:
                future.set_result(job())
            except OSError as error:
                future.set_exception(error)
            return future
        self._threads.start(lambda: None if future.cancelled() else job(), partial(_resolve, future))
        return future

    async def close(self) -> None:
        """Drop jobs that have not begun; those that have are not waited for. What comes later runs on the loop."""
        self._is_closed = True
        self._threads.close()


class OsDisk:
    """Queues and readers on operating system threads. Created on the loop that it serves; the composition root closes it last,
    after everything that writes."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._queues: dict[str, OsDiskQueue] = {}
        self._readers: OsReaders | None = None

    def queue(self, directory: str) -> DiskQueue:
        queue = self._queues.get(directory)
        if queue is None:
            queue = self._queues[directory] = OsDiskQueue(directory, self._loop)
        return queue

    def readers(self) -> Readers:
        if self._readers is None:
            self._readers = OsReaders(self._loop)
        return self._readers

    async def close(self) -> None:
        for queue in self._queues.values():
            await queue.close()
        self._queues.clear()
        if self._readers is not None:
            await self._readers.close()
            self._readers = None


def _done(batch: list[_Job]) -> list[_Outcome]:
    """Run the jobs one after another; return their outcomes."""
    outcomes: list[_Outcome] = []
    for job in batch:
        result, error = None, None
        started_ns = _now_ns()
        try:
            result = job.run()
        except BaseException as raised:  # noqa: BLE001 - not swallowed: it is raised again on the loop
            error = raised
        outcomes.append((job, result, error, _now_ns() - started_ns))
    return outcomes


def _nothing() -> None:
    """Do nothing: a job that only marks a position in the queue."""


def _report(done: Callable[[OSError | None], None], error: BaseException | None) -> None:
    if error is not None and not isinstance(error, OSError):
        raise error  # a bug in a job: the loop's exception handler logs it
    done(error)


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)
