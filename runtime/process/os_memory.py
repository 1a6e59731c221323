"""Tunes the process's memory: how the C allocator keeps freed buffers, and which objects the garbage collector visits.

Rules: only glibc has the allocator's options; elsewhere nothing is changed. Buffers above
`RETURNED_AT_ONCE_BYTES` go back to the kernel when they are freed, as do the heap's last bytes above `KEPT_FREE_BYTES`.
Source: mallopt(3); docs/decisions/008-freed-buffers-stay.md, docs/decisions/001-garbage-collector.md.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

RETURNED_AT_ONCE_BYTES = 4 * 1024 * 1024
KEPT_FREE_BYTES = 16 * 1024 * 1024
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_buffers() -> bool:
    """Let freed buffers of a usual batch (1 MiB) be reused without a page fault for each of their pages.

    glibc adapts its limits to earlier frees, so that the same load gets its buffers from the heap in one run and from the
    kernel in another. Returns True when the limits are set.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return bool(mallopt(_M_MMAP_THRESHOLD, RETURNED_AT_ONCE_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_FREE_BYTES))


# The number of collections of the middle generation before a full one.
_NEVER = 1 << 30


@contextmanager
def allocating_permanent_objects() -> Iterator[None]:
    """Allocate objects that live as long as the process: the collector never visits them all, neither within the block, where
    each new object would cause it, nor later."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(young, middle, old)
