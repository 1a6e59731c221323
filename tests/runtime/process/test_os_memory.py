"""The allocator of a broker's process keeps buffers of a batch's size, and still gives back large ones; the collector leaves
alone what a start makes."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys

import pytest

from runtime.process.os_memory import allocating_permanent_objects

_FAULTS = """
import resource
from runtime.process.os_memory import keep_freed_buffers
{setup}
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        buffers = [b"x" * {size} for _ in range(3)]
        del buffers
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def _faults(setup: str, size: int) -> int:
    code = _FAULTS.format(setup=setup, size=size)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these limits")
def test_buffers_of_a_batch_are_used_again_without_a_page_fault() -> None:
    assert _faults("assert keep_freed_buffers()", 1_000_000) < 1000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these limits")
def test_large_buffers_go_back_to_the_kernel() -> None:
    assert _faults("assert keep_freed_buffers()", 8_000_000) > 300 * 8_000_000 // 4096 // 2


def test_what_stays_is_never_looked_at_as_a_whole() -> None:
    full_collections, thresholds = 0, gc.get_threshold()

    def count(phase: str, info: dict[str, int]) -> None:
        nonlocal full_collections
        full_collections += phase == "start" and info["generation"] == 2

    gc.callbacks.append(count)
    try:
        with allocating_permanent_objects():
            made = [[number] for number in range(400_000)]
        assert full_collections == 0
        assert gc.get_threshold() == thresholds
        assert gc.get_freeze_count() >= len(made)
    finally:
        gc.callbacks.remove(count)
        gc.unfreeze()
