from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.disk import os_disk_queue
from runtime.disk.os_disk_queue import READER_THREADS, OsDisk, OsDiskQueue, OsReaders
from runtime.disk.os_filesystem import OsFileSystem
from tests.async_tests import played_by


def run(program: Callable[[OsDisk], object]) -> object:
    async def main() -> object:
        disk = OsDisk()
        try:
            return await program(disk)  # type: ignore[misc]
        finally:
            await disk.close()

    return asyncio.run(main())


@played_by(run)
async def test_a_write_runs_inline_while_nothing_is_queued(disk: OsDisk) -> None:
    seen: list[object] = []
    disk.queue("d").write(lambda: seen.append(threading.current_thread()), lambda error: seen.append(error))
    assert seen == [threading.main_thread(), None]


@played_by(run)
async def test_writes_queue_behind_a_job_in_order_and_report_on_the_loop(disk: OsDisk) -> None:
    queue = disk.queue("d")
    gate = threading.Event()
    order: list[str] = []
    done_on: list[threading.Thread] = []

    def sync() -> None:
        assert gate.wait(10)
        order.append("sync")

    job = queue.run(sync)
    for name in ("a", "b"):
        queue.write(
            lambda name=name: order.append(name),  # type: ignore[misc]
            lambda _: done_on.append(threading.current_thread()),
        )
    assert order == []
    gate.set()
    await job
    await queue.drain()
    assert order == ["sync", "a", "b"]
    assert done_on == [threading.main_thread()] * 2
    queue.write(lambda: order.append("inline"), lambda _: None)
    assert order[-1] == "inline"


@played_by(run)
async def test_after_a_slow_write_the_next_ones_leave_the_loop(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os_disk_queue, "SLOW_WRITE_NS", -1)  # every write is slow
    monkeypatch.setattr(os_disk_queue, "VERY_SLOW_WRITE_NS", -1)
    monkeypatch.setattr(os_disk_queue, "FIRST_SLOW_PERIOD_NS", 10**12)
    queue = disk.queue("d")
    threads: list[threading.Thread] = []
    for _ in range(3):
        queue.write(lambda: threads.append(threading.current_thread()), lambda _: None)
    await queue.drain()
    assert threads[0] is threading.main_thread()
    assert threading.main_thread() not in threads[1:]


def test_writes_come_back_to_the_loop_and_stay_off_longer_when_the_disk_stays_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ns, write_ns = 10_000_000_000, [0]

    def read_clock() -> int:
        return now_ns

    def write(_thread: list[threading.Thread]) -> None:
        nonlocal now_ns
        _thread.append(threading.current_thread())
        if threading.current_thread() is threading.main_thread():
            now_ns += write_ns[0]

    async def program(disk: OsDisk) -> None:
        nonlocal now_ns
        queue = disk.queue("d")

        async def is_inline(after_ns: int, takes_ns: int) -> bool:
            nonlocal now_ns
            now_ns += after_ns
            write_ns[0] = takes_ns
            seen: list[threading.Thread] = []
            queue.write(lambda: write(seen), lambda _: None)
            await queue.drain()
            return seen == [threading.main_thread()]

        slow, first = os_disk_queue.VERY_SLOW_WRITE_NS + 1, os_disk_queue.FIRST_SLOW_PERIOD_NS
        assert await is_inline(0, slow)
        assert not await is_inline(first - 1, 0)
        assert await is_inline(1, slow)
        assert not await is_inline(2 * first - 1, 0)
        assert await is_inline(1, 0)
        assert await is_inline(os_disk_queue.SLOW_MEMORY_NS, slow)
        assert not await is_inline(first - 1, 0)
        assert await is_inline(1, 0)

    monkeypatch.setattr(os_disk_queue, "_now_ns", read_clock)
    run(program)


@pytest.mark.parametrize("waits", [False, True])
@played_by(run)
async def test_a_slow_write_leaves_the_loop_only_when_the_thread_waited(
    disk: OsDisk, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    monkeypatch.setattr(os_disk_queue, "SLOW_WRITE_NS", -1)  # every write is slow
    monkeypatch.setattr(os_disk_queue, "FIRST_SLOW_PERIOD_NS", 10**12)
    never = threading.Event()
    queue = disk.queue("d")
    threads: list[threading.Thread] = []

    def write() -> None:
        threads.append(threading.current_thread())
        if waits:
            never.wait(0.001)  # gives the core away of its own will, as a write does that meets a disk

    for _ in range(3):  # the first is not watched yet
        queue.write(write, lambda _: None)
    await queue.drain()
    main = threading.main_thread()
    assert [thread is main for thread in threads] == [True, True, not waits]


@pytest.mark.parametrize("content", [b"", b"bytes"])
@played_by(run)
async def test_a_write_is_made_now_or_not_at_all(disk: OsDisk, tmp_path: Path, content: bytes) -> None:
    queue = disk.queue("d")
    file = OsFileSystem().open(str(tmp_path / "file"), create=True)
    assert queue.write_now(file, content, 3)
    gate = threading.Event()
    job = queue.run(lambda: gate.wait(10))
    assert not queue.write_now(file, b"no", 0)
    gate.set()
    await job
    file.close()
    assert (tmp_path / "file").read_bytes() == (bytes(3) + content if content else b"")
    with pytest.raises(OSError, match="Bad file descriptor"):
        queue.write_now(file, b"x", 0)


@pytest.mark.parametrize("behind_a_job", [False, True])
@played_by(run)
async def test_errors_go_to_whom_they_belong(disk: OsDisk, behind_a_job: bool) -> None:
    def fail() -> None:
        raise OSError(5, "bad disk")

    queue = disk.queue("d")
    errors: list[OSError | None] = []
    job = queue.run(fail) if behind_a_job else None
    queue.write(fail, errors.append)
    queue.write(lambda: None, errors.append)
    if job is not None:
        with pytest.raises(OSError, match="bad disk"):
            await job
    await queue.drain()
    assert [error and error.errno for error in errors] == [5, None]


@played_by(run)
async def test_writes_that_waited_for_a_job_come_back_to_the_loop_in_order(disk: OsDisk) -> None:
    queue = disk.queue("d")
    gate = threading.Event()
    ran: list[tuple[int, bool]] = []

    def note(number: int) -> None:
        ran.append((number, threading.current_thread() is threading.main_thread()))

    def done(number: int) -> None:
        if number == 1:  # given while others wait: behind them
            queue.write(lambda: note(3), lambda _: None)

    job = queue.run(lambda: gate.wait(10))
    for number in (0, 1, 2):
        queue.write(lambda number=number: note(number), lambda _, number=number: done(number))  # type: ignore[misc]
    gate.set()
    await job
    await queue.drain()
    assert ran == [(0, True), (1, True), (2, True), (3, True)]


def test_clients_that_write_again_at_each_report_do_not_keep_the_queue_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ns = 10_000_000_000
    clients, write_ns = 1_000, os_disk_queue.INLINE_TURN_NS // 500  # twice what a first turn works off

    def take_time() -> None:
        nonlocal now_ns
        now_ns += write_ns

    async def program(disk: OsDisk) -> None:
        queue = disk.queue("d")
        loop = asyncio.get_running_loop()
        gate = threading.Event()
        is_over = asyncio.Event()
        writes = [0]

        def write() -> None:
            writes[0] += 1
            given = [True]  # to the queue, until `write` returns
            queue.write(take_time, lambda _: reported(is_inline=given[0]))
            given[0] = False

        def reported(*, is_inline: bool) -> None:
            if is_inline or writes[0] > 20 * clients:
                is_over.set()
            if not is_over.is_set():
                loop.call_soon(write)

        job = queue.run(lambda: gate.wait(10))
        for _ in range(clients):
            write()
        gate.set()
        await job
        await is_over.wait()
        assert writes[0] < 5 * clients

    monkeypatch.setattr(os_disk_queue, "_now_ns", lambda: now_ns)
    run(program)


@pytest.mark.parametrize("is_slow", [False, True])
@played_by(run)
async def test_a_bug_in_a_report_loses_none_of_the_others(
    disk: OsDisk, monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    if is_slow:
        monkeypatch.setattr(os_disk_queue, "FIRST_SLOW_PERIOD_NS", 10**12)
    queue = disk.queue("d")
    assert isinstance(queue, OsDiskQueue)
    gate, done, logged = threading.Event(), [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context["exception"]))

    def fail() -> None:
        raise ZeroDivisionError

    job = queue.run(lambda: gate.wait(10))
    queue.write(fail, lambda _: None)
    for number in (1, 2):
        queue.write(lambda: None, lambda _, number=number: done.append(number))  # type: ignore[misc]
    if is_slow:
        queue._avoid_inline_writes(os_disk_queue._now_ns())
    gate.set()
    await job
    await queue.drain()
    assert done == [1, 2]
    assert [type(error) for error in logged] == [ZeroDivisionError]


@played_by(run)
async def test_run_gives_the_result_and_a_cancelled_waiter_hurts_nobody(disk: OsDisk) -> None:
    queue = disk.queue("d")
    gate = threading.Event()
    abandoned = asyncio.ensure_future(queue.run(lambda: gate.wait(10)))
    abandoned.cancel()
    gate.set()
    assert await queue.run(lambda: 42) == 42


@played_by(run)
async def test_one_queue_for_each_directory(disk: OsDisk) -> None:
    assert disk.queue("a") is disk.queue("a")
    assert disk.queue("a") is not disk.queue("b")


@played_by(run)
async def test_close_runs_what_is_queued_and_ends_the_thread(disk: OsDisk) -> None:
    queue = disk.queue("closing")
    assert isinstance(queue, OsDiskQueue)
    order: list[int] = []
    first = queue.run(lambda: order.append(1))
    queue.write(lambda: order.append(2), lambda _: None)
    await queue.close()
    await first
    assert order == [1, 2]
    assert "disk closing" not in [thread.name for thread in threading.enumerate()]


@played_by(run)
async def test_readers_run_elsewhere_and_side_by_side(disk: OsDisk) -> None:
    barrier = threading.Barrier(2, timeout=10)

    def read() -> str:
        barrier.wait()
        return threading.current_thread().name

    readers = disk.readers()
    names = await asyncio.gather(readers.run(read), readers.run(read))
    assert all(name.startswith("cold read") for name in names)


@played_by(run)
async def test_readers_report_errors_and_start_no_more_threads_than_they_may(disk: OsDisk) -> None:
    def fail() -> None:
        raise OSError("bad disk")

    def read() -> str:
        time.sleep(0.001)
        return threading.current_thread().name

    readers = disk.readers()
    with pytest.raises(OSError, match="bad disk"):
        await readers.run(fail)
    for _ in range(3):
        assert len({await readers.run(read) for _ in range(5)}) == 1  # there is one that has nothing to do
    assert len(set(await asyncio.gather(*(readers.run(read) for _ in range(50))))) <= READER_THREADS


@played_by(run)
async def test_readers_that_are_closed_begin_nothing_more(disk: OsDisk) -> None:
    readers = OsReaders(asyncio.get_running_loop(), threads=1)
    begun, go_on = threading.Event(), threading.Event()

    def read() -> str:
        begun.set()
        go_on.wait(10)
        return "read"

    first = asyncio.ensure_future(readers.run(read))
    given_up, last = readers.run(read), readers.run(read)
    assert isinstance(given_up, asyncio.Future)
    given_up.cancel()
    await asyncio.to_thread(begun.wait, 10)
    await readers.close()
    with pytest.raises(asyncio.CancelledError):
        await last
    go_on.set()
    assert await first == "read"


@played_by(run)
async def test_without_a_thread_the_loop_does_the_work(disk: OsDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """No memory for a stack: what was given is done all the same, and threads are asked for again."""
    refusals = 2 * (READER_THREADS + 1)
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise RuntimeError("can't start new thread")
        start(thread)

    queue, readers = disk.queue("d"), disk.readers()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(READER_THREADS + 1):
        async with asyncio.timeout(20):
            assert await queue.run(threading.current_thread) is threading.main_thread()
            assert await readers.run(threading.current_thread) is threading.main_thread()
    async with asyncio.timeout(20):
        assert await queue.run(threading.current_thread) is not threading.main_thread()
        assert await readers.run(threading.current_thread) is not threading.main_thread()
