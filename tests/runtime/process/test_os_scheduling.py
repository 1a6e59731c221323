"""How threads give way: what the kernel says of them afterwards, and where it lets nobody choose."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from runtime.disk.os_disk_queue import OsDisk
from runtime.process import os_scheduling
from runtime.process.os_scheduling import LEAST_PRIORITY, LONGEST_SLICE_NS, NICENESS, lower_priority

# sched_getattr; before 6.12 the kernel has no slice to tell.
ASKING = {"x86_64": 315, "aarch64": 275, "riscv64": 275}
UNKNOWN_SLICE_NS = 0


@dataclass(frozen=True, slots=True)
class Place:
    policy: int
    niceness: int
    slice_ns: int


def place() -> Place:
    """Of the calling thread."""
    slice_ns = UNKNOWN_SLICE_NS
    if number := ASKING.get(os.uname().machine):
        attributes = ctypes.create_string_buffer(48)
        assert ctypes.CDLL(None).syscall(number, 0, attributes, 48, 0) == 0
        slice_ns = struct.unpack("=IIQiIQQQ", attributes.raw)[5]
    return Place(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), slice_ns)


def nicer(niceness: int) -> int:
    """What a thread of a process that is so nice gets."""
    return min(niceness + NICENESS, LEAST_PRIORITY)


def place_of_a_thread(story: Callable[[], object]) -> Place:
    found: list[Place] = []

    def work() -> None:
        story()
        found.append(place())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    return found[0]


def test_a_thread_comes_last_and_no_other_does() -> None:
    before = place()
    given = place_of_a_thread(lower_priority)
    assert given.policy == os.SCHED_BATCH
    assert given.niceness == nicer(before.niceness)
    assert given.slice_ns in (LONGEST_SLICE_NS, UNKNOWN_SLICE_NS)
    assert place() == before


def test_a_broker_that_is_nice_itself_has_threads_that_are_as_nice_as_can_be() -> None:
    def story() -> None:
        os.setpriority(os.PRIO_PROCESS, 0, LEAST_PRIORITY - 1)
        lower_priority()

    assert place_of_a_thread(story).niceness == LEAST_PRIORITY


@pytest.mark.parametrize("calls", [{}, {os.uname().machine: 100_000}], ids=["unknown machine", "unknown call"])
def test_where_no_slice_can_be_chosen_the_rest_is(monkeypatch: pytest.MonkeyPatch, calls: dict[str, int]) -> None:
    monkeypatch.setattr(os_scheduling, "_CALLS", calls)
    usual = place()
    given = place_of_a_thread(lower_priority)
    assert given.policy == os.SCHED_BATCH
    assert given.niceness == nicer(usual.niceness)


def test_where_nothing_can_be_chosen_a_thread_is_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(errno.EPERM, "operation not permitted")

    monkeypatch.setattr(os_scheduling, "_CALLS", {})
    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    assert place_of_a_thread(lower_priority) == place()


async def test_readers_give_way_and_the_loop_does_not() -> None:
    disk, of_loop = OsDisk(), place()
    of_reader = await disk.readers().run(place)
    assert of_reader.policy == os.SCHED_BATCH
    assert of_reader.niceness == nicer(of_loop.niceness)
    assert place() == of_loop
    await disk.close()
