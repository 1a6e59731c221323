"""A thread's place in the scheduler: helpers give way to the event loop, and to everybody else's threads.

A helper works half a millisecond at a time, in the kernel for the most part. Linux would let it end what it began: whoever
wakes up on its core waits, even if another core has nothing to do, for a running thread keeps its core for a slice (1.4 ms on
two cores) and whoever had more than its share has to wait for those who had less. So helpers get three things, none of which
needs a right: they are batch work, which never takes a core from who runs; their slice is the longest there is, for Linux lets
those with shorter slices (everybody) interrupt those with longer ones; and their share is a tenth, so that the loop is owed the
core again at once. A tenth is no less than all where nobody else wants the core.

Rules: Linux; where the kernel is older (before 6.12 slices are nobody's choice), or a sandbox forbids a call, a thread works
as any other.
Why not less than a tenth: a helper that is not let on may hold the interpreter's lock, and the loop waits for that as well.
Source: sched_setattr(2), sched(7), EEVDF; docs/decisions/020-helper-threads-give-way.md.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress

# Of a process of usual priority: a weight of 110 beside 1024.
NICENESS = 10
LEAST_PRIORITY = 19
LONGEST_SLICE_NS = 100_000_000
# sched_setattr by machine, of 64 bits; the C library has no function for it.
_CALLS = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")


def lower_priority() -> None:
    """Apply the three settings to the calling thread, once."""
    with suppress(OSError):
        niceness = min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, LEAST_PRIORITY)
        if not _set_attributes(os.SCHED_BATCH, niceness, LONGEST_SLICE_NS):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, niceness)


def _set_attributes(policy: int, niceness: int, slice_ns: int) -> bool:
    """Set scheduling attributes; returns False where the call is unknown or forbidden."""
    number = _CALLS.get(os.uname().machine) if sys.maxsize > 1 << 32 else None
    if number is None:
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):  # another C library
        return False
    call.argtypes, call.restype = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint), ctypes.c_long
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, policy, 0, niceness, 0, slice_ns, 0, 0)
    return bool(call(number, 0, attributes, 0) == 0)
